package store

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestRingBehavesLikeAMap compares a ring with the plainest thing that does the same, over many random
// moves.
func TestRingBehavesLikeAMap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, window := range []int64{1, 12, pageSteps - 1, pageSteps, pageSteps + 1, 2016} {
		left := budget{left: 1 << 30}
		r, model := newRing(window, &left), map[int64]float64{}
		last := int64(5_000_000)
		r.slide(last-window+1, last)
		for range 2000 {
			switch random.IntN(3) {
			case 0:
				last += random.Int64N(window/2 + 2)
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
				require.Equal(t, lost, r.slide(last-window+1, last))
			default:
				step := last - random.Int64N(window+2) + 1
				inside := step >= last-window+1 && step <= last
				require.Equal(t, inside, r.put(step, float64(step)))
				if inside {
					model[step] = float64(step)
				}
			}
		}
		for step := last - window - 5; step <= last+5; step++ {
			want, known := model[step]
			if !known {
				want = math.NaN()
			}
			got := r.at(step)
			require.True(t, got == want || math.IsNaN(got) && math.IsNaN(want), "step %d of window %d: %v, not %v", step, window, got, want)
		}
		assert.Equal(t, int64(1<<30)-left.left, r.bytes(), "the budget knows what is taken")
		assert.LessOrEqual(t, r.bytes(), (window/pageSteps+2)*pageBytes)
		r.release()
		assert.Equal(t, int64(1<<30), left.left)
	}
}

func TestRingWithoutRoom(t *testing.T) {
	left := budget{left: pageBytes}
	r := newRing(3*pageSteps, &left)
	r.slide(1, 3*pageSteps)
	assert.True(t, r.put(1, 1))
	assert.True(t, r.put(2, 2), "the page has room")
	assert.False(t, r.put(2*pageSteps, 1))
	assert.True(t, math.IsNaN(r.at(2*pageSteps)))
	r.slide(pageSteps, 4*pageSteps)
	assert.True(t, r.put(2*pageSteps, 1), "the first page was given back")
}

func TestRingThatStandsStill(t *testing.T) {
	left := budget{left: 1 << 20}
	r := newRing(10, &left)
	r.slide(1, 10)
	require.True(t, r.put(1, 1))
	assert.False(t, r.slide(1, 10))
	assert.False(t, r.slide(-5, 4), "a window never moves back")
	assert.InDelta(t, 1, r.at(1), 0)
}
