package recommender

import "time"

// Input is everything that a recommendation for one container depends on.
type Input struct {
	Container string
	Profile   Profile
	Settings  Settings
	// Original is what the container had before attune: its limit-to-request ratio is kept.
	Original Size
	// Floors learned from harm, indexed by Resource.
	Floors [2]Floor
	// Held names a reason not to change a resource that only the caller can know (HPA, VPA), or is nil.
	Held [2]*Hold
	// NotRunning: no pod ran since the last step for so long that it had to be measured. A history that has ended is
	// then no sign of a source that is silent.
	NotRunning bool
	// CountRuns: what is measured runs now and then (Jobs), and a few whole runs say as much as many steps.
	CountRuns bool
	// Now is the time of the decision.
	Now time.Time
}

// Reason is the word a hold is known by.
type Reason string

// Reasons of holds.
const (
	InsufficientData   Reason = "InsufficientData"
	StaleData          Reason = "StaleData"
	NotRunning         Reason = "NotRunning"
	NoData             Reason = "NoData"
	SmallChange        Reason = "SmallChange"
	DecreaseNotAllowed Reason = "AllowDecrease"
	FloorAboveMaximum  Reason = "FloorAboveMaxAllowed"
)

// Hold says why a resource has no target or is not changed. NoData and InsufficientData come without a
// target. With any other hold the target is still shown, and nothing of that resource is applied; with NotRunning
// to no running pod, as there is none: a new one may be given it.
type Hold struct {
	Resource Resource
	Reason   Reason
	// Message is one sentence with the figures.
	Message string
}

// Step is one rule at work: its name, the amount before and after it, and why.
type Step struct {
	Resource      Resource
	Name          string
	Before, After Amount
	Reason        string
}

// Recommendation is where a container is heading, and why.
type Recommendation struct {
	Container string
	// Confidence from 0 to 1 and DataPoints are those of the resource that is known less well, of the
	// resources that were measured at all.
	Confidence float64
	DataPoints int
	// Target is the size after the bounds. A resource that is held without a target is zero.
	Target Size
	// MemoryLimitFloor is what no memory limit may be below: 1.1 times the peak, and the learned floor;
	// only the latter where the history is too short or too old to be relied on.
	MemoryLimitFloor Amount
	Holds            []Hold
	Steps            []Step
}

// Recommend computes where a container is heading. It is a pure function; the steps that it returns are
// the computation, in order: percentile, margin, burst, confidence, floor, bounds, for CPU and then for
// memory. A resource without enough data has no steps.
func Recommend(in Input) Recommendation {
	t := newTrace()
	r := recommend(&in, t)
	r.Steps = t.finish()
	return r
}

// Target is Recommend without the steps, at a fraction of its cost: for those who decide often and
// explain nothing, such as a replay.
func Target(in Input) Recommendation { return recommend(&in, nil) }

func recommend(in *Input, t *trace) Recommendation {
	r := Recommendation{Container: in.Container}
	for _, resource := range Resources {
		c := chainOf(in, resource)
		r.countEvidence(&c)
		r.Target[resource] = c.target(t)
		r.Holds = c.appendHolds(r.Holds, in)
		if resource == Memory {
			r.MemoryLimitFloor = c.provenLimitFloor(in.Now)
		}
	}
	return r
}

// countEvidence keeps the lesser confidence and number of steps.
func (r *Recommendation) countEvidence(c *chain) {
	points := c.history.Points
	if points == 0 {
		return
	}
	if r.DataPoints == 0 {
		r.DataPoints, r.Confidence = points, c.confidence
		return
	}
	r.DataPoints, r.Confidence = min(r.DataPoints, points), min(r.Confidence, c.confidence)
}

// Unheld is the target without the resources that are held: what may be applied.
func (r Recommendation) Unheld() Size {
	target := r.Target
	for _, hold := range r.Holds {
		target[hold.Resource] = Allocation{}
	}
	return target
}

// Move is everything that one step of a live container towards its target depends on.
type Move struct {
	Container string
	// Target is the size after the bounds; a zero request leaves that resource alone.
	Target Size
	// MemoryLimitFloor is what no memory limit may be below.
	MemoryLimitFloor Amount
	// Live is what the pod has now, never its template.
	Live Size
	// Original is what the container had before attune: its limit-to-request ratio is kept.
	Original Size
	Settings Settings
}

// Change is the step from a live allocation towards a target.
type Change struct {
	// Next is what would be applied now; it equals the live size where nothing would.
	Next  Size
	Holds []Hold
	Steps []Step
}
