package explain

import (
	"slices"

	"attune.io/attune/internal/display"
	"attune.io/attune/recommender"
)

// heading is a container's target with what its next step needs to know.
type heading struct {
	container string
	// target is the recommended size; memoryLimitFloor is the lowest memory limit, in bytes, or 0.
	target           recommender.Size
	memoryLimitFloor recommender.Amount
	holds            []Hold
	settings         recommender.Settings
}

// from returns the next step from the size live. A resource with a hold stays as it is.
func (h heading) from(live, original recommender.Size) recommender.Change {
	// A target of zero means to the recommender that the resource stays.
	target := h.target
	for _, r := range recommender.Resources {
		if h.held(r) {
			target[r] = recommender.Allocation{}
		}
	}
	return h.toward(target, live, original)
}

// toward returns the next step from the size live to a target.
func (h heading) toward(target, live, original recommender.Size) recommender.Change {
	return recommender.NextStep(recommender.Move{
		Container:        h.container,
		Target:           target,
		MemoryLimitFloor: h.memoryLimitFloor,
		Live:             live,
		Original:         original,
		Settings:         h.settings,
	})
}

// held returns whether any hold stops the resource.
func (h heading) held(r recommender.Resource) bool {
	return slices.ContainsFunc(h.holds, func(hold Hold) bool { return hold.Resource == r.String() })
}

// next returns the size after the step. A resource that was never measured has no next size, because nothing is
// known of it.
func (h heading) next(change recommender.Change) Amounts {
	size := change.Next
	for _, r := range recommender.Resources {
		if h.unmeasured(r) {
			size[r] = recommender.Allocation{}
		}
	}
	return display.AmountsOf(size)
}

// unmeasured returns whether the resource has no data (hold NoData).
func (h heading) unmeasured(r recommender.Resource) bool {
	return slices.ContainsFunc(h.holds, func(hold Hold) bool {
		return hold.Resource == r.String() && hold.Reason == string(recommender.NoData)
	})
}
