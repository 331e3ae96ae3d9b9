package backtest

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/recommender"
)

// An hour without a size, an hour within it, an hour with one sample above it: three moments.
func TestTimeline(t *testing.T) {
	series := every(180, func(i int) (float64, float64) {
		if i == 150 {
			return 3, 250
		}
		return 0.5, 50
	})
	score, line := Drawn(series, Strategy{New: func(Series) Algorithm { return &scripted{wants: []Size{{1, 100}}} }}, hourly, 3)
	assert.Equal(t, 1, score.OOMHours)
	assert.Equal(t, Timeline{
		{At: noon + hour, Most: [2]float64{0.5, 50}},
		{At: noon + 2*hour, Most: [2]float64{0.5, 50}, Request: Size{1, 100}, Limit: 100},
		{At: noon + 3*hour, Most: [2]float64{3, 250}, Request: Size{1, 100}, Limit: 100, Short: [2]bool{true, true}},
	}, line)

	_, line = Drawn(series, Strategy{New: func(Series) Algorithm { return &limited{scripted{wants: []Size{{1, 100}}}, 300} }}, hourly, 3)
	assert.InDelta(t, 300, line[2].Limit, 0)
	assert.Equal(t, [2]bool{true, false}, line[2].Short, "memory is within its own limit")
}

// Drawing changes no score, and a long series has at most the requested number of moments.
func TestDrawingChangesNothing(t *testing.T) {
	series := random(rand.New(rand.NewPCG(13, 14)), 60*50)
	for _, s := range strategies() {
		score, line := Drawn(series, s, hourly, 400)
		assert.Equal(t, Replay(series, s, hourly), score, s.Name)
		assert.LessOrEqual(t, len(line), 400)
		assert.Greater(t, len(line), 300)
		assert.Equal(t, series.Samples[len(series.Samples)-1].At, line[len(line)-1].At)
		short := false
		for _, m := range line {
			short = short || m.Short[recommender.CPU]
		}
		assert.Equal(t, score.Of[recommender.CPU].Beyond > 0, short, s.Name)
	}
	score, line := Drawn(Series{}, Peers()[0], hourly, 10)
	assert.Zero(t, score)
	assert.Empty(t, line)
}
