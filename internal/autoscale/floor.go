package autoscale

import (
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
)

// OOMFloor is the memory, in bytes, to which a container's request is raised although an HPA holds it or its
// history is too short; 0: no exception. A kill was seen on a pod, so its answer is never held.
//
// It is a least amount and no reason to lower anything. It is rounded up to whole MiB, as its decay would
// otherwise make a new amount in every pass. It is 0 where the memory is not held, where nothing was learned, and
// where a reason with precedence holds it (a VPA, a floor above maxAllowed).
func OOMFloor(t v1alpha1.ContainerTarget, floors []v1alpha1.Floor, now time.Time) recommender.Amount {
	const mi = 1 << 20
	if !passable(t) || holds(t, resize.ReasonVPA) || holds(t, string(recommender.FloorAboveMaximum)) {
		return 0
	}
	floor := harm.OOMFloorOf(floors, t.Name, now)
	return (floor + mi - 1) / mi * mi
}

// passable reports whether the memory is held for a reason over which an OOM kill has precedence.
func passable(t v1alpha1.ContainerTarget) bool {
	return holds(t, resize.ReasonHPA) || holds(t, string(recommender.NoData)) ||
		holds(t, string(recommender.InsufficientData)) || holds(t, string(recommender.StaleData))
}

// holds reports whether the container's memory is held for a reason.
func holds(t v1alpha1.ContainerTarget, reason string) bool {
	return slices.ContainsFunc(t.Holds, func(h v1alpha1.Hold) bool {
		return h.Resource == recommender.Memory.String() && h.Reason == reason
	})
}
