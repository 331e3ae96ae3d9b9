package recommender_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	. "attune.io/attune/recommender"
)

var nan = math.NaN()

func TestProfileIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 23, 24, 25, 289, 2016, 5000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			steps := flat(n, 0, 0)
			for i := range steps {
				steps[i].CPUCores, steps[i].MemoryBytes = rng.ExpFloat64(), rng.Float64()*1e9
			}
			p := NewProfile(steps, 5*time.Minute)
			for _, q := range []float64{0, 0.5, 0.9, 0.95, 0.99, 1} {
				assert.InEpsilon(t, 1000*quantileOf(steps, anyHour, q, cpuOf)+1, float64(p.Of[CPU].Overall.Quantile(q))+1, 1e-12)
				assert.InEpsilon(t, quantileOf(steps, anyHour, q, memoryOf)+1, float64(p.Of[Memory].Overall.Quantile(q))+1, 1e-12)
				for hour, d := range p.Of[Memory].Hours {
					if d != nil {
						assert.InEpsilon(t, quantileOf(steps, hour, q, memoryOf)+1, float64(d.Quantile(q))+1, 1e-12, "hour %d", hour)
					}
				}
			}
		})
	}
}

const anyHour = -1

func cpuOf(s StepUsage) float64    { return s.CPUCores }
func memoryOf(s StepUsage) float64 { return s.MemoryBytes }

// quantileOf is the definition: sort, and interpolate at q × (n − 1).
func quantileOf(steps []StepUsage, hour int, q float64, of func(StepUsage) float64) float64 {
	var values []float64
	for _, s := range steps {
		if hour == anyHour || s.At.UTC().Hour() == hour {
			values = append(values, of(s))
		}
	}
	sort.Float64s(values)
	rank := q * float64(len(values)-1)
	lower := int(rank)
	if lower+1 >= len(values) {
		return values[len(values)-1]
	}
	return values[lower] + (rank-float64(lower))*(values[lower+1]-values[lower])
}

func TestProfileHoursAreUTC(t *testing.T) {
	tokyo := time.FixedZone("UTC+9", 9*3600)
	p := NewProfile([]StepUsage{{At: time.Date(2026, 3, 2, 8, 30, 0, 0, tokyo), CPUCores: 0.2, MemoryBytes: 5}}, time.Minute)
	for hour, d := range p.Of[CPU].Hours {
		assert.Equal(t, hour == 23, d != nil, "hour %d", hour)
	}
	assert.Equal(t, 1, p.Of[CPU].Hours[23].Count())
}

func TestProfileOrderDoesNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	steps := flat(500, 0, 0)
	for i := range steps {
		steps[i].CPUCores, steps[i].MemoryBytes = rng.Float64(), rng.Float64()*1e9
	}
	shuffled := slices.Clone(steps)
	rng.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	assert.Equal(t, NewProfile(steps, 5*time.Minute), NewProfile(shuffled, 5*time.Minute))
}

func TestProfileCountsWhatWasMeasured(t *testing.T) {
	at := func(i int) time.Time { return now.Add(time.Duration(i) * time.Minute) }
	p := NewProfile([]StepUsage{
		{At: at(0), CPUCores: nan, MemoryBytes: nan},
		{At: at(1), CPUCores: 0.1, MemoryBytes: nan},
		{At: at(2), CPUCores: -0.1, MemoryBytes: 100},
		{At: at(3), CPUCores: math.Inf(1), MemoryBytes: nan},
		{At: at(6), CPUCores: 1e308, MemoryBytes: 300, MemoryPeak: 250},
		{At: at(7), CPUCores: 0.3, MemoryBytes: 200, CPUPeak: 0.5, MemoryPeak: 400},
		{At: at(9), CPUCores: nan, MemoryBytes: nan, CPUPeak: 9, MemoryPeak: 9000},
	}, time.Minute)

	assert.Equal(t, 2, p.Of[CPU].Points)
	assert.Equal(t, 2, p.Of[CPU].Overall.Count())
	assert.Equal(t, []time.Time{at(1), at(7)}, []time.Time{p.Of[CPU].First, p.Of[CPU].Last})
	assert.InDelta(t, 500, float64(p.Of[CPU].Peak), 1e-9, "the peak within the step")

	assert.Equal(t, 3, p.Of[Memory].Points)
	assert.Equal(t, []time.Time{at(2), at(7)}, []time.Time{p.Of[Memory].First, p.Of[Memory].Last})
	assert.InDelta(t, 400, float64(p.Of[Memory].Peak), 1e-9)

	assert.Equal(t, []time.Time{at(1), at(7)}, []time.Time{p.First, p.Last})
	assert.Equal(t, 3, p.Gaps, "minutes 3, 4 and 5; what is before the first and after the last is no gap")
}

