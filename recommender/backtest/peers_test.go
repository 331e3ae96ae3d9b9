package backtest

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/recommender"
)

// Buckets of VPA's CPU histogram: the first is 0.01 wide, each next one 5 % wider.
func TestHistogram(t *testing.T) {
	h := histogram{first: 0.01, ratio: 1.05}
	assert.True(t, math.IsNaN(h.percentile(0.9)))
	for value, bucket := range map[float64]int{0: 0, 0.0099: 0, 0.01: 1, 0.0204: 1, 0.0206: 2, 1: 36} {
		assert.Equal(t, bucket, h.bucket(value), "%g", value)
	}
	assert.InDelta(t, 0.01, h.end(0), 1e-12)
	assert.InDelta(t, 0.0205, h.end(1), 1e-12)
	for i := range 10 {
		h.add(noon, float64(i)/10, 1)
	}
	assert.InDelta(t, h.end(h.bucket(0.4)), h.percentile(0.5), 1e-12)
	assert.InDelta(t, h.end(h.bucket(0.8)), h.percentile(0.9), 1e-12)
	h.add(noon, 0.9, -1)
	assert.InDelta(t, h.end(h.bucket(0.8)), h.percentile(1), 1e-12, "taken out again")

	zero := histogram{first: 0.01, ratio: 1.05}
	zero.add(noon, 0, 0)
	assert.Zero(t, zero.percentile(0.95), "nothing weighs anything")
}

// A weight halves with the half-life, even after the scale of weights was moved.
func TestHistogramsFade(t *testing.T) {
	for _, days := range []int64{1, 150, 1000} {
		h := histogram{first: 0.01, ratio: 1.05, halfLife: float64(day)}
		h.add(noon, 1, 3)
		h.add(noon+days*day, 0.1, 3/math.Exp2(float64(days))*1.5)
		assert.InDelta(t, h.end(h.bucket(0.1)), h.percentile(0.59), 1e-12, "%d days", days)
		assert.InDelta(t, h.end(h.bucket(1)), h.percentile(0.61), 1e-12, "%d days", days)
	}
}

func TestWindow(t *testing.T) {
	w := Window{Span: hour}
	assert.True(t, math.IsNaN(w.Quantile(0.5)))
	assert.True(t, math.IsNaN(w.most()))
	for i, value := range []float64{9, 1, 2, 3, 4} {
		w.Add(noon+int64(i)*15*minute, value)
	}
	assert.Equal(t, []float64{1, 2, 3, 4}, w.sorted, "the first is an hour old")
	assert.InDelta(t, 2.5, w.Quantile(0.5), 1e-12)
	assert.InDelta(t, 3.85, w.Quantile(0.95), 1e-12)
	assert.InDelta(t, 4, w.most(), 0)
}

// Steady usage of 1 core and 1 GB: each peer has its margin above it, within the width of its buckets.
func TestPeersOnSteadyUsage(t *testing.T) {
	series := every(60*72, func(int) (float64, float64) { return 1, 1e9 })
	for _, tc := range []struct {
		name        string
		cpu, memory float64
		width       float64
	}{
		{"vpa", 1.15, 1.15e9, 0.06}, {"vpa-nofloor", 1.15, 1.15e9, 0.06}, {"krr-simple", 1, 1.15e9, 0}, {"krr-simple-nofloor", 1, 1.15e9, 0},
		{"autopilot-mw", 1.12, 1.12e9, 0.06}, {"static-max1.2", 1.2, 1.2e9, 0}, {"datadog-cpu", 1.1, nan, 0.06}, {"datadog-limit-cpu", 1.05, nan, 0.06}, {"eks-balanced-cpu", 1 / 0.87, nan, 0},
		{"node-alone", 1, 1e9, 0}, {"oracle-static", 1, 1e9, 0}, {"oracle-1h", 1, 1e9, 0},
	} {
		made := decisions(series, byName(t, tc.name), len(series.Samples))
		got := made[len(made)-2] // an oracle has no data after the end
		if tc.name == "oracle-static" {
			got = made[0]
		}
		assert.GreaterOrEqual(t, got[recommender.CPU], tc.cpu, tc.name)
		assert.LessOrEqual(t, got[recommender.CPU], tc.cpu*(1+tc.width)+1e-9, tc.name)
		if tc.memory != tc.memory {
			assert.InDelta(t, -1, got[recommender.Memory], 0, "%s: no opinion", tc.name)
			continue
		}
		assert.GreaterOrEqual(t, got[recommender.Memory], tc.memory-1, tc.name)
		assert.LessOrEqual(t, got[recommender.Memory], tc.memory*(1+tc.width)+1, tc.name)
	}
}

