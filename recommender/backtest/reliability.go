package backtest

import (
	"math"
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// Promiser is an algorithm that predicts its shortage.
type Promiser interface {
	Algorithm
	// Promised is the shortage that the last decision expects until the next one, by resource. For CPU it is the part
	// of time with usage above the request. For memory it is the part of clock hours with at least one sample above the
	// limit. 0 to 1; NaN: no promise.
	Promised() [2]float64
}

// promiseBins are bins of promises, two per power of ten from 0.0001 on. The first has all lower promises.
const promiseBins = 9

// binOf returns the bin of a promise.
func binOf(promise float64) int {
	if !(promise >= 1e-4) {
		return 0
	}
	return min(promiseBins-1, 1+int(math.Floor(2*(math.Log10(promise)+4)+1e-9)))
}

// Promises are the promises of one resource in one bin, with the observed shortage.
type Promises struct {
	// Decisions is the number of promises.
	Decisions int
	// Time measured under them: for CPU of the samples, for memory of clock hours.
	Time time.Duration
	// Promised is the sum of promise times time, Observed the time with shortage; see Promiser for both.
	Promised, Observed time.Duration
}

// PromisedPart is the mean of the promises over the measured time, 0 to 1.
func (p Promises) PromisedPart() float64 { return float64(p.Promised) / float64(p.Time) }

// ObservedPart is the part of the measured time with shortage, 0 to 1.
func (p Promises) ObservedPart() float64 { return float64(p.Observed) / float64(p.Time) }

// Reliability compares promised with observed shortage (a reliability diagram). It is not safe for concurrent use. The
// zero value is empty.
type Reliability struct{ bins [2][promiseBins]Promises }

// Bins of a resource, from the lowest promises to the highest, without bins that have no measured time.
func (r *Reliability) Bins(of recommender.Resource) []Promises {
	return slices.DeleteFunc(slices.Clone(r.bins[of][:]), func(p Promises) bool { return p.Time == 0 })
}

// Total of a resource.
func (r *Reliability) Total(of recommender.Resource) (sum Promises) {
	for _, p := range r.bins[of] {
		sum.Decisions += p.Decisions
		sum.Time += p.Time
		sum.Promised += p.Promised
		sum.Observed += p.Observed
	}
	return sum
}

// Promising is a strategy whose promises are compared with the observed shortage, if its algorithms are Promisers. Its
// decisions do not change. A promise holds from one due decision to the next. An answer to an OOM kill in between
// changes the size but not the promise, because the promise included this shortage.
func Promising(s Strategy, into *Reliability) Strategy {
	made := s.New
	s.New = func(series Series) Algorithm {
		of := made(series)
		if promiser, promises := of.(Promiser); promises {
			return &promising{Promiser: promiser, into: into, step: Step(series.Samples), promised: nothing}
		}
		return of
	}
	return s
}

// promising observes one algorithm.
type promising struct {
	Promiser
	into *Reliability
	step time.Duration
	// promised holds since the last due decision.
	promised [2]float64
	// hour of the last memory sample, and whether it has had a shortage; a sample at a whole hour belongs to the hour
	// that ends then.
	hour  int64
	short bool
	// answering: the next decision is an answer to an OOM kill.
	answering bool
}

// Observe implements Algorithm.
func (p *promising) Observe(s Sample, inForce Size) {
	if used := s.Used[recommender.CPU]; measured(used) && inForce[recommender.CPU] > 0 {
		if bin := p.bin(recommender.CPU); bin != nil {
			bin.observe(p.step, p.promised[recommender.CPU], used > inForce[recommender.CPU])
		}
	}
	if used := s.Used[recommender.Memory]; measured(used) && inForce[recommender.Memory] > 0 {
		p.memory((s.At-1)/hour, used > inForce[recommender.Memory])
	}
	p.Promiser.Observe(s, inForce)
}

// memory counts an hour once, with its first sample, and its shortage once, with the first sample above the limit.
func (p *promising) memory(in int64, short bool) {
	bin := p.bin(recommender.Memory)
	if bin == nil {
		return
	}
	if in != p.hour {
		p.hour, p.short = in, false
		bin.observe(time.Hour, p.promised[recommender.Memory], false)
	}
	if short && !p.short {
		p.short = true
		bin.Observed += time.Hour
	}
}

// bin of the current promise, or nil without a promise.
func (p *promising) bin(r recommender.Resource) *Promises {
	if !measured(p.promised[r]) {
		return nil
	}
	return &p.into.bins[r][binOf(p.promised[r])]
}

func (p *Promises) observe(step time.Duration, promise float64, short bool) {
	p.Time += step
	p.Promised += time.Duration(promise * float64(step))
	if short {
		p.Observed += step
	}
}

// OOM implements Algorithm.
func (p *promising) OOM(at int64, limit float64) bool {
	p.answering = p.Promiser.OOM(at, limit)
	return p.answering
}

// Decide implements Algorithm.
func (p *promising) Decide(at int64) Size {
	size := p.Promiser.Decide(at)
	if p.answering {
		p.answering = false
		return size
	}
	p.promised = p.Promised()
	for r := range p.promised {
		if bin := p.bin(recommender.Resource(r)); bin != nil {
			bin.Decisions++
		}
	}
	return size
}
