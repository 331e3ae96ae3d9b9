// Package backtest replays recorded usage through algorithms that size containers, and scores the reserved resources,
// the CPU shortage and the OOM kills of each.
//
// A series is replayed sample by sample. Before each sample, the due decisions are made from the usage observed so far
// (Algorithm.Decide). The sample is then scored against the size in force, and only then observed. So an algorithm
// knows nothing of the sample that it is scored with. Only the two oracles look ahead; their documentation says so.
//
// Usage is fixed: a size does not change later usage. docs/quality.md lists the limits of the replay.
//
// The package is pure: it reads no files and no clock, and needs only one series at a time. Start reading with Replay,
// then score.go; the algorithms are in peers.go and chain.go.
package backtest

import (
	"math"
	"slices"
	"time"
)

// Sample is the usage of one container at one time.
type Sample struct {
	// At is in Unix milliseconds.
	At int64
	// Used is the usage in cores and in bytes, indexed by recommender.Resource; NaN: not measured.
	Used [2]float64
}

// Series has the samples of one container, oldest first, no two at the same time.
type Series struct {
	// ID names the series.
	ID string
	// Samples of the container.
	Samples []Sample
}

// Size is a CPU request in cores and a memory request in bytes, which is also the memory limit, indexed by
// recommender.Resource. 0: not set.
type Size [2]float64

// measured is false for NaN.
func measured(amount float64) bool { return !math.IsNaN(amount) }

// Algorithm sizes one container. It is made for one series and used by one goroutine.
type Algorithm interface {
	// Observe is called with a sample after it was scored, with the size in force (zero during the warm-up).
	Observe(s Sample, inForce Size)
	// OOM is called when memory exceeded the limit, after Observe. It returns whether the algorithm decides again at
	// once.
	OOM(at int64, limit float64) bool
	// Decide returns the wanted size at a time. A resource that is NaN stays unchanged.
	Decide(at int64) Size
}

// Limiter is an algorithm with a memory limit other than its request.
type Limiter interface {
	Algorithm
	// MemoryLimit in bytes, since the last decision; NaN or 0: not known.
	MemoryLimit() float64
}

// Strategy makes the algorithms of one kind.
type Strategy struct {
	// Name of the strategy in reports.
	Name string
	// New makes the algorithm for a series. Only oracles may read the series.
	New func(Series) Algorithm
	// Exact strategies have no dead band: every decision is applied.
	Exact bool
	// RaisedPast is the dead band of raises, as a part of the size in force, indexed by recommender.Resource; 0: 10 %.
	RaisedPast [2]float64
}

// Rules of a replay.
type Rules struct {
	// Warmup is how long a series is observed without being scored.
	Warmup time.Duration
	// Cadence is the time between decisions, which are made at whole multiples of it.
	Cadence time.Duration
}

// deadBand is the part of the size in force beyond which a wanted size is applied: 10 %, as in VPA's updater and in the
// change rule of this project.
const deadBand = 0.1

// mostInGap bounds the decisions between two samples, so that the cost of a replay depends on the number of samples,
// not on their distance. A thousand is six weeks of hours. Only the last ones are made: older evidence has decayed by
// then, and no sample scores the decisions in between.
const mostInGap = 1000

// least is the smallest size that Kubernetes stores: a millicore and a byte.
var least = Size{0.001, 1}

// Replay replays one series with one strategy. The score has no time if the series ends within the warm-up.
func Replay(series Series, strategy Strategy, rules Rules) Score {
	return NewPlayer(series, strategy).replay(series.Samples, rules)
}

func (p *Player) replay(samples []Sample, rules Rules) Score {
	if len(samples) == 0 {
		return p.score
	}
	cadence := rules.Cadence.Milliseconds()
	due := above(samples[0].At+rules.Warmup.Milliseconds(), cadence)
	for _, s := range samples {
		due = max(due, above(s.At, cadence)-mostInGap*cadence)
		for ; due < s.At; due += cadence {
			p.Decide(due)
		}
		p.Take(s)
	}
	return p.score
}