// Absurd usage costs no memory and no panic.
func TestPeersOnAbsurdUsage(t *testing.T) {
	for _, value := range []float64{0, 5e-324, 1e300, 1e308, math.MaxFloat64} {
		series := every(300, func(i int) (float64, float64) {
			if i%2 == 0 {
				return 0.1, 1e8
			}
			return value, value
		})
		for _, peer := range Peers() {
			assert.NotPanics(t, func() { decisions(series, peer, len(series.Samples)) }, "%s at %g", peer.Name, value)
		}
	}
	h := histogram{first: 0.01, ratio: 1.05}
	h.add(noon, math.MaxFloat64, 1)
	assert.LessOrEqual(t, len(h.weights), mostBuckets+1)
}

func byName(t *testing.T, name string) Strategy {
	t.Helper()
	for _, s := range Peers() {
		if s.Name == name {
			return s
		}
	}
	t.Fatalf("no peer %s", name)
	return Strategy{}
}

func TestFloorsOfPeers(t *testing.T) {
	series := every(60*30, func(int) (float64, float64) { return 0.001, 1e6 })
	for name, want := range map[string]Size{"vpa": {0.025, 250 * mib}, "krr-simple": {0.01, 100e6}} {
		made := decisions(series, byName(t, name), len(series.Samples))
		assert.Equal(t, want, made[len(made)-1], name)
	}
}

// An OOM kill counts as a peak of 100 MiB or 20 % more, and VPA decides again at once.
func TestVPAAnswersOOMKills(t *testing.T) {
	for limit, peak := range map[float64]float64{200 * mib: 300 * mib, 4000 * mib: 4800 * mib} {
		v := vpa(Size{})(Series{})
		v.Observe(Sample{At: noon, Used: [2]float64{1, limit}}, Size{1, limit})
		assert.True(t, v.OOM(noon, limit))
		got := v.Decide(noon)[recommender.Memory]
		assert.GreaterOrEqual(t, got, 1.15*peak)
		assert.LessOrEqual(t, got, 1.15*peak*1.06+1.15e7)
	}
	for _, name := range []string{"krr-simple", "static-max1.2", "autopilot-mw"} {
		assert.False(t, byName(t, name).New(Series{}).OOM(noon, 1), name)
	}
}

// Only one peak of a day counts, however often it rises.
func TestVPAsPeaksAreOfDays(t *testing.T) {
	v := vpa(Size{})(Series{}).(*vpaAlgorithm)
	for i := range 3 * 24 {
		v.Observe(Sample{At: noon + int64(i)*hour, Used: [2]float64{nan, float64(i+1) * 1e8}}, Size{})
	}
	weights := 0
	for _, w := range v.memory.weights {
		if w > 1e-9 {
			weights++
		}
	}
	assert.Equal(t, 3, weights)
	assert.InDelta(t, 7.2e9, v.memory.peak, 1)
	assert.Equal(t, 24*time.Hour, time.Duration(day)*time.Millisecond)
}

// The forecast has the peak of the coming hour a week ago, not of the hour before it; the memory limit is separate.
func TestNodeAlone(t *testing.T) {
	n := newNodeAlone(Series{}).(*nodeAlone)
	at := func(days, minutes int64) int64 { return noon + days*day + minutes*minute }
	for days := range int64(8) {
		for m := int64(1); m <= 24*60; m++ {
			cores, bytes := 1.0, 100.0
			switch {
			case days == 0 && m == 60*12+30:
				cores, bytes = 3, 300
			case days == 1 && m == 60*11+30:
				cores, bytes = 5, 500
			case days == 7 && m > 60*12:
				continue
			}
			n.Observe(Sample{At: at(days, m), Used: [2]float64{cores, bytes}}, Size{})
		}
	}
	assert.Equal(t, Size{3, 300}, n.Decide(at(7, 60*12)))
	assert.InDelta(t, 1000, n.MemoryLimit(), 0, "twice the most of 7 days")
	assert.Equal(t, Size{1, 100}, n.Decide(at(7, 60*12+31)), "the coming hour of a week ago has passed")
	assert.LessOrEqual(t, len(n.past.samples), 2*(7*24+1)*60)
	assert.True(t, math.IsNaN(n.past.Base(recommender.CPU, at(9, 0))))
}

// Usage above the request and above the separate limit are two counts; an OOM kill is above the limit.
func TestLimitsOfTheirOwn(t *testing.T) {
	series := every(60*4, func(i int) (float64, float64) {
		return 0.1, []float64{50, 150, 250, 150, 50}[(i+1)/60]
	})
	l := &limited{scripted: scripted{wants: []Size{{1, 100}}}, limit: 200}
	score := Replay(series, Strategy{New: func(Series) Algorithm { return l }}, hourly)
	assert.Equal(t, 3, score.OOMHours)
	assert.Equal(t, 1, score.OwnOOMHours)
	assert.Len(t, l.killed, 60, "told of the kills at the limit alone")
	assert.InDelta(t, 200, l.killed[0], 0)
	report := Summary("x", []Score{score})
	assert.True(t, report.Own)
	assert.InDelta(t, 8, report.OwnOOMHours, 1e-9)
}

type limited struct {
	scripted
	limit float64
}

func (l *limited) MemoryLimit() float64 { return l.limit }
