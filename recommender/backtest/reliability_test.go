package backtest

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/recommender"
)

func TestBinsOfPromises(t *testing.T) {
	for promise, bin := range map[float64]int{0: 0, 9e-5: 0, 1e-4: 1, 3.1e-4: 1, 3.2e-4: 2, 1e-3: 3, 0.01: 5, 0.1: 7, 0.31: 7, 0.32: 8, 1: 8, 7: 8} {
		assert.Equal(t, bin, binOf(promise), "%g", promise)
	}
	assert.Equal(t, 0, binOf(math.NaN()))
}

// oracled promises the values of its script.
type oracled struct {
	scripted
	promises [][2]float64
}

func (o *oracled) Promised() [2]float64 { return o.promises[min(len(o.asked), len(o.promises))-1] }

// Three hours: CPU shortage for 15 minutes of the first, none of the second, all of the third. Memory exceeds its limit
// twice within the first hour, and once in the third. The answer to an OOM kill is not a promise of its own.
func TestReliability(t *testing.T) {
	series := every(60+180, func(i int) (float64, float64) {
		cores, bytes := 0.5, 50.0
		switch at := i - 60; {
		case at < 0:
		case at < 15, at >= 120:
			cores = 2
		}
		if i == 60+10 || i == 60+20 || i == 60+130 {
			bytes = 150
		}
		if i >= 60+60 && i < 60+120 {
			bytes = nan
		}
		return cores, bytes
	})
	o := &oracled{scripted: scripted{wants: []Size{{1, 100}}, again: true}, promises: [][2]float64{
		{0.2, 0.005}, {9, 9}, {9, 9}, {0.001, nan}, {0.2, 0.005}, {9, 9},
	}}
	var found Reliability
	strategy := Promising(Strategy{Name: "o", New: func(Series) Algorithm { return o }}, &found)
	score := Replay(series, strategy, hourly)
	assert.Equal(t, 6, len(o.asked), "three that were due, three answers to OOM kills")
	assert.Equal(t, 2, score.OOMHours)
	assert.Equal(t, []Promises{
		{Decisions: 1, Time: time.Hour, Promised: time.Hour / 1000},
		{Decisions: 2, Time: 2 * time.Hour, Promised: 24 * time.Minute, Observed: 75 * time.Minute},
	}, found.Bins(recommender.CPU))
	memory := found.Bins(recommender.Memory)
	assert.Equal(t, []Promises{{Decisions: 2, Time: 2 * time.Hour, Promised: 36 * time.Second, Observed: 2 * time.Hour}}, memory)
	assert.InDelta(t, 0.005, memory[0].PromisedPart(), 1e-9)
	assert.InDelta(t, 1, memory[0].ObservedPart(), 1e-9)
	assert.Equal(t, Promises{Decisions: 3, Time: 3 * time.Hour, Promised: 24*time.Minute + time.Hour/1000, Observed: 75 * time.Minute}, found.Total(recommender.CPU))
}

// Recording promises changes no decision, and the observed shortage equals the scored one. Algorithms without promises
// are returned unchanged.
func TestWatchedPromisesChangeNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	for range 3 {
		series := random(rng, 60*72)
		for _, s := range append(Peers(), Adaptive(1, settings()), Adaptive(64, settings())) {
			var found Reliability
			want := Replay(series, s, hourly)
			assert.Equal(t, want, Replay(series, Promising(s, &found), hourly), s.Name)
			if _, promises := s.New(series).(Promiser); !promises {
				assert.Empty(t, found.Bins(recommender.CPU), s.Name)
				continue
			}
			cpu := found.Total(recommender.CPU)
			assert.Positive(t, cpu.Promised)
			assert.Equal(t, want.Of[recommender.CPU].Measured, cpu.Time)
			assert.Equal(t, want.Of[recommender.CPU].Beyond, cpu.Observed)
		}
	}
}
