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

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

const gi = float64(1 << 30)

// feed gives an estimator a sample a minute for some hours, and calls Decide each hour. It returns the last size and
// estimate.
func feed(e *Estimator, from time.Time, hours int, used func(minute int) float64, mayFall bool) (size float64, estimate recommender.Estimate) {
	for m := 1; m <= hours*60; m++ {
		at := from.Add(time.Duration(m) * time.Minute)
		e.Observe(at, used(m))
		if m%60 == 0 {
			estimate = e.Decide(at, mayFall)
			size = float64(estimate.Amount)
		}
	}
	return size, estimate
}

func atRisk(risk float64) recommender.AdaptiveSettings {
	return recommender.AdaptiveSettings{Risk: risk}
}

func steady(amount float64) func(int) float64 { return func(int) float64 { return amount } }

func TestNothingIsKnownAtFirst(t *testing.T) {
	for _, r := range recommender.Resources {
		e := New(r, atRisk(1))
		assert.Zero(t, e.Decide(noon, true))
		e.Observe(noon, math.NaN())
		assert.Zero(t, e.Decide(noon, true), "what was not measured says nothing")
	}
}

// On steady usage the expected shortage falls with evidence, and so does the margin, which never falls below usage.
func TestEvidenceOfCalm(t *testing.T) {
	for r, used := range map[recommender.Resource]float64{recommender.CPU: 1000, recommender.Memory: 4 * gi} {
		e := New(r, atRisk(1))
		day, first := feed(e, noon, 2, steady(used), true)
		week, last := feed(e, noon.Add(2*time.Hour), 24*9, steady(used), true)
		assert.LessOrEqual(t, week, day, r)
		assert.GreaterOrEqual(t, week, used, r)
		assert.Greater(t, last.Hours, first.Hours, r)
		assert.Less(t, last.Short, first.Short, r)
	}
}

// Usage that often exceeds the maximum of the last hours gets a margin that covers it.
func TestEvidenceOfBursts(t *testing.T) {
	for r, used := range map[recommender.Resource]float64{recommender.CPU: 500, recommender.Memory: 4 * gi} {
		bursts := func(m int) float64 { // each burst is greater than all of the last day
			if m%(7*60) < 20 {
				return used * (1 + float64(m*37%101)/50)
			}
			return used
		}
		e := New(r, atRisk(1))
		feed(e, noon, 24*10, bursts, true)
		calm := New(r, atRisk(1))
		_, of := feed(calm, noon, 24*10, steady(used), true)
		assert.Greater(t, e.short(0, 5, e.evidence.above(0, 5)), 2*calm.short(0, 5, calm.evidence.above(0, 5)), "%v: at the most of one hour", r)
		size, choice := feed(e, noon.Add(240*time.Hour), 24, bursts, true)
		assert.Greater(t, size, 1.5*used, "%v: %+v beside %+v", r, choice, of)
	}
}

// A raise is made at once, also soon after a fall; a fall is followed after the hold, if allowed.
func TestRaisesAreAtOnceAndFallsAreHeld(t *testing.T) {
	e := New(recommender.CPU, atRisk(1))
	before, _ := feed(e, noon, 48, steady(1000), true)
	at := noon.Add(48 * time.Hour)
	raised, _ := feed(e, at, 1, steady(5000), false)
	assert.Greater(t, raised, 5000.0)
	assert.Greater(t, raised, before)

	e = New(recommender.CPU, atRisk(1))
	high, _ := feed(e, noon, 48, steady(5000), true)
	held, _ := feed(e, at, 2, steady(1000), true)
	assert.InDelta(t, high, held, 0.2*high, "a trough of two hours is not followed")
	kept, _ := feed(e, at.Add(2*time.Hour), 46, steady(1000), false)
	assert.InDelta(t, held, kept, 1e-9, "no second fall within twelve hours")
	fell, _ := feed(e, at.Add(48*time.Hour), 1, steady(1000), true)
	assert.Less(t, fell, 2500.0)
}

