package history

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage/codec"
)

// amounts of several kinds.
var amounts = map[string]func(*rand.Rand, int64) float64{
	"one":   func(*rand.Rand, int64) float64 { return 0.2 },
	"two":   func(r *rand.Rand, _ int64) float64 { return 1 + float64(r.IntN(2)) },
	"zeros": func(r *rand.Rand, _ int64) float64 { return max(0, r.NormFloat64()) },
	"noise": func(r *rand.Rand, _ int64) float64 { return 0.1 * math.Exp(0.5*r.NormFloat64()) },
	"day": func(r *rand.Rand, step int64) float64 {
		return 2e8 * (1.2 + math.Sin(float64(step%288)/288*2*math.Pi) + 0.1*r.Float64())
	},
	"bursts": func(r *rand.Rand, _ int64) float64 { return 0.01 * math.Pow(10, 3*math.Pow(r.Float64(), 20)) },
	"wild":   func(r *rand.Rand, _ int64) float64 { return math.Exp(60*r.Float64() - 10) },
}

// near reports whether a stored value is close enough to the measured one.
func near(want, got float64) bool {
	switch {
	case math.IsNaN(want):
		return math.IsNaN(got)
	case want < codec.MinValue:
		return got == 0 || got == want
	}
	return math.Abs(got/want-1) <= codec.MaxError*(1+1e-9)
}

// TestSeriesBehavesLikeAMap compares a series with a plain map, over many random operations: stored values have an
// error of at most MaxError. The highest value of a page is exact unless the page was written again.
func TestSeriesBehavesLikeAMap(t *testing.T) {
	for name, amount := range amounts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(1, 2))
			for _, window := range []int64{1, 12, pageSteps - 1, pageSteps + 1, 2304} {
				moved(t, random, window, amount)
			}
		})
	}
}

// roomOf returns the share of a namespace that may hold so many bytes.
func roomOf(bytes int64) *share {
	return newBudget((bytes*(1+greed) + greed - 1) / greed).join("shop")
}

func moved(t *testing.T, random *rand.Rand, window int64, amount func(*rand.Rand, int64) float64) {
	t.Helper()
	left := roomOf(1 << 30)
	m, model := newSeries(left), map[int64]float64{}
	last := int64(5_000_000)
	m.slide(last-window+1, last)
	written, revised := last-window, map[int64]bool{}
	for range 300 {
		if random.IntN(2) == 0 {
			last += 1 + random.Int64N(window/4+2)
			if random.IntN(50) == 0 {
				last += 3 * window
			}
			lost := false
			for step := range model {
				if step < last-window+1 {
					delete(model, step)
					lost = true
				}
			}
			require.True(t, m.slide(last-window+1, last) || !lost)
		}
		// New steps and two before them, or sometimes a piece of the past.
		first, end := max(last-window+1, written-1), last
		written = last
		if random.IntN(10) == 0 {
			first = last - random.Int64N(window)
			end = first + random.Int64N(last-first+1)
			for step := first; step <= end; step++ {
				revised[pageOf(step)] = true
			}
		}
		require.True(t, m.room(first, end-first+1))
		m.open(first)
		for step := first; step <= end; step++ {
			if random.IntN(20) > 0 {
				model[step] = amount(random, step)
				require.True(t, m.put(step, model[step]))
			}
		}
		require.Zero(t, m.close())
		require.False(t, m.put(last+1, 1), "it is outside the window")
	}
	first := last - window + 1
	values := m.values(first-5, last+5)
	pages, highest := map[int64]float64{}, -1.0
	for i, got := range values {
		step := first - 5 + int64(i)
		want, known := model[step]
		if !known {
			want = math.NaN()
		}
		require.True(t, near(want, got), "step %d of window %d: %v, not %v", step, window, got, want)
		if known {
			pages[pageOf(step)] = max(pages[pageOf(step)], want)
			highest = max(highest, want)
		}
	}
	for page, want := range pages {
		if page*pageSteps >= first && !revised[page] {
			assert.Equal(t, want, m.max(page*pageSteps, page*pageSteps+pageSteps-1), "the true maximum of page %d", page)
		}
	}
	if got := m.max(first, last); highest >= 0 {
		require.True(t, got >= highest*(1-codec.MaxError) && got <= highest*(1+codec.MaxError)*(1+codec.MaxError), "%v, not %v", got, highest)
	}
	assert.Equal(t, left.held, m.taken, "the budget knows what is taken")
	m.release()
	assert.Zero(t, left.held)
}

func TestFewAmountsAreKeptExactly(t *testing.T) {
	left := roomOf(1 << 20)
	m := newSeries(left)
	m.slide(0, 999)
	for step := range int64(1000) {
		m.put(step, []float64{0.2, 0.9}[step/50%2])
		m.close()
	}
	for step, got := range m.values(0, 999) {
		require.Equal(t, []float64{0.2, 0.9}[step/50%2], got)
	}
}

// TestPeaksOutliveRevisions: values that are packed again keep their exact maximum.
func TestPeaksOutliveRevisions(t *testing.T) {
	left := roomOf(1 << 20)
	m := newSeries(left)
	m.slide(0, 999)
	random := rand.New(rand.NewPCG(3, 4))
	highest := 0.0
	for step := range int64(pageSteps) {
		v := 1 + 0.001*random.Float64()
		highest = max(highest, v)
		m.put(step, v)
	}
	m.close()
	for range 10 {
		m.open(3)
		m.put(3, 0.5)
		m.close()
		assert.Equal(t, highest, m.max(0, pageSteps-1))
	}
}

func TestSeriesWithoutRoom(t *testing.T) {
	left := roomOf(100)
	m := newSeries(left)
	m.slide(0, 999)
	assert.False(t, m.room(0, 1), "not even for the newest steps")

	left.budget.left = roomOf(8*(tailSteps+m.pages()) + 3*codec.MaxBlock).budget.left
	require.True(t, m.room(0, 1))
	random := rand.New(rand.NewPCG(5, 6))
	lost := 0
	for step := range int64(1000) {
		require.True(t, m.room(step, 1))
		m.open(step)
		require.True(t, m.put(step, random.Float64()), "the newest steps have room")
		lost += m.close()
		require.GreaterOrEqual(t, left.left(), int64(-256), "but for gaps")
	}
	assert.Positive(t, lost)
	assert.GreaterOrEqual(t, m.max(990, 999), 0.0)
	known := measured(m.values(0, 999))
	assert.Equal(t, 1000, known+lost, "what is lost is counted")
}

func TestSeriesThatStandsStill(t *testing.T) {
	left := roomOf(1 << 20)
	m := newSeries(left)
	m.slide(1, 10)
	m.open(1)
	require.True(t, m.put(1, 1))
	m.close()
	assert.False(t, m.slide(1, 10))
	assert.False(t, m.slide(-5, 4), "a window never moves back")
	assert.InDelta(t, 1, m.opened(1), 0)
	assert.True(t, m.slide(2, 11))
	assert.True(t, math.IsNaN(m.opened(1)))
}
