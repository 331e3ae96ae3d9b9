package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// named is a series of minutes with a name.
func named(id string, cores ...float64) backtest.Series {
	s := every(len(cores), func(i int) (float64, float64) { return cores[i], 100 * cores[i] })
	s.ID = id
	return s
}

func TestNodes(t *testing.T) {
	begun := func(cores ...float64) []float64 { return append(make([]float64, 60), cores...) }
	nodes := spread([]backtest.Series{named("a@1", begun(1, 2)...), named("a@2", 10, 20), named("b", begun(100, nan, 300)...)}, 2)
	require.Len(t, nodes, 2)
	assert.Equal(t, []string{"a@1", "b"}, []string{nodes[0].Pods[0].ID, nodes[0].Pods[1].ID}, "replicas are apart")
	at := noon + 60*minute
	assert.Equal(t, []backtest.Sample{
		{At: at + minute, Used: [2]float64{101, 10100}}, {At: at + 2*minute, Used: [2]float64{2, 200}}, {At: at + 3*minute, Used: [2]float64{300, 30000}},
	}, nodes[0].Samples[60:])
	for _, s := range nodes[0].Samples[:60] {
		assert.True(t, math.IsNaN(s.Used[0]) && math.IsNaN(s.Used[1]), "the hour in which a pod is born")
	}
	assert.Len(t, nodes[0].Pods[0].Samples, 63)
	assert.True(t, math.IsNaN(nodes[0].Pods[0].Samples[62].Used[0]))
	assert.True(t, nodes[0].has(1, at+3*minute))
	assert.False(t, nodes[0].has(0, at+3*minute))
	assert.Empty(t, spread(nil, 20))
}

// predicted is what a predictor of a node says after its last sample.
func predicted(n node, name string) backtest.Size {
	for _, s := range n.predictors() {
		if s.Name == name {
			a := s.New(n.Series)
			for _, sample := range n.Samples {
				a.Observe(sample, backtest.Size{})
			}
			return a.Decide(n.Samples[len(n.Samples)-1].At)
		}
	}
	return backtest.Size{}
}

// Two pods that take turns: together they are steady, each alone is not.
func TestPredictorsOfANode(t *testing.T) {
	var a, b []float64
	for i := range 600 {
		a, b = append(a, float64(1+i%2*2)), append(b, float64(3-i%2*2))
	}
	turns := spread([]backtest.Series{named("a", a...), named("b", b...)}, 20)[0]
	assert.InDelta(t, 4, predicted(turns, "n-sigma")[recommender.CPU], 1e-9, "4 at each time")
	assert.InDelta(t, 6, predicted(turns, "rc-like")[recommender.CPU], 1e-9, "3 of each")
	assert.InDelta(t, 6, predicted(turns, "max(n-sigma, rc-like)")[recommender.CPU], 1e-9)
	assert.InDelta(t, 600, predicted(turns, "rc-like")[recommender.Memory], 1e-9)

	alone := spread([]backtest.Series{named("a", a...)}, 20)[0]
	assert.InDelta(t, 2+5*math.Sqrt(540.0/539), predicted(alone, "n-sigma")[recommender.CPU], 1e-9, "mean 2, standard deviation 1")
	assert.InDelta(t, 7, predicted(alone, "max(n-sigma, rc-like)")[recommender.CPU], 0.01)
}

// Ten hours are looked back at, and a pod that is gone counts no more.
func TestPredictorsForget(t *testing.T) {
	cores := make([]float64, 60*14)
	for i := range cores {
		cores[i] = 1
		if i < 60*3 {
			cores[i] = 50
		}
	}
	gone := make([]float64, 60*12)
	for i := range gone {
		gone[i] = 7
	}
	n := spread([]backtest.Series{named("a", cores...), named("gone", gone...)}, 20)[0]
	assert.InDelta(t, 1, predicted(n, "rc-like")[recommender.CPU], 1e-9)
	assert.InDelta(t, 100, predicted(n, "node strategy")[recommender.Memory], 1e-9)
	sum := n.sum(backtest.Strategy{Name: "x", New: func(backtest.Series) backtest.Algorithm { return constant{size: backtest.Size{2, 200}} }})
	assert.Equal(t, "sum of x", sum.Name)
	score := backtest.Replay(n.Series, sum, backtest.Rules{Warmup: 11*time.Hour + 59*time.Minute, Cadence: time.Hour})
	assert.InDelta(t, 3600*(4+2), score.Of[recommender.CPU].Requested, 1e-6, "two pods for an hour, then one")
}

