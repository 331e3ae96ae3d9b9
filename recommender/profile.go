package recommender

import "time"

// Distribution is a set of usage values, one a step.
type Distribution interface {
	// Quantile is the value that the fraction q (0 to 1) of the steps does not exceed, interpolated
	// linearly between neighbours as PromQL's quantile_over_time does; 0 if empty.
	Quantile(q float64) Usage
	// Count is the number of steps.
	Count() int
}

// Profile is a digest of one container's history, over all replicas (the highest one's value each
// step) and across template generations.
type Profile struct {
	Of [2]ResourceProfile
	// First and Last are the times of the first and the last step with data of either resource.
	First, Last time.Time
	// Gaps counts steps between First and Last without data.
	Gaps int
	// Runs counts the stretches of time with data that RunGap steps or more without part.
	Runs int
}

// RunGap is how many steps without data end a run: one alone may have been lost.
const RunGap = 2

// Runs of what runs now and then that are enough for a target, and for one that may lower a request.
const (
	FirstRuns  = 3
	ProvenRuns = 7
)

// WholeRuns are those that have ended: the last one may still go on.
func (p *Profile) WholeRuns(step time.Duration, now time.Time) int {
	if p.Runs > 0 && now.Sub(p.Last) <= RunGap*step {
		return p.Runs - 1
	}
	return p.Runs
}

// ResourceProfile is the history of one resource. A resource that was never measured has Points 0.
type ResourceProfile struct {
	// Hours are the distributions by hour of the day, UTC; an hour without data may be nil.
	Hours [24]Distribution
	// Overall is the distribution of every step.
	Overall Distribution
	// Peak is the true maximum: never a down-sampled one.
	Peak Usage
	// Points counts steps with data.
	Points      int
	First, Last time.Time
}

// Floor is an amount that harm taught not to go below, already decayed to the present.
type Floor struct {
	Amount Amount
	// Reason is what taught it: oomkill, throttle, restart, notready or slo.
	Reason string
}
