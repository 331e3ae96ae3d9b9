package recommender

import (
	"math"
	"time"
)

// Gathering makes one step of history of finer samples: CPU is their mean with the highest as its peak, memory the highest.
// A resource that no sample has is NaN.
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

// Step is what was gathered.
func (g *Gathering) Step() StepUsage {
	mean := math.NaN()
	if g.measured > 0 {
		// The mean of equal values is that value, not one that adding them up has moved.
		mean = min(g.sum/float64(g.measured), g.peak)
	}
	return StepUsage{At: g.at, CPUCores: mean, MemoryBytes: g.memory, CPUPeak: g.peak, MemoryPeak: math.NaN()}
}

// SingleStep makes a step of one sample. It has no peaks, because nothing is known of the time between the samples.
func SingleStep(at time.Time, cores, bytes float64) StepUsage {
	return StepUsage{At: at, CPUCores: cores, MemoryBytes: bytes, CPUPeak: math.NaN(), MemoryPeak: math.NaN()}
}

// Highest is the greater of two amounts, either of which may not be measured (NaN).
func Highest(a, b float64) float64 {
	if math.IsNaN(a) || b > a {
		return b
	}
	return a
}
