package replicas

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestCompare(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(int64(60*minute), 0).UTC() }
	var moments []Moment
	for minute, usage := range []float64{60, 78, 160, 30, math.NaN(), 70} {
		moments = append(moments, Moment{at(minute), Fleet{Current: 4, Ready: 4, Usage: usage}})
	}
	moments = append(moments, Moment{at(6), Fleet{Current: 4}}, Moment{At: at(7)})

	c := Compare(moments, Setting{usual, 200}, Setting{usual, 100}, 2)
	// With 200: 2, 3, 5, 2 and 2 replicas. With 100: 4, 5, 10, 2 and 4.
	assert.Equal(t, Comparison{Moments: 5, Differ: 4, More: 4, First: []Change{{at(0), 2, 4}, {at(1), 3, 5}}, Asked: 200 * 14 / 5., Instead: 100 * 25 / 5.}, c)

	c = Compare(moments, Setting{usual, 100}, Setting{usual, 200}, 0)
	assert.Equal(t, [3]int{5, 4, 0}, [3]int{c.Moments, c.Differ, c.More})
	assert.Empty(t, c.First)
	follows := usual
	follows.Target = Threshold{Target: usual.Target, Request: 200}.At(180)
	c = Compare(moments[:4], Setting{usual, 200}, Setting{follows, 180}, 1)
	assert.Zero(t, c.Differ, "the target follows the request")
	assert.Greater(t, c.Asked, c.Instead)
	assert.Zero(t, Compare(nil, Setting{usual, 200}, Setting{usual, 100}, 1))
}

// Within the range of Keep nothing differs, for any history.
func TestCompareAgreesWithKeep(t *testing.T) {
	spans := []Span{{Ready: 2, Least: 10, Greatest: 60, LeastAt: 60, GreatestAt: 120}, {Ready: 3, Unready: 1, Least: 20, Greatest: 40}}
	s := Scaler{Min: 3, Max: 9, Target: 70, Up: DefaultTolerance, Down: DefaultTolerance}
	kept := s.Keep(spans, 1000)
	moments := Moments(spans)
	assert.Len(t, moments, 4)
	assert.Equal(t, Moment{time.Unix(120, 0).UTC(), Fleet{Current: 2, Ready: 2, Usage: 60}}, moments[1])
	assert.Zero(t, Compare(moments, Setting{s, 1000}, Setting{s, kept.Least * 1.0001}, 1).Differ)
	assert.NotZero(t, Compare(moments, Setting{s, 1000}, Setting{s, kept.Least * 0.99}, 1).Differ)
}
