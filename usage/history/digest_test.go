package history

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	"attune.io/attune/usage/codec"
)

// TestDigestsAreNearExactProfiles compares a digest with the exact profile of the same values: quantiles have an error
// of at most MaxError, and all other fields are equal.
func TestDigestsAreNearExactProfiles(t *testing.T) {
	for name, amount := range amounts {
		if name == "wild" || name == "zeros" {
			continue // A quantile interpolated across orders of magnitude is meaningless.
		}
		for _, steps := range []int64{1, 20, 300, 2304} {
			t.Run(fmt.Sprint(name, " ", steps), func(t *testing.T) {
				exact, kept := bothProfiles(amount, steps)
				assert.Equal(t, exact.Gaps, kept.Gaps)
				assert.Equal(t, exact.First, kept.First)
				assert.Equal(t, exact.Last, kept.Last)
				for _, r := range recommender.Resources {
					want, got := exact.Of[r], kept.Of[r]
					assert.Equal(t, want.Peak, got.Peak, "the true maximum")
					assert.Equal(t, want.Points, got.Points)
					assert.Equal(t, want.First, got.First)
					assert.Equal(t, want.Last, got.Last)
					sameQuantiles(t, want.Overall, got.Overall)
					for hour := range want.Hours {
						sameQuantiles(t, want.Hours[hour], got.Hours[hour])
					}
				}
			})
		}
	}
}

// TestDigestsOfWhatIsLeft: a part of one day has left the window, and whole hours or all of other days are missing.
func TestDigestsOfWhatIsLeft(t *testing.T) {
	const steps, left, gone = 10 * pageSteps, pageSteps + 100, 5 * pageSteps
	random := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		h := newHistory(roomOf(1 << 30))
		first := int64(5_000_000) / pageSteps * pageSteps
		h.slide(first, first+steps-1)
		var all []recommender.StepUsage
		for i := range int64(steps) {
			if page := i / pageSteps; page == 4 || i > gone && random.IntN(3*codec.BlockSteps) > 2*codec.BlockSteps {
				continue
			}
			cores := random.Float64()
			h.cpu.open(first + i)
			h.cpu.put(first+i, cores)
			h.cpu.close()
			if i >= left {
				at := time.UnixMilli((first + i) * (5 * time.Minute).Milliseconds()).UTC()
				all = append(all, recommender.StepUsage{At: at, CPUCores: cores, MemoryBytes: math.NaN()})
			}
		}
		h.slide(first+left, first+steps-1)
		want, got := recommender.NewProfile(all, 5*time.Minute), newDigest(h, 5*time.Minute).profile
		assert.InEpsilon(t, float64(want.Of[recommender.CPU].Peak), float64(got.Of[recommender.CPU].Peak), codec.MaxError)
		assert.Equal(t, want.Of[recommender.CPU].Points, got.Of[recommender.CPU].Points)
		assert.Equal(t, want.Gaps, got.Gaps)
		assert.Zero(t, got.Of[recommender.Memory])
		require.Equal(t, want.Of[recommender.CPU].Overall.Count(), got.Of[recommender.CPU].Overall.Count())
		assert.InEpsilon(t, float64(want.Of[recommender.CPU].Overall.Quantile(0.9)), float64(got.Of[recommender.CPU].Overall.Quantile(0.9)), codec.MaxError)
	}
}

func sameQuantiles(t *testing.T, want, got recommender.Distribution) {
	t.Helper()
	require.Equal(t, want == nil, got == nil)
	if want == nil {
		return
	}
	require.Equal(t, want.Count(), got.Count())
	for _, q := range []float64{0, 0.01, 0.5, 0.75, 0.9, 0.95, 0.99, 1} {
		require.InEpsilon(t, float64(want.Quantile(q)), float64(got.Quantile(q)), codec.MaxError*(1+1e-9), "quantile %v", q)
	}
}

// bothProfiles of the same random steps with gaps: the exact one, and the store's.
func bothProfiles(amount func(*rand.Rand, int64) float64, steps int64) (exact, kept recommender.Profile) {
	const step = 5 * time.Minute
	random := rand.New(rand.NewPCG(uint64(steps), 9))
	h := newHistory(roomOf(1 << 30))
	first := int64(5_000_000) / pageSteps * pageSteps
	h.slide(first, first+steps-1)
	truth := gaps(steps)
	raw := map[*series][]float64{&h.cpu: append([]float64(nil), truth...), &h.memory: append([]float64(nil), truth...)}
	for m, values := range raw {
		m.open(first)
		for i := range values {
			if i > 0 && random.IntN(10) == 0 {
				continue
			}
			values[i] = amount(random, first+int64(i))
			m.put(first+int64(i), values[i])
		}
		m.close()
	}
	var all []recommender.StepUsage
	for i := range truth {
		all = append(all, recommender.StepUsage{
			At: time.UnixMilli((first + int64(i)) * step.Milliseconds()).UTC(), CPUCores: raw[&h.cpu][i], MemoryBytes: raw[&h.memory][i],
		})
	}
	return recommender.NewProfile(all, step), newDigest(h, step).profile
}

func TestQuantilesOfASketch(t *testing.T) {
	s := sketch{scale: &scale{unit: 1, max: 1e9}}
	for i := range uint32(70_000) {
		s.counts = append(s.counts, cumulative{i + 1, codec.BucketOf(float64(i) / 700)})
	}
	assert.InEpsilon(t, 95, float64(s.Quantile(0.95)), codec.MaxError)
	assert.Zero(t, (&sketch{}).Quantile(0.5))
}

// TestEveryStepHasItsHour visits steps shorter than an hour, longer ones, and ones that do not divide it.
func TestEveryStepHasItsHour(t *testing.T) {
	for _, step := range []time.Duration{30 * time.Second, 5 * time.Minute, 7 * time.Minute, time.Hour, 90 * time.Minute, 25 * time.Hour} {
		const from, count = 123_457, 5_000
		next := 0
		eachHour(from, count, step, func(hour, start, end int) {
			assert.Equal(t, next, start)
			for i := start; i < end; i++ {
				require.Equal(t, time.UnixMilli((from+int64(i))*step.Milliseconds()).UTC().Hour(), hour, "step %d of %s", i, step)
			}
			next = end
		})
		assert.Equal(t, count, next)
	}
}
