package main

import (
	"math"
	"slices"
	"strings"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/backtest"
)

// What is reserved on a node for all of its pods together. N-sigma, RC-like and their maximum are the predictors of
// N. Bashir et al., "Take it to the limit: peak prediction-driven resource overcommitment in datacenters" (EuroSys 2021);
// their simulator normalises usage by limits, which traces of usage do not have, so here it is not. The settings are assumed:
// N = 5, the 99th percentile, 10 hours of history. A prediction holds until the next decision.

// node is a node of a trace: the usage of all of its pods as one series.
type node struct {
	backtest.Series
	// Pods have a sample for each of the node's, at the same place; NaN: not measured.
	Pods []backtest.Series
	// lives are the times of the pods' first and last samples.
	lives [][2]int64
}

// has says whether a pod is on the node at a time. A scheduler knows it too: a pod that is not measured for a while is still
// there, and one that has ended is not.
func (n node) has(pod int, at int64) bool { return n.lives[pod][0] <= at && at <= n.lives[pod][1] }

// spread puts series over nodes of at most so many pods, one after the other, so that replicas, which are next to each
// other in traces, are apart.
func spread(all []backtest.Series, pods int) []node {
	n := (len(all) + pods - 1) / pods
	pieces := make([][]backtest.Series, n)
	for i, s := range all {
		pieces[i%n] = append(pieces[i%n], s)
	}
	nodes := make([]node, n)
	for i, of := range pieces {
		nodes[i] = nodeOf(of)
	}
	return nodes
}

