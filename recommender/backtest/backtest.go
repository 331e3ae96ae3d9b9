// Package backtest replays recorded usage through algorithms that size containers, and scores what each of them would
// have reserved, starved and killed.
//
// A series is replayed sample by sample. Before each sample, the decisions that are due are made from what was observed
// so far (Algorithm.Decide); the sample is then scored against the size in force, and only then observed. An algorithm
// so knows nothing of the sample that it is judged by; only the two oracles look ahead, and say so.
//
// Usage is taken as given: a size does not change later usage. What the replay cannot see is listed in docs/quality.md.
//
// The package is pure: it reads no files and no clock, and one series at a time is enough for it. Start reading with
// Replay, then score.go; the algorithms are in peers.go and chain.go.
package backtest

import (
	"math"
	"time"
)

// Sample is what one container used at one time.
type Sample struct {
	// At is in Unix milliseconds.
	At int64
	// Used is the usage in cores and in bytes, indexed by recommender.Resource; NaN: not measured.
	Used [2]float64
}

// Series holds the samples of one container, oldest first, no two at the same time.
type Series struct {
	// ID names it.
	ID string
	// Samples of the container.
	Samples []Sample
}

// Size is a CPU request in cores and a memory request in bytes, which is the memory limit too; indexed by
// recommender.Resource. 0: none.
type Size [2]float64

// measured is false for NaN.
func measured(amount float64) bool { return !math.IsNaN(amount) }

// Algorithm sizes one container. It is made for one series and used by one goroutine.
type Algorithm interface {
	// Observe is told of a sample after it was scored, with the size that was in force (zero during the warm-up).
	Observe(s Sample, inForce Size)
	// OOM is told that memory went beyond the limit, after Observe. It returns whether it decides again at once.
	OOM(at int64, limit float64) bool
	// Decide returns the size that it wants at a time. A resource that is NaN is left as it is.
	Decide(at int64) Size
}

// Limiter is an algorithm whose memory limit is not its request.
type Limiter interface {
	Algorithm
	// MemoryLimit in bytes, since the last decision; NaN or 0: none is known.
	MemoryLimit() float64
}

// Strategy makes the algorithms of one kind.
type Strategy struct {
	// Name of the strategy in reports.
	Name string
	// New makes the algorithm for a series. Only oracles may look at the series.
	New func(Series) Algorithm
	// Exact strategies have no dead band: every decision is applied.
	Exact bool
	// RaisedPast is the dead band of raises, as a part of the size in force, indexed by recommender.Resource; 0: 10 %.
	RaisedPast [2]float64
}

// Rules say how a trace is replayed.
type Rules struct {
	// Warmup is how long a series is observed and not scored.
	Warmup time.Duration
	// Cadence is how often a decision is made, on whole multiples of it.
	Cadence time.Duration
}

// deadBand is the part of the size in force beyond which a wanted size is applied: 10 %, as in VPA's updater and in the
// change rule of this project.
const deadBand = 0.1

// mostInGap bounds the decisions between two samples, so that a replay costs what its samples are and not how far they
// are apart: a thousand is six weeks of hours. The last ones are made, since what fades has faded by then, and what
// happens in between is judged by nothing.
const mostInGap = 1000

// least is the smallest size that Kubernetes stores: a millicore and a byte.
var least = Size{0.001, 1}

// Replay plays one series through one strategy. The score has no time where the series ends within the warm-up.
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

// above is the first multiple of the cadence that is not below a time.
func above(at, cadence int64) int64 { return (at + cadence - 1) / cadence * cadence }

// Player is one replay under way.
type Player struct {
	strategy  Strategy
	algorithm Algorithm
	step      time.Duration
	// InForce is the size in force; zero before the first decision.
	InForce Size
	score   Score
	// seen is called with each sample, the size in force and the memory limit, before it is observed; nil: not called.
	seen func(s Sample, inForce Size, limit float64)
}

// NewPlayer begins to play a series through a strategy.
func NewPlayer(series Series, strategy Strategy) *Player {
	return &Player{strategy: strategy, algorithm: strategy.New(series), step: Step(series.Samples)}
}

// Take scores a sample and has it observed.
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

// Decide applies what the algorithm wants, as far as it is beyond the dead band. The first size is free.
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

// Step is the time that one sample stands for: the median distance of neighbours, a minute where there is only one.
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
