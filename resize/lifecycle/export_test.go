package lifecycle

import "attune.io/attune/resize"

// Unexported names that the tests of this package need.
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

// Idle returns a state in which a revert after this regression would restore nothing.
func (s State) Idle(h resize.Harm) State {
	s.idle = map[resize.Harm]bool{shortage(h): true}
	return s
}