// nodeOf adds up pods by steps as long as those of the first one. A pod's usage counts from the first whole hour after its
// first sample on: until then it would have the request that it was born with, which no trace tells.
func nodeOf(pods []backtest.Series) node {
	step := backtest.Step(pods[0].Samples).Milliseconds()
	var steps []int64
	for _, pod := range pods {
		for _, s := range pod.Samples {
			steps = append(steps, above(s.At, step))
		}
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	of := node{Series: backtest.Series{ID: pods[0].ID, Samples: make([]backtest.Sample, len(steps))}, Pods: make([]backtest.Series, len(pods))}
	for k, at := range steps {
		of.Samples[k] = backtest.Sample{At: at, Used: nothing}
	}
	for i, pod := range pods {
		aligned := make([]backtest.Sample, len(steps))
		for k, at := range steps {
			aligned[k] = backtest.Sample{At: at, Used: nothing}
		}
		for _, s := range pod.Samples {
			k, _ := slices.BinarySearch(steps, above(s.At, step))
			for r, used := range s.Used {
				aligned[k].Used[r] = recommender.Highest(aligned[k].Used[r], used)
			}
		}
		of.Pods[i] = backtest.Series{ID: pod.ID, Samples: aligned}
		began := pod.Samples[0].At
		of.lives = append(of.lives, [2]int64{began, pod.Samples[len(pod.Samples)-1].At})
		for k := range aligned {
			if aligned[k].At > above(began, hour) {
				of.Samples[k].Used = plus(of.Samples[k].Used, aligned[k].Used)
			}
		}
	}
	return of
}

// plus adds what is measured.
func plus(a, b [2]float64) [2]float64 {
	for r := range a {
		switch {
		case !measured(a[r]):
			a[r] = b[r]
		case measured(b[r]):
			a[r] += b[r]
		}
	}
	return a
}

// predictors of a node's peak, for a replay of the node's series.
func (n node) predictors() []backtest.Strategy {
	sigma := func(backtest.Series) backtest.Algorithm { return &nSigma{} }
	rc := func(backtest.Series) backtest.Algorithm { return newRCLike(n) }
	return []backtest.Strategy{
		{Name: "n-sigma", Exact: true, New: sigma},
		{Name: "rc-like", Exact: true, New: rc},
		{Name: "max(n-sigma, rc-like)", Exact: true, New: func(s backtest.Series) backtest.Algorithm {
			return &greater{of: [2]backtest.Algorithm{sigma(s), rc(s)}}
		}},
		{Name: "node strategy", Exact: true, New: func(backtest.Series) backtest.Algorithm { return newShared(n) }},
	}
}

// sum reserves on a node what a strategy requests for each of its pods, with the dead band and the answers to OOM kills of
// each pod.
func (n node) sum(s backtest.Strategy) backtest.Strategy {
	return backtest.Strategy{Name: "sum of " + s.Name, Exact: true, New: func(backtest.Series) backtest.Algorithm {
		sum := &summed{node: n}
		s.RaisedPast = [2]float64{} // the dead band of raises is that of lowerings
		for _, pod := range n.Pods {
			sum.players = append(sum.players, backtest.NewPlayer(pod, s))
		}
		return sum
	}}
}

type summed struct {
	deaf
	node    node
	next    int
	players []*backtest.Player
}

// Observe implements backtest.Algorithm.
func (s *summed) Observe(backtest.Sample, backtest.Size) {
	for i := range s.players {
		sample := s.node.Pods[i].Samples[s.next]
		if measured(sample.Used[0]) || measured(sample.Used[1]) {
			s.players[i].Take(sample)
		}
	}
	s.next++
}

// Decide implements backtest.Algorithm.
func (s *summed) Decide(at int64) backtest.Size {
	sum := nothing
	for i := range s.players {
		if !s.node.has(i, at) {
			continue
		}
		s.players[i].Decide(at)
		for r, amount := range s.players[i].InForce {
			if amount > 0 {
				sum[r] = recommender.Highest(0, sum[r]) + amount
			}
		}
	}
	return sum
}

const (
	hour              = int64(time.Hour / time.Millisecond)
	predictorHistory  = 10 * hour
	sigmas            = 5
	predictorQuantile = 0.99
)

// nSigma predicts the mean of the node's usage and five standard deviations.
type nSigma struct {
	deaf
	past backtest.Past
}

// Observe implements backtest.Algorithm.
func (n *nSigma) Observe(s backtest.Sample, _ backtest.Size) { n.past.Add(s) }

// Decide implements backtest.Algorithm.
func (n *nSigma) Decide(at int64) backtest.Size {
	size := nothing
	for r := range size {
		var count, sum, squares float64
		recent := n.past.After(at - predictorHistory)
		for _, s := range recent {
			if measured(s.Used[r]) {
				count, sum = count+1, sum+s.Used[r]
			}
		}
		mean := sum / count
		for _, s := range recent {
			if measured(s.Used[r]) {
				squares += (s.Used[r] - mean) * (s.Used[r] - mean)
			}
		}
		if count > 1 {
			size[r] = mean + sigmas*math.Sqrt(squares/(count-1))
		}
	}
	return size
}

// rcLike predicts the sum of the pods' 99th percentiles, after Resource Central (SOSP 2017).
type rcLike struct {
	deaf
	node node
	next int
	pods [][2]backtest.Window
}

func newRCLike(n node) *rcLike {
	r := &rcLike{node: n, pods: make([][2]backtest.Window, len(n.Pods))}
	for i := range r.pods {
		r.pods[i] = [2]backtest.Window{{Span: predictorHistory}, {Span: predictorHistory}}
	}
	return r
}

// Observe implements backtest.Algorithm.
func (r *rcLike) Observe(s backtest.Sample, _ backtest.Size) {
	for i := range r.pods {
		for k, used := range r.node.Pods[i].Samples[r.next].Used {
			if measured(used) {
				r.pods[i][k].Add(s.At, used)
			}
		}
	}
	r.next++
}

// Decide implements backtest.Algorithm.
func (r *rcLike) Decide(at int64) backtest.Size {
	size := nothing
	for i := range r.pods {
		for k := range size {
			if most := r.pods[i][k].Quantile(predictorQuantile); measured(most) && r.node.has(i, at) {
				size[k] = recommender.Highest(0, size[k]) + most
			}
		}
	}
	return size
}

// greater wants the more of what two algorithms want.
type greater struct {
	deaf
	of [2]backtest.Algorithm
}

// Observe implements backtest.Algorithm.
func (g *greater) Observe(s backtest.Sample, inForce backtest.Size) {
	for _, of := range g.of {
		of.Observe(s, inForce)
	}
}

// Decide implements backtest.Algorithm.
func (g *greater) Decide(at int64) backtest.Size {
	a, b := g.of[0].Decide(at), g.of[1].Decide(at)
	return backtest.Size{recommender.Highest(a[0], b[0]), recommender.Highest(a[1], b[1])}
}

// shared is the strategy Node as published: of CPU the bases of all pods and the spike of the largest group, of memory the
// peaks of all. Pods of one workload are a group: series whose names are the same up to the first @.
type shared struct {
	deaf
	node node
	next int
	pods []backtest.Past
}

func newShared(n node) *shared { return &shared{node: n, pods: make([]backtest.Past, len(n.Pods))} }

// Observe implements backtest.Algorithm.
func (s *shared) Observe(backtest.Sample, backtest.Size) {
	for i := range s.pods {
		s.pods[i].Add(s.node.Pods[i].Samples[s.next])
	}
	s.next++
}

// Decide implements backtest.Algorithm.
func (s *shared) Decide(at int64) backtest.Size {
	sum, spikes, reserve := nothing, map[string]float64{}, 0.0
	for i := range s.pods {
		if !s.node.has(i, at) {
			continue
		}
		base, peak := s.pods[i].Base(recommender.CPU, at), s.pods[i].Peak(recommender.CPU, at)
		if !measured(base) {
			base = peak
		}
		if measured(base) {
			group, _, _ := strings.Cut(s.node.Pods[i].ID, "@")
			spikes[group] += peak - base
			reserve = max(reserve, spikes[group])
		}
		sum = plus(sum, [2]float64{base, s.pods[i].Peak(recommender.Memory, at)})
	}
	sum[recommender.CPU] += reserve
	return sum
}

// deaf are algorithms that do not hear of OOM kills.
type deaf struct{}

// OOM implements backtest.Algorithm.
func (deaf) OOM(int64, float64) bool { return false }

// nothing is wanted of either resource.
var nothing = backtest.Size{math.NaN(), math.NaN()}

// measured is false for NaN.
func measured(amount float64) bool { return !math.IsNaN(amount) }

// above is the first multiple of a step that is not below a time.
func above(at, step int64) int64 { return (at + step - 1) / step * step }
