package resize

import (
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// floorGrain is what decayed memory floors are rounded up to (1 MiB). Without it a floor changes by some bytes in
// every pass, and each change would be written to the API server.
const floorGrain = 1 << 20

// FloorsOf returns the greatest floor of a container for each resource, decayed to the present; memory in whole
// MiB. Zero amounts mean that there is none. What OOM kills taught is given undecayed too (Floor.Taught).
func FloorsOf(floors []v1alpha1.Floor, container string, now time.Time) [2]recommender.Floor {
	var greatest [2]recommender.Floor
	for _, f := range floors {
		if f.Container != container {
			continue
		}
		r := recommender.ResourceOf(f.Resource)
		if left := DecayedFloor(f, now); left > greatest[r].Amount {
			greatest[r].Amount, greatest[r].Reason = left, f.Reason
		}
		if Harm(f.Reason) == HarmOOM && r == recommender.Memory {
			greatest[r].Taught = max(greatest[r].Taught, podview.AmountOf(r, f.Amount))
		}
	}
	if m := &greatest[recommender.Memory]; m.Amount > 0 {
		m.Amount = (m.Amount + floorGrain - 1) / floorGrain * floorGrain
	}
	return greatest
}

// RequestFloorsOf is FloorsOf for the requests of a container with this memory limit in bytes. A container is killed at
// its limit: where it has one, what OOM kills taught is a floor of the limit (OOMFloorOf), and none of the request.
func RequestFloorsOf(floors []v1alpha1.Floor, container string, limit recommender.Amount, now time.Time) [2]recommender.Floor {
	if limit > 0 {
		floors = slices.DeleteFunc(slices.Clone(floors), func(f v1alpha1.Floor) bool { return Harm(f.Reason) == HarmOOM })
	}
	return FloorsOf(floors, container, now)
}

// OOMFloorOf is LimitFloorOf, decayed; in bytes, 0: none.
func OOMFloorOf(floors []v1alpha1.Floor, container string, now time.Time) recommender.Amount {
	return LimitFloorOf(floors, container, now).Amount
}

// LimitFloorOf is FloorsOf for memory, from OOM kills alone.
func LimitFloorOf(floors []v1alpha1.Floor, container string, now time.Time) recommender.Floor {
	kills := slices.DeleteFunc(slices.Clone(floors), func(f v1alpha1.Floor) bool { return Harm(f.Reason) != HarmOOM })
	return FloorsOf(kills, container, now)[recommender.Memory]
}

// BelowFloor reports whether a container's size is below what harm taught it to stay above. OOM kills and
// throttling teach about limits, where there are limits; other harm about requests.
func BelowFloor(floors []v1alpha1.Floor, container string, size recommender.Size, now time.Time) bool {
	return slices.ContainsFunc(floors, func(f v1alpha1.Floor) bool {
		if f.Container != container {
			return false
		}
		has := size[recommender.ResourceOf(f.Resource)].Request
		if h := Harm(f.Reason); h == HarmOOM || h == HarmThrottle {
			has = podview.LimitOrRequest(size[recommender.ResourceOf(f.Resource)])
		}
		return has > 0 && has < DecayedFloor(f, now)
	})
}

// DecayedFloor is what is left of a floor at a time, in millicores or bytes (recommender.Decay).
func DecayedFloor(f v1alpha1.Floor, now time.Time) recommender.Amount {
	return recommender.Decay(podview.AmountOf(recommender.ResourceOf(f.Resource), f.Amount), f.LearnedAt.Time, now)
}