// The largest group's spike is reserved beside all bases.
func TestSharedSpikes(t *testing.T) {
	spiky := func(base, peak float64) []float64 {
		of := make([]float64, 60)
		for i := range of {
			of[i] = base
		}
		of[10] = peak
		return of
	}
	n := spread([]backtest.Series{named("a@1", spiky(1, 3)...), named("a@2", spiky(1, 2)...), named("b", spiky(2, 4)...)}, 20)[0]
	got := predicted(n, "node strategy")
	assert.InDelta(t, 1+1+2+3, got[recommender.CPU], 1e-9, "a's replicas spike together by 2 and 1, b by 2")
	assert.InDelta(t, 300+200+400, got[recommender.Memory], 1e-9, "memory is not shared")
}

// What comes later changes nothing of what was reserved before, also not with the pods' samples at hand.
func TestNoPredictorLooksAhead(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	pods := []backtest.Series{random(rng, 60*40), random(rng, 60*40), random(rng, 60*40)}
	cut := 60 * 30
	one, other := spread(pods, 20)[0], spread(pods, 20)[0]
	for i := range other.Pods {
		for k := cut; k < len(other.Pods[i].Samples); k++ {
			other.Pods[i].Samples[k].Used = [2]float64{99, 9e9}
		}
	}
	all := func(n node) []backtest.Strategy {
		return append(n.predictors(), n.sum(byName(t, "vpa")), n.sum(backtest.Adaptive(1, settings())), n.sum(backtest.Shipped("attune", settings())))
	}
	changed := slices.Clone(one.Samples)
	for k := cut; k < len(changed); k++ {
		changed[k].Used = [2]float64{297, 27e9}
	}
	other.Samples = changed
	for i, s := range all(one) {
		a, b := decisions(one.Series, s, cut), decisions(other.Series, all(other)[i], cut)
		require.NotEmpty(t, a)
		assert.Equal(t, a, b, s.Name)
	}
}

var nan = math.NaN()

// noon is a whole hour.
// minute in milliseconds.
const minute = hour / 60

const noon = int64(1_700_000_000_000) / (24 * 60 * 60 * 1000) * (24 * 60 * 60 * 1000)

// every makes a series with a sample a minute from noon on.
func every(n int, used func(i int) (cores, bytes float64)) backtest.Series {
	s := backtest.Series{ID: "web"}
	for i := range n {
		cores, bytes := used(i)
		s.Samples = append(s.Samples, backtest.Sample{At: noon + int64(i+1)*minute, Used: [2]float64{cores, bytes}})
	}
	return s
}

// random usage with bursts, gaps and growth.
func random(rng *rand.Rand, n int) backtest.Series {
	base, memory := rng.Float64()*2, 50e6*(1+rng.Float64())
	return every(n, func(int) (float64, float64) {
		cores := base * rng.Float64()
		if rng.IntN(200) == 0 {
			cores *= 5
		}
		memory *= 1 + (rng.Float64()-0.49)/100
		if rng.IntN(50) == 0 {
			return nan, memory
		}
		return cores, memory
	})
}

func settings() recommender.Settings {
	return backtest.Alone(recommender.Settings{
		HistoryWindow: 36 * time.Hour, QueryStep: 5 * time.Minute,
		Of: [2]recommender.ResourceSettings{{Percentile: 95, OverheadPercent: 20, BurstSensitivity: 0.1}, {Percentile: 99, OverheadPercent: 30, BurstSensitivity: 0.1}},
	})
}

// spy notes the decisions of an algorithm.
type spy struct {
	backtest.Algorithm
	made []backtest.Size
}

func (s *spy) Decide(at int64) backtest.Size {
	size := s.Algorithm.Decide(at)
	for r := range size {
		if size[r] != size[r] {
			size[r] = -1 // NaN is not equal to itself
		}
	}
	s.made = append(s.made, size)
	return size
}

// decisions until a sample.
func decisions(series backtest.Series, s backtest.Strategy, until int) []backtest.Size {
	var of *spy
	short := backtest.Series{ID: series.ID, Samples: series.Samples[:until]}
	backtest.Replay(short, backtest.Strategy{New: func(backtest.Series) backtest.Algorithm {
		of = &spy{Algorithm: s.New(series)}
		return of
	}}, hourly)
	return of.made
}

func byName(t *testing.T, name string) backtest.Strategy {
	t.Helper()
	for _, s := range backtest.Peers() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no peer %s", name)
	return backtest.Strategy{}
}

// hourly decisions, the first an hour after noon.
var hourly = backtest.Rules{Warmup: 59 * time.Minute, Cadence: time.Hour}

// constant wants the same size each time.
type constant struct {
	deaf
	size backtest.Size
}

func (constant) Observe(backtest.Sample, backtest.Size) {}
func (c constant) Decide(int64) backtest.Size           { return c.size }