// above is the first multiple of the cadence at or after a time.
func above(at, cadence int64) int64 { return (at + cadence - 1) / cadence * cadence }

// Player is a running replay.
type Player struct {
	strategy  Strategy
	algorithm Algorithm
	step      time.Duration
	// InForce is the size in force; zero before the first decision.
	InForce Size
	score   Score
	// seen is called with each sample, the size in force and the memory limit, before the sample is observed; nil: not
	// called.
	seen func(s Sample, inForce Size, limit float64)
}

// NewPlayer starts a replay of a series with a strategy.
func NewPlayer(series Series, strategy Strategy) *Player {
	return &Player{strategy: strategy, algorithm: strategy.New(series), step: Step(series.Samples)}
}

// Take scores a sample and passes it to the algorithm.
func (p *Player) Take(s Sample) {
	killed, limit := p.score.add(s, p.InForce, p.step), p.InForce[1]
	if own, has := p.algorithm.(Limiter); has {
		limit = own.MemoryLimit()
		p.score.Own = true
		killed = beyond(s, limit, &p.score.OwnOOMHours, &p.score.lastOwn)
	}
	if p.seen != nil {
		p.seen(s, p.InForce, limit)
	}
	p.algorithm.Observe(s, p.InForce)
	if killed && p.algorithm.OOM(s.At, limit) {
		p.Decide(s.At)
	}
}

// Decide applies the size that the algorithm wants, if it is beyond the dead band. The first size does not count as a
// resize.
func (p *Player) Decide(at int64) {
	wanted, resized := p.algorithm.Decide(at), false
	for r, want := range wanted {
		has := p.InForce[r]
		if !measured(want) {
			continue
		}
		want = max(want, least[r])
		if has > 0 && (want == has || !p.strategy.Exact && math.Abs(want-has) <= p.deadBand(r, want)*has) {
			continue
		}
		resized = resized || has > 0
		p.InForce[r] = want
	}
	if resized {
		p.score.Resizes++
	}
}

// deadBand on the way to a wanted size, as a part of the size in force.
func (p *Player) deadBand(r int, want float64) float64 {
	if past := p.strategy.RaisedPast[r]; past > 0 && want > p.InForce[r] {
		return past
	}
	return deadBand
}

// Step is the time that one sample represents: the median distance of neighbours, a minute for fewer than two samples.
func Step(samples []Sample) time.Duration {
	if len(samples) < 2 {
		return time.Minute
	}
	distances := make([]int64, 0, len(samples)-1)
	for i := range samples[1:] {
		distances = append(distances, samples[i+1].At-samples[i].At)
	}
	return time.Duration(median(distances)) * time.Millisecond
}

// Window keeps the values of a span of time, sorted by time and by size.
type Window struct {
	// Span in milliseconds; 0: unlimited.
	Span   int64
	times  []int64
	values []float64
	sorted []float64
}

// Add a value, and drop values older than the span; NaN was not measured.
func (w *Window) Add(at int64, value float64) {
	if !measured(value) {
		return
	}
	w.times, w.values = append(w.times, at), append(w.values, value)
	i, _ := slices.BinarySearch(w.sorted, value)
	w.sorted = slices.Insert(w.sorted, i, value)
	n := 0
	for w.Span > 0 && n < len(w.times) && w.times[n] <= at-w.Span {
		i, _ := slices.BinarySearch(w.sorted, w.values[n])
		w.sorted = slices.Delete(w.sorted, i, i+1)
		n++
	}
	w.times, w.values = w.times[n:], w.values[n:]
}

// Quantile interpolates between the two neighbours of a rank; NaN without values.
func (w *Window) Quantile(q float64) float64 {
	if len(w.sorted) == 0 {
		return math.NaN()
	}
	rank := q * float64(len(w.sorted)-1)
	low := int(rank)
	high := min(low+1, len(w.sorted)-1)
	return w.sorted[low] + (w.sorted[high]-w.sorted[low])*(rank-float64(low))
}

// most is the largest value; NaN without values.
func (w *Window) most() float64 {
	if len(w.sorted) == 0 {
		return math.NaN()
	}
	return w.sorted[len(w.sorted)-1]
}
