package resize

import (
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// FloorsOf returns the greatest floor of a container for each resource, decayed to now; memory in whole MiB. 0: no
// floor. Floor.Taught is the minimum learned from OOM kills, not decayed.
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
	m := &greatest[recommender.Memory]
	m.Amount = recommender.WholeMiB(m.Amount)
	return greatest
}

// RequestFloorsOf is FloorsOf for the requests of a container with this memory limit in bytes. A container is killed at
// its limit: if it has one, the minimum learned from OOM kills applies to the limit (OOMFloorOf), not to the request.
func RequestFloorsOf(floors []v1alpha1.Floor, container string, limit recommender.Amount, now time.Time) [2]recommender.Floor {
	if limit > 0 {
		floors = slices.DeleteFunc(slices.Clone(floors), func(f v1alpha1.Floor) bool { return Harm(f.Reason) == HarmOOM })
	}
	return FloorsOf(floors, container, now)
}

// OOMFloorOf returns the decayed amount of LimitFloorOf, in bytes; 0 if there is no such floor.
func OOMFloorOf(floors []v1alpha1.Floor, container string, now time.Time) recommender.Amount {
	return LimitFloorOf(floors, container, now).Amount
}

// LimitFloorOf is FloorsOf for memory, from OOM kills only.
func LimitFloorOf(floors []v1alpha1.Floor, container string, now time.Time) recommender.Floor {
	kills := slices.DeleteFunc(slices.Clone(floors), func(f v1alpha1.Floor) bool { return Harm(f.Reason) != HarmOOM })
	return FloorsOf(kills, container, now)[recommender.Memory]
}

// BelowFloor reports whether a container's size is below a minimum learned from a regression. For OOM kills and
// throttling it compares the limit, or the request if no limit is set; for other regressions the request.
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

// DecayedFloor returns the decayed amount of a floor at a time, in millicores or bytes (recommender.Decay). It falls in
// grains of at least 1 MiB and at most 1/256: otherwise it would change by some bytes in every reconcile, and each
// change would be written to the API server.
func DecayedFloor(f v1alpha1.Floor, now time.Time) recommender.Amount {
	const mebibyte = 1 << 20
	r := recommender.ResourceOf(f.Resource)
	learned := podview.AmountOf(r, f.Amount)
	left := recommender.Decay(learned, f.LearnedAt.Time, now)
	if r == recommender.CPU || left == 0 {
		return left
	}
	grain := max(mebibyte, learned>>8)
	return learned - (learned-left)/grain*grain
}
