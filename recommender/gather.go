package recommender

import (
	"math"
	"time"
)

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
