package adaptive

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
)

func weekly(risk float64) recommender.Settings {
	return recommender.Settings{HistoryWindow: 7 * 24 * time.Hour, QueryStep: 5 * time.Minute, Adaptive: recommender.AdaptiveSettings{Risk: risk, Cadence: time.Hour}}
}

// walk makes steps of history that wander, with bursts and gaps.
func walk(seed uint64, n int) []recommender.StepUsage {
	rng := rand.New(rand.NewPCG(seed, 3))
	steps, level, at := make([]recommender.StepUsage, 0, n), 0.5, noon
	for range n {
		at = at.Add(5 * time.Minute)
		if rng.IntN(300) == 0 {
			at = at.Add(time.Duration(rng.IntN(40)) * time.Hour)
		}
		level = min(max(level*math.Exp(0.05*rng.NormFloat64()), 0.01), 8)
		s := recommender.StepUsage{At: at, CPUCores: level * (0.8 + 0.4*rng.Float64()), MemoryBytes: gi * (1 + level*rng.Float64()), CPUPeak: math.NaN(), MemoryPeak: math.NaN()}
		if rng.IntN(50) == 0 {
			s.CPUCores *= 4
		}
		if rng.IntN(20) == 0 {
			s.MemoryBytes = math.NaN()
		}
		steps = append(steps, s)
	}
	return steps
}

func TestOtherStrategiesHaveNoEstimates(t *testing.T) {
	assert.Nil(t, Of(walk(1, 100), weekly(0)))
}

// Whoever is asked once, at every step or at some has the same answer: nothing is kept that the steps do not say.
func TestEstimatesDependOnTheStepsAlone(t *testing.T) {
	for seed := range uint64(4) {
		steps := walk(seed, 3500)
		often, rng := NewPast(weekly(1)), rand.New(rand.NewPCG(seed, 9))
		compared := 0
		for n := 1; n <= len(steps); n++ {
			kept := steps[max(0, n-2016):n]
			if rng.IntN(3) == 0 {
				continue
			}
			got := often.Estimates(kept)
			if rng.IntN(60) == 0 {
				require.Equal(t, *Of(kept, weekly(1)), got, "seed %d, step %d", seed, n)
				compared++
			}
		}
		assert.Greater(t, compared, 20)
	}
}

// Steps older than the window change nothing, in whatever order of magnitude they are.
func TestTheWindowHasAnEnd(t *testing.T) {
	steps := walk(7, 2016)
	before := recommender.StepUsage{At: steps[len(steps)-1].At.Add(-169 * time.Hour), CPUCores: 1000, MemoryBytes: 1000 * gi}
	assert.Equal(t, Of(steps, weekly(1)), Of(append([]recommender.StepUsage{before}, steps...), weekly(1)))
}

// A container falls twice a day at most, whatever happens; it is raised at any time.
func TestTwoFallsADay(t *testing.T) {
	for seed := range uint64(6) {
		past, rng := NewPast(weekly(1)), rand.New(rand.NewPCG(seed, 11))
		var fell []time.Time
		last := [2]recommender.Usage{}
		at := noon
		past.restart(noon)
		for range 24 * 20 {
			used := math.Exp2(6 * rng.Float64())
			for range 12 {
				at = at.Add(5 * time.Minute)
				past.see(&recommender.StepUsage{At: at, CPUCores: used, MemoryBytes: used * gi})
			}
			now := past.decide(at)
			if now[0].Amount < last[0] || now[1].Amount < last[1] {
				fell = append(fell, at)
			}
			last = [2]recommender.Usage{now[0].Amount, now[1].Amount}
		}
		require.NotEmpty(t, fell)
		for i := range fell[1:] {
			assert.GreaterOrEqual(t, fell[i+1].Sub(fell[i]), betweenFalls, "seed %d", seed)
		}
	}
}

// Who changes sizes seldom is not led down by a trough that is shorter than that.
func TestTheHoldFollowsTheCadence(t *testing.T) {
	steps := []recommender.StepUsage{}
	for i := range 5 * 288 {
		cores := 2.0
		if i >= 5*288-12*12 {
			cores = 0.2
		}
		steps = append(steps, recommender.StepUsage{At: noon.Add(time.Duration(i) * 5 * time.Minute), CPUCores: cores, MemoryBytes: gi})
	}
	hourly, daily := weekly(30), weekly(30)
	daily.Adaptive.Cadence = 24 * time.Hour
	assert.Less(t, Of(steps, hourly)[0].Amount, recommender.Usage(1000))
	assert.Greater(t, Of(steps, daily)[0].Amount, recommender.Usage(1500))
}

func BenchmarkOf(b *testing.B) {
	steps, settings := walk(1, 2016), weekly(1)
	b.ReportAllocs()
	for b.Loop() {
		Of(steps, settings)
	}
}
