package autoscale

import (
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
)

// OOMFloor is the memory that a container's request is raised to although an HPA holds it, or its history
// says too little: what killed is never held, and a kill was seen on a pod, such as the first attempt of a
// Job. It is a least amount, in whole MiB so that its decay is not a new amount every moment, and no reason
// to lower anything. 0: nothing passes, as nothing holds the memory, nothing was learned, or it is held for
// a reason that stands above (a VPA, a floor above maxAllowed).
func OOMFloor(t v1alpha1.ContainerTarget, floors []v1alpha1.Floor, now time.Time) recommender.Amount {
	const mi = 1 << 20
	if !passable(t) || holds(t, resize.ReasonVPA) || holds(t, string(recommender.FloorAboveMaximum)) {
		return 0
	}
	floor := harm.OOMFloorOf(floors, t.Name, now)
	return (floor + mi - 1) / mi * mi
}

// passable: the memory is held, and by nothing that knows better than a kill.
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