func TestProfilePeakIsNeverBelowTheValue(t *testing.T) {
	steps := flat(10, 0.2, 1000)
	for i := range steps {
		steps[i].CPUPeak, steps[i].MemoryPeak = 0.1, 0
	}
	p := NewProfile(steps, 5*time.Minute)
	assert.InDelta(t, 200, float64(p.Of[CPU].Peak), 1e-9)
	assert.InDelta(t, 1000, float64(p.Of[Memory].Peak), 1e-9)
}

// Scrapes are not exact to the second: a step that is a little early or late is still the same step.
func TestProfileGapsBearJitter(t *testing.T) {
	steps := flat(11, 0.2, 1e9)
	steps[0].At, steps[10].At = steps[0].At.Add(time.Minute), steps[10].At.Add(-time.Minute)
	assert.Zero(t, NewProfile(steps, 5*time.Minute).Gaps)
	assert.Equal(t, 1, NewProfile(append(steps[:5:5], steps[6:]...), 5*time.Minute).Gaps)
}

func TestProfileOfNothing(t *testing.T) {
	assert.Equal(t, Profile{}, NewProfile(nil, time.Minute))
	assert.Equal(t, Profile{}, NewProfile(flat(100, nan, -1), time.Minute))
	assert.Zero(t, NewProfile(flat(100, 1, 1), 0).Gaps, "without a step's length there are no gaps to count")
}

func TestProfileMemory(t *testing.T) {
	steps := flat(2016, 0.2, 1e9)
	allocations := testing.AllocsPerRun(10, func() { NewProfile(steps, 5*time.Minute) })
	assert.LessOrEqual(t, allocations, 8.0, "a few arrays, whatever the number of steps")
	require.Equal(t, 2016, NewProfile(steps, 5*time.Minute).Of[CPU].Points)
}

func TestRunsAreWhatLongGapsPart(t *testing.T) {
	const step = 5 * time.Minute
	at := func(minutes ...int) (steps []StepUsage) {
		for _, m := range minutes {
			steps = append(steps, StepUsage{At: now.Add(time.Duration(m) * time.Minute), CPUCores: 1, MemoryBytes: 1})
		}
		return steps
	}
	for _, tc := range []struct {
		minutes []int
		want    int
	}{
		{nil, 0}, {[]int{0}, 1}, {[]int{0, 5, 10}, 1}, {[]int{0, 10}, 1}, {[]int{0, 15}, 2}, {[]int{60, 0, 65, 120}, 3},
	} {
		p := NewProfile(at(tc.minutes...), step)
		if p.Runs != tc.want {
			t.Errorf("%v: %d runs, not %d", tc.minutes, p.Runs, tc.want)
		}
		if whole := p.WholeRuns(step, p.Last.Add(2*step)); whole != max(0, tc.want-1) {
			t.Errorf("%v: the last run may go on: %d", tc.minutes, whole)
		}
		if whole := p.WholeRuns(step, p.Last.Add(2*step+1)); whole != tc.want {
			t.Errorf("%v: the last run has ended: %d", tc.minutes, whole)
		}
	}
}
