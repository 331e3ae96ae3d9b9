package resize

import (
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// TargetFrom returns the final size of a container that now has live: its stored target t without the blocked resources
// (zero: leave them unchanged). Floors may be newer than the stored target, so two rules apply:
//   - Without a limit, the request is raised to the minimum learned from an OOM kill (OOMFloor), unless an HPA scales
//     on it. A history that is too short does not prevent this.
//   - No request is lowered below a minimum learned from a regression: the target is at least the smaller of the live
//     request and the floor.
//
// An OOM kill of a container with a limit raises the limit (package tuning). The policy loop decides any other raise to
// a floor, within the policy's bounds.
func TargetFrom(t v1alpha1.ContainerTarget, live recommender.Size, floors []v1alpha1.Floor, now time.Time) recommender.Size {
	target := Unheld(t)
	limit := live[recommender.Memory].Limit
	if floor := OOMFloor(t, floors, now); limit == 0 && !ScaledOn(t, recommender.Memory) && floor > live[recommender.Memory].Request {
		target[recommender.Memory].Request = floor
	}
	learned := RequestFloorsOf(floors, t.Name, limit, now)
	for _, r := range recommender.Resources {
		if target[r].Request > 0 {
			target[r].Request = max(target[r].Request, min(live[r].Request, learned[r].Amount))
		}
	}
	return target
}

// Unheld returns a target with the blocked resources set to zero, which means "leave it unchanged".
func Unheld(t v1alpha1.ContainerTarget) recommender.Size {
	size := podview.FromResources(t.Target)
	for _, r := range recommender.Resources {
		if HeldFor(t.Holds, r) {
			size[r] = recommender.Allocation{}
		}
	}
	return size
}

// OOMFloor returns the memory, in bytes, to which a container's limit is raised although its memory is blocked: by an
// HPA, by missing or implausible data, or by the size of nodes. 0: no exception. A container is killed at its limit, so
// the request of a container with a limit stays if an HPA scales on it. Only the request of a killed Guaranteed pod
// follows the limit.
//
// It is a minimum and not a reason to lower an amount. It is 0 if the memory is not blocked, if no minimum was learned,
// and if a reason with precedence blocks it (a VPA, a floor above maxAllowed).
func OOMFloor(t v1alpha1.ContainerTarget, floors []v1alpha1.Floor, now time.Time) recommender.Amount {
	if !HeldFor(t.Holds, recommender.Memory, passable...) || HeldFor(t.Holds, recommender.Memory, ReasonVPA, recommender.FloorAboveMaximum) {
		return 0
	}
	return OOMFloorOf(floors, t.Name, now)
}

// passable are the reasons to block memory over which an OOM kill takes precedence.
var passable = []recommender.Reason{ReasonHPA, recommender.NoData, recommender.InsufficientData, recommender.StaleData,
	recommender.UsageImplausible, ReasonNodeCapacity}

// KeptRange returns the stored range in which HPAs keep the number of replicas; nil: none is stored.
func KeptRange(t v1alpha1.ContainerTarget, r recommender.Resource) *recommender.Kept {
	row := podview.FirstIn(t.Kept, func(k *v1alpha1.KeptRequest) bool { return k.Resource == r.String() })
	if row == nil {
		return nil
	}
	return &recommender.Kept{Least: podview.AmountOf(r, row.Least), Most: podview.FromPointer(r, row.Most), Reason: ReasonHPA}
}

// ScaledOn reports whether an HPA scales on the request of a container, according to its stored target: it is blocked,
// or changes only within a range.
func ScaledOn(t v1alpha1.ContainerTarget, r recommender.Resource) bool {
	return HeldFor(t.Holds, r, ReasonHPA) || KeptRange(t, r) != nil
}

// HeldFor reports whether a resource is blocked for one of some reasons; without reasons, for any.
func HeldFor(holds []v1alpha1.Hold, r recommender.Resource, reasons ...recommender.Reason) bool {
	return slices.ContainsFunc(holds, func(h v1alpha1.Hold) bool {
		return h.Resource == r.String() && (len(reasons) == 0 || slices.Contains(reasons, recommender.Reason(h.Reason)))
	})
}