// A higher risk reserves less, for any kind of usage.
func TestMoreRiskReservesLess(t *testing.T) {
	for seed := range uint64(5) {
		sums := map[float64]float64{}
		for _, risk := range []float64{0.1, 1, 10} {
			rng := rand.New(rand.NewPCG(seed, 1))
			e := New(recommender.CPU, atRisk(risk))
			for day := range 5 {
				size, _ := feed(e, noon.Add(time.Duration(day)*24*time.Hour), 24, func(int) float64 { return rng.Float64() * rng.Float64() * 4000 }, true)
				sums[risk] += size
			}
		}
		assert.Less(t, sums[10], sums[1], "seed %d", seed)
		assert.Less(t, sums[1], sums[0.1], "seed %d", seed)
	}
}

// A large container has a smaller margin than a small one: its slack costs more, and a starved minute costs the same.
func TestSizeMakesMarginsSmaller(t *testing.T) {
	margin := func(used float64) float64 {
		e := New(recommender.CPU, atRisk(1))
		size, _ := feed(e, noon, 72, steady(used), true)
		return size / used
	}
	assert.Less(t, margin(10000), margin(10))
}

// Usage is compared with the values in force before it can change them: a new peak counts as an excess.
func TestAPeakCountsAgainstTheOldValue(t *testing.T) {
	for _, r := range recommender.Resources {
		e := New(r, atRisk(1))
		feed(e, noon, 3, steady(gi), true)
		before := e.evidence.above(0, 5)
		e.Observe(noon.Add(3*time.Hour+time.Minute), 10*gi)
		e.closeUntil(noon.Add(4 * time.Hour))
		assert.Greater(t, e.evidence.above(0, 5), before, r)
		assert.InDelta(t, 10*gi, e.base[0], 1)
	}
}

// A gap is not a usage of zero: it adds no evidence, and the size in force stays.
func TestGaps(t *testing.T) {
	for _, r := range recommender.Resources {
		e := New(r, atRisk(1))
		before, _ := feed(e, noon, 48, steady(gi), true)
		evidence := e.evidence.hours
		at := noon.Add(100 * time.Hour)
		after := e.Decide(at, true)
		assert.InDelta(t, before, float64(after.Amount), 0.1*before, "%v: %+v", r, after)
		assert.Less(t, e.evidence.hours, evidence, "evidence fades")
		e.Observe(at.Add(time.Minute), gi)
		assert.LessOrEqual(t, e.evidence.inHour, mostStep.Hours(), "a sample stands for ten minutes at most")
	}
}

// For any input, the size is a number and not negative, and the kept state does not grow.
func FuzzEstimator(f *testing.F) {
	for seed := range uint64(50) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 7))
		r := recommender.Resources[rng.IntN(2)]
		e, at := New(r, atRisk(math.Exp2(rng.Float64()*12-6))), noon
		for range 2000 {
			at = at.Add(time.Duration(rng.Int64N(int64(2 * time.Hour))))
			used := math.Exp2(rng.Float64()*60 - 20)
			switch rng.IntN(20) {
			case 0:
				used = 0
			case 1:
				used = math.NaN()
			}
			e.Observe(at, used)
			if rng.IntN(5) == 0 {
				estimate := e.Decide(at, rng.IntN(2) == 0)
				size := float64(estimate.Amount)
				require.False(t, math.IsNaN(size) || math.IsInf(size, 0) || size < 0, "%g", size)
				require.False(t, estimate.Short < 0 || estimate.Short > 1+1e-9, "%+v", estimate)
			}
			require.LessOrEqual(t, len(e.wishes), 2000)
			require.LessOrEqual(t, len(e.p95.weights), 1200)
		}
		for r := range e.evidence.over {
			sum := 0.0
			for _, n := range e.evidence.over[r] {
				require.GreaterOrEqual(t, n, 0.0)
				sum += n
			}
			require.InDelta(t, e.evidence.hours, sum, 1.1, "every hour of evidence is in one bucket of each rule")
		}
	})
}
