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

// walk returns steps of history that wander, with bursts and gaps.
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

// Calls at every step, at some steps or only once give the same result: all state follows from the steps.
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

// Steps older than the window change nothing, whatever their order of magnitude.
func TestTheWindowHasAnEnd(t *testing.T) {
	steps := walk(7, 2016)
	before := recommender.StepUsage{At: steps[len(steps)-1].At.Add(-169 * time.Hour), CPUCores: 1000, MemoryBytes: 1000 * gi}
	assert.Equal(t, Of(steps, weekly(1)), Of(append([]recommender.StepUsage{before}, steps...), weekly(1)))
}

// With a call at every step, a size falls only at whole hours, and at most twice a day; it may rise at any time.
func TestTwoFallsADay(t *testing.T) {
	for seed := range uint64(6) {
		past, rng := NewPast(weekly(1)), rand.New(rand.NewPCG(seed, 11))
		var fell []time.Time
		var steps []recommender.StepUsage
		raised := 0
		last, from := [2]recommender.Estimate{}, time.Time{}
		for i := range 15 * 288 {
			at := noon.Add(time.Duration(i+1) * 5 * time.Minute)
			used := math.Exp(0.6*rng.NormFloat64()) * (1.5 + math.Sin(float64(i)/288*2*math.Pi))
			steps = append(steps, recommender.StepUsage{At: at, CPUCores: used, MemoryBytes: used * gi})
			now := past.Estimates(steps)
			if !past.from.Equal(from) { // the window has moved, so this is a new past
				last, from = now, past.from
				fell = nil
			}
			if now[0].Amount < last[0].Amount || now[1].Amount < last[1].Amount {
				require.Zero(t, at.Minute(), "seed %d: falls at whole hours", seed)
				if len(fell) > 0 {
					require.GreaterOrEqual(t, at.Sub(fell[len(fell)-1]), betweenFalls, "seed %d", seed)
				}
				fell = append(fell, at)
			} else if now[0].Amount > last[0].Amount && at.Minute() > 0 {
				raised++
			}
			last = now
		}
		assert.Positive(t, raised, "raises wait for no hour")
	}
}

// With a long cadence, a shorter trough does not lower the size.
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

// A container without any CPU usage has an estimate of zero, not a missing estimate.
func TestNoUsageIsAnEstimateToo(t *testing.T) {
	steps := walk(1, 600)
	for i := range steps {
		steps[i].CPUCores = 0
	}
	settings := weekly(1)
	settings.Of[recommender.CPU].MinAllowed = 10
	estimates := Of(steps, settings)
	require.Zero(t, estimates[recommender.CPU].Amount)
	r := recommender.Recommend(recommender.Input{Profile: recommender.NewProfile(steps, 5*time.Minute), Settings: settings, Estimates: estimates, Now: steps[len(steps)-1].At})
	assert.Equal(t, recommender.Amount(10), r.Target[recommender.CPU].Request)
	assert.Empty(t, r.Holds)
}

func BenchmarkOf(b *testing.B) {
	steps, settings := walk(1, 2016), weekly(1)
	b.ReportAllocs()
	for b.Loop() {
		Of(steps, settings)
	}
}
