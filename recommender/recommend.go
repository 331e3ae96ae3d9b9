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
	// Now is the time of the decision.
	Now time.Time
}

// Reason is the word a hold is known by.
type Reason string

// Reasons of holds.
const (
	InsufficientData   Reason = "InsufficientData"
	StaleData          Reason = "StaleData"
	NoData             Reason = "NoData"
	SmallChange        Reason = "SmallChange"
	DecreaseNotAllowed Reason = "AllowDecrease"
	FloorAboveMaximum  Reason = "FloorAboveMaxAllowed"
)

// Hold says why a resource has no target or is not changed.
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
	Container  string
	Confidence float64
	DataPoints int
	// Target is the size after the bounds. A resource that is held without a target is zero.
	Target Size
	// MemoryLimitFloor is what no memory limit may be below.
	MemoryLimitFloor Amount
	Holds            []Hold
	Steps            []Step
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
