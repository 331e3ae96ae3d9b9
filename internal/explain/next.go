package explain

import (
	"slices"

	"attune.io/attune/internal/display"
	"attune.io/attune/recommender"
)

// heading is where a container is going, whoever computed it.
type heading struct {
	container        string
	target           recommender.Size
	memoryLimitFloor recommender.Amount
	holds            []Hold
	settings         recommender.Settings
}

// from is the step that a container with the size live would take now. What a hold stops stays as it is.
func (h heading) from(live, original recommender.Size) recommender.Change {
	target := h.target
	for _, r := range recommender.Resources {
		if h.held(r) {
			target[r] = recommender.Allocation{}
		}
	}
	return h.toward(target, live, original)
}

// toward is the step from the size live to a target.
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

func (h heading) held(r recommender.Resource) bool {
	return slices.ContainsFunc(h.holds, func(hold Hold) bool { return hold.Resource == r.String() })
}

// next is the size after the step. Of a resource that was never measured nothing is known, so it has
// no next size.
func (h heading) next(change recommender.Change) Amounts {
	size := change.Next
	for _, r := range recommender.Resources {
		if h.unmeasured(r) {
			size[r] = recommender.Allocation{}
		}
	}
	return display.AmountsOf(size)
}

func (h heading) unmeasured(r recommender.Resource) bool {
	return slices.ContainsFunc(h.holds, func(hold Hold) bool {
		return hold.Resource == r.String() && hold.Reason == string(recommender.NoData)
	})
}
