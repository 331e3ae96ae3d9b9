package resize

// What the tests of this package see of it beside what others see.
const (
	EvictEvery   = evictEvery
	EvictFor     = evictFor
	MostAlike    = mostAlike
	MostBoosts   = mostBoosts
	PollEvery    = pollEvery
	RefusedQuota = refusedQuota
	StepsEvery   = stepsEvery
)

// Gate is one of the gates.
type Gate = gate

var (
	BaselineOf     = baselineOf
	FirstClosed    = firstClosed
	GivingUpLimits = givingUpLimits
	MinorOf        = minor
	InVain         = inVain
	NextResumed    = nextResumed
	NextUndoing    = nextUndoing
	PlanOf         = planOf
	QuotaGate      = quota
	SecondPatch    = secondPatch
	SeedOf         = seedOf
	Steps          = steps
	TimeOf         = timeOf
	TriedLately    = triedLately
)

// Idle is a state in which putting the pod back after such harm would put nothing back.
func (s State) Idle(h Harm) State {
	s.idle = map[Harm]bool{h: true}
	return s
}
