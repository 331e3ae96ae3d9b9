package store

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
)

// TestDigestsAreNearExactProfiles compares a digest with the exact profile of the same values: quantiles are
// off by MaxError at most, and everything else is the same.
func TestDigestsAreNearExactProfiles(t *testing.T) {
	for name, amount := range amounts {
		if name == "wild" || name == "zeros" {
			continue // Interpolated across orders of magnitude, a quantile says nothing.
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

func sameQuantiles(t *testing.T, want, got recommender.Distribution) {
	t.Helper()
	require.Equal(t, want == nil, got == nil)
	if want == nil {
		return
	}
	require.Equal(t, want.Count(), got.Count())
	for _, q := range []float64{0, 0.01, 0.5, 0.75, 0.9, 0.95, 0.99, 1} {
		require.InEpsilon(t, float64(want.Quantile(q)), float64(got.Quantile(q)), MaxError*(1+1e-9), "quantile %v", q)
	}
}

// bothProfiles of the same random steps with gaps: the exact one, and the store's.
func bothProfiles(amount func(*rand.Rand, int64) float64, steps int64) (exact, kept recommender.Profile) {
	const step = 5 * time.Minute
	random := rand.New(rand.NewPCG(uint64(steps), 9))
	h := newHistory(&budget{left: 1 << 30})
	first := int64(5_000_000) / pageSteps * pageSteps
	h.slide(first, first+steps-1)
	truth := nothing(steps)
	raw := map[*measure][]float64{&h.cpu: append([]float64(nil), truth...), &h.memory: append([]float64(nil), truth...)}
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

func TestQuantilesOfVeryManySteps(t *testing.T) {
	s := sketch{scale: &scale{unit: 1, highest: 1e9}}
	random := rand.New(rand.NewPCG(1, 2))
	for range 70_000 {
		s.marks = append(s.marks, markOf(100*random.Float64()))
	}
	assert.InEpsilon(t, 95, float64(s.Quantile(0.95)), 2*MaxError)
	s.marks = s.marks[:60_000]
	assert.InEpsilon(t, 95, float64(s.Quantile(0.95)), 2*MaxError)
	assert.Zero(t, (&sketch{}).Quantile(0.5))
}
