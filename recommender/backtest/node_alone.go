package backtest

import (
	"math"
	"slices"
	"sort"

	"attune.io/attune/recommender"
)

// nodeAlone is the strategy Node of this project, and of CruiseKube, for a pod that is alone on its node: with nothing
// to share, it gets its peak. The peak is the highest of its base (the 75th percentile of the last 10 minutes of CPU,
// 30 of memory), of the last hour, and of the coming hour on each of the last 7 days. The memory limit is separate:
// twice the maximum of 7 days. This is the published form; docs/node-strategy.md lists this project's differences.
type nodeAlone struct {
	deaf
	past  Past
	limit float64
}

func newNodeAlone(Series) Algorithm { return &nodeAlone{} }

// Observe implements Algorithm.
func (n *nodeAlone) Observe(s Sample, _ Size) { n.past.Add(s) }

// MemoryLimit implements Limiter.
func (n *nodeAlone) MemoryLimit() float64 { return n.limit }

// Decide implements Algorithm.
func (n *nodeAlone) Decide(at int64) Size {
	size := nothing
	for r := range size {
		size[r] = n.past.Peak(recommender.Resource(r), at)
	}
	n.limit = 2 * n.past.most(recommender.Memory, at-7*day, at)
	return size
}

// Past has the samples of 7 days and an hour, oldest first. Its zero value is empty.
type Past struct{ samples []Sample }

// Add the newest sample.
func (p *Past) Add(s Sample) {
	p.samples = append(p.samples, s)
	if recent := p.After(s.At - 7*day - hour); len(recent) < len(p.samples)/2 {
		p.samples = slices.Clone(recent)
	}
}

// After returns the samples after a time. The caller must not change them.
func (p *Past) After(at int64) []Sample {
	return p.samples[sort.Search(len(p.samples), func(i int) bool { return p.samples[i].At > at }):]
}

// most is the maximum of a resource after one time and up to another; NaN if not measured.
func (p *Past) most(r recommender.Resource, after, until int64) float64 {
	most := math.NaN()
	for _, s := range p.After(after) {
		if s.At > until {
			break
		}
		most = recommender.Highest(most, s.Used[r])
	}
	return most
}

// baseWindows of the resources, in milliseconds.
var baseWindows = [2]int64{recommender.CPU: 10 * minute, recommender.Memory: 30 * minute}

// Base is the permanent need: the 75th percentile of the last minutes; NaN if not measured.
func (p *Past) Base(r recommender.Resource, now int64) float64 {
	var values []float64
	for _, s := range p.After(now - baseWindows[r]) {
		if measured(s.Used[r]) {
			values = append(values, s.Used[r])
		}
	}
	slices.Sort(values)
	return (&Window{sorted: values}).Quantile(0.75)
}

// Peak is the forecast for the coming hour.
func (p *Past) Peak(r recommender.Resource, now int64) float64 {
	peak := recommender.Highest(p.Base(r, now), p.most(r, now-hour, now))
	for days := int64(1); days <= 7; days++ {
		peak = recommender.Highest(peak, p.most(r, now-days*day, now-days*day+hour))
	}
	return peak
}
