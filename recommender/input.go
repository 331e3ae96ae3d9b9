package recommender

import (
	"math"
	"time"
)

// Settings are the settings of a recommendation. Every field is set and validated when the settings are made
// (internal/policy); this package does not check them again.
type Settings struct {
	// HistoryWindow is the length of the history. Full confidence needs all of it, at most 7 days.
	HistoryWindow time.Duration
	// QueryStep is the length of one step of history.
	QueryStep time.Duration
	// MinimumDataPoints is the number of steps with data that a recommendation needs.
	MinimumDataPoints int
	// Adaptive are the settings of the strategy Adaptive; the zero value means another strategy.
	Adaptive AdaptiveSettings `json:",omitzero"`
	// Of has each resource's own settings, indexed by Resource.
	Of [2]ResourceSettings
}

// ResourceSettings are the settings of one resource.
type ResourceSettings struct {
	// Percentile of usage, from 1 to 100.
	Percentile int
	// OverheadPercent is the headroom above the percentile, in percent.
	OverheadPercent float64
	// BurstSensitivity weighs bursts; 0 disables the burst rule.
	BurstSensitivity float64
	// MinAllowed and MaxAllowed bound the request; zero means no bound.
	MinAllowed, MaxAllowed Amount
	// MaxChangePercent caps one resize step, in percent of the live allocation.
	MaxChangePercent int
	// LimitsFollow: limits keep the original ratio to the request; otherwise limits do not change.
	LimitsFollow bool
	// Limits replaces the original ratio where limits follow; only of CPU.
	Limits LimitRule `json:",omitzero"`
	// AllowDecrease allows lowering the request.
	AllowDecrease bool
	// Uncontrolled is the field by which the policy leaves request and limit of the resource as they are; empty: attune
	// sizes it.
	Uncontrolled string `json:",omitempty"`
	// KeepReplicas: a request on which a HorizontalPodAutoscaler scales changes within Input.Kept. Otherwise it does not
	// change.
	KeepReplicas bool `json:",omitempty"`
	// Retarget: the target of the HorizontalPodAutoscaler may change together with the request.
	Retarget bool `json:",omitempty"`
}

// Distribution is a set of usage values, one for each step, in millicores or bytes.
type Distribution interface {
	// Quantile is the value that the fraction q (0 to 1) of the steps does not exceed, interpolated linearly between
	// neighbours like PromQL's quantile_over_time; 0 if empty.
	Quantile(q float64) Usage
	// Count is the number of steps.
	Count() int
}

// Profile is the digest of one container's history, over all replicas (the highest replica's value of each step) and
// across template generations. The zero value has no data.
type Profile struct {
	// Of has the history of each resource, indexed by Resource.
	Of [2]ResourceProfile
	// First and Last are the times of the first and the last step with data of either resource.
	First, Last time.Time
	// Gaps counts steps between First and Last without data.
	Gaps int
	// Runs counts the stretches of time with data. Two steps with data more than RunGap steps apart belong to different
	// runs.
	Runs int
	// Starts is the highest CPU usage of containers that were starting, which the history of CPU leaves out; 0: none is
	// known. It bounds decreases of the limit alone.
	Starts Usage
}

// RunGap is the largest distance, in steps, between two steps with data of one run: a single step may have been lost.
const RunGap = 2

// For a workload that runs from time to time, FirstRuns whole runs are enough for a target, ProvenRuns for lowering a
// request.
const (
	FirstRuns  = 3
	ProvenRuns = 7
)

// WholeRuns is the number of runs that have ended; the last one may still be running.
func (p *Profile) WholeRuns(step time.Duration, now time.Time) int {
	if p.Runs > 0 && now.Sub(p.Last) <= RunGap*step {
		return p.Runs - 1
	}
	return p.Runs
}

// ResourceProfile is the history of one resource. A resource without measurements has Points 0.
type ResourceProfile struct {
	// Hours are the distributions by hour of the day, UTC; an hour without data may be nil.
	Hours [24]Distribution
	// Overall is the distribution of every step.
	Overall Distribution
	// Peak is the true maximum of the history, never a mean over a longer step.
	Peak Usage
	// Points counts steps with data.
	Points int
	// First and Last are the times of the first and the last step with data of this resource.
	First, Last time.Time
}

// Floor is a minimum learned from a regression, decayed to the present. The zero value means no floor.
type Floor struct {
	// Amount in millicores or bytes.
	Amount Amount
	// Taught is the most memory learned from OOM kills, in bytes, not decayed: a limit that led to an OOM kill stays
	// too low after weeks.
	Taught Amount
	// Reason is the regression that taught the floor: oomkill, throttle, restart, notready or slo.
	Reason string
}

// A floor fades by a fifth every week: an OOM kill in spring should not size the container in autumn.
const (
	decayFactor = 0.8
	decayPeriod = 7 * 24 * time.Hour
)

// OOMFloor is the minimum memory of a container after an OOM kill at the given limit: 1.3 times that limit.
func OOMFloor(limit Amount) Amount { return limit.scaled(1.3) }

// ThrottleFloor is the minimum CPU of a container after it was throttled at the given limit: 1.3 times that limit.
func ThrottleFloor(limit Amount) Amount { return limit.scaled(1.3) }

// Decay is the rest of a floor after a time: it shrinks continuously, by the factor 0.8 every 7 days. A floor learned
// in the future (by another clock) has not decayed.
func Decay(amount Amount, learnedAt, now time.Time) Amount {
	age := now.Sub(learnedAt)
	if age <= 0 {
		return amount
	}
	return amount.scaled(math.Pow(decayFactor, float64(age)/float64(decayPeriod)))
}

// Gathering combines finer samples into one step of history. CPU is their mean, with the highest as its peak; memory is
// the highest. A resource without samples is NaN.
type Gathering struct {
	at           time.Time
	sum          float64
	measured     int
	peak, memory float64
}

// NewGathering begins the step that ends at a time.
func NewGathering(at time.Time) Gathering {
	return Gathering{at: at, peak: math.NaN(), memory: math.NaN()}
}

// Add a sample in cores and bytes; NaN: not measured.
func (g *Gathering) Add(cores, bytes float64) {
	if !math.IsNaN(cores) {
		g.sum += cores
		g.measured++
	}
	g.peak, g.memory = Highest(g.peak, cores), Highest(g.memory, bytes)
}

// Step returns the combined step.
func (g *Gathering) Step() StepUsage {
	mean := math.NaN()
	if g.measured > 0 {
		// The mean of equal values is that value, without the rounding error of the sum.
		mean = min(g.sum/float64(g.measured), g.peak)
	}
	return StepUsage{At: g.at, CPUCores: mean, MemoryBytes: g.memory, CPUPeak: g.peak, MemoryPeak: math.NaN()}
}

// SingleStep makes a step of one sample. It has no peaks, because the time between the samples is unknown.
func SingleStep(at time.Time, cores, bytes float64) StepUsage {
	return StepUsage{At: at, CPUCores: cores, MemoryBytes: bytes, CPUPeak: math.NaN(), MemoryPeak: math.NaN()}
}

// Highest is the greater of two amounts; each may be NaN (not measured).
func Highest(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}
