package lifecycle

import "attune.io/attune/resize"

// What the tests of this package see of it beside what others see.
const (
	EvictEvery = evictEvery
	EvictFor   = evictFor
	PollEvery  = pollEvery
	StepsEvery = stepsEvery
)

var (
	BaselineOf     = baselineOf
	GivingUpLimits = givingUpLimits
	InVain         = inVain
	NextResumed    = nextResumed
	NextUndoing    = nextUndoing
	SecondPatch    = secondPatch
)

// Idle is a state in which putting the pod back after such harm would put nothing back.
func (s State) Idle(h resize.Harm) State {
	s.idle = map[resize.Harm]bool{h: true}
	return s
}
