package backtest

import (
	"math"
	"slices"
	"strings"

	"attune.io/attune/recommender"
)

// What is reserved on a node for all of its pods together. N-sigma, RC-like and their maximum are the predictors of
// N. Bashir et al., "Take it to the limit: peak prediction-driven resource overcommitment in datacenters" (EuroSys 2021);
// their simulator normalises usage by limits, which traces of usage do not have, so here it is not. The settings are assumed:
// N = 5, the 99th percentile, 10 hours of history. A prediction holds until the next decision.

// Node is a node of a trace: the usage of all of its pods as one series.
type Node struct {
	Series
	// Pods have a sample for each of the node's, at the same place; NaN: not measured.
	Pods []Series
	// lives are the times of the pods' first and last samples.
	lives [][2]int64
}

// has says whether a pod is on the node at a time. A scheduler knows it too: a pod that is not measured for a while is still
// there, and one that has ended is not.
func (n Node) has(pod int, at int64) bool { return n.lives[pod][0] <= at && at <= n.lives[pod][1] }

// Nodes spreads series over nodes of at most so many pods, one after the other, so that replicas, which are next to each
// other in traces, are apart.
func Nodes(all []Series, pods int) []Node {
	n := (len(all) + pods - 1) / pods
	spread := make([][]Series, n)
	for i, s := range all {
		spread[i%n] = append(spread[i%n], s)
	}
	nodes := make([]Node, n)
	for i, of := range spread {
		nodes[i] = nodeOf(of)
	}
	return nodes
}

// nodeOf adds up pods by steps as long as those of the first one. A pod's usage counts from the first whole hour after its
// first sample on: until then it would have the request that it was born with, which no trace tells.
func nodeOf(pods []Series) Node {
	step := Step(pods[0].Samples).Milliseconds()
	var steps []int64
	for _, pod := range pods {
		for _, s := range pod.Samples {
			steps = append(steps, above(s.At, step))
		}
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	node := Node{Series: Series{ID: pods[0].ID, Samples: make([]Sample, len(steps))}, Pods: make([]Series, len(pods))}
	for k, at := range steps {
		node.Samples[k] = Sample{At: at, Used: nothing}
	}
	for i, pod := range pods {
		aligned := make([]Sample, len(steps))
		for k, at := range steps {
			aligned[k] = Sample{At: at, Used: nothing}
		}
		for _, s := range pod.Samples {
			k, _ := slices.BinarySearch(steps, above(s.At, step))
			for r, used := range s.Used {
				aligned[k].Used[r] = recommender.Highest(aligned[k].Used[r], used)
			}
		}
		node.Pods[i] = Series{ID: pod.ID, Samples: aligned}
		began := pod.Samples[0].At
		node.lives = append(node.lives, [2]int64{began, pod.Samples[len(pod.Samples)-1].At})
		for k := range aligned {
			if aligned[k].At > above(began, hour) {
				node.Samples[k].Used = plus(node.Samples[k].Used, aligned[k].Used)
			}
		}
	}
	return node
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

// Predictors of a node's peak, for a replay of the node's series.
func (n Node) Predictors() []Strategy {
	sigma := func(Series) Algorithm { return &nSigma{} }
	rc := func(Series) Algorithm { return newRCLike(n) }
	return []Strategy{
		{Name: "n-sigma", Exact: true, New: sigma},
		{Name: "rc-like", Exact: true, New: rc},
		{Name: "max(n-sigma, rc-like)", Exact: true, New: func(s Series) Algorithm { return &greater{of: [2]Algorithm{sigma(s), rc(s)}} }},
		{Name: "node strategy", Exact: true, New: func(Series) Algorithm { return newShared(n) }},
	}
}

// Sum reserves on a node what a strategy requests for each of its pods, with the dead band and the answers to OOM kills of
// each pod.
func (n Node) Sum(s Strategy) Strategy {
	return Strategy{Name: "sum of " + s.Name, Exact: true, New: func(Series) Algorithm {
		sum := &summed{node: n, players: make([]player, len(n.Pods))}
		for i, pod := range n.Pods {
			sum.players[i] = player{algorithm: s.New(pod), exact: s.Exact, step: Step(pod.Samples)}
		}
		return sum
	}}
}

type summed struct {
	deaf
	node    Node
	next    int
	players []player
}

// Observe implements Algorithm.
func (s *summed) Observe(Sample, Size) {
	for i := range s.players {
		sample := s.node.Pods[i].Samples[s.next]
		if measured(sample.Used[0]) || measured(sample.Used[1]) {
			s.players[i].take(sample)
		}
	}
	s.next++
}

// Decide implements Algorithm.
func (s *summed) Decide(at int64) Size {
	sum := nothing
	for i := range s.players {
		if !s.node.has(i, at) {
			continue
		}
		s.players[i].decide(at)
		for r, amount := range s.players[i].inForce {
			if amount > 0 {
				sum[r] = recommender.Highest(0, sum[r]) + amount
			}
		}
	}
	return sum
}

const (
	predictorHistory  = 10 * hour
	sigmas            = 5
	predictorQuantile = 0.99
)

// nSigma predicts the mean of the node's usage and five standard deviations.
type nSigma struct {
	deaf
	past past
}

// Observe implements Algorithm.
func (n *nSigma) Observe(s Sample, _ Size) { n.past.add(s) }

// Decide implements Algorithm.
func (n *nSigma) Decide(at int64) Size {
	size := nothing
	for r := range size {
		var count, sum, squares float64
		recent := n.past.samples[n.past.from(at-predictorHistory):]
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
	node Node
	next int
	pods [][2]window
}

func newRCLike(n Node) *rcLike {
	r := &rcLike{node: n, pods: make([][2]window, len(n.Pods))}
	for i := range r.pods {
		r.pods[i] = [2]window{{span: predictorHistory}, {span: predictorHistory}}
	}
	return r
}

// Observe implements Algorithm.
func (r *rcLike) Observe(s Sample, _ Size) {
	for i := range r.pods {
		for k, used := range r.node.Pods[i].Samples[r.next].Used {
			if measured(used) {
				r.pods[i][k].add(s.At, used)
			}
		}
	}
	r.next++
}

// Decide implements Algorithm.
func (r *rcLike) Decide(at int64) Size {
	size := nothing
	for i := range r.pods {
		for k := range size {
			if of := &r.pods[i][k]; len(of.times) > 0 && r.node.has(i, at) {
				size[k] = recommender.Highest(0, size[k]) + of.quantile(predictorQuantile)
			}
		}
	}
	return size
}

// greater wants the more of what two algorithms want.
type greater struct {
	deaf
	of [2]Algorithm
}

// Observe implements Algorithm.
func (g *greater) Observe(s Sample, inForce Size) {
	for _, of := range g.of {
		of.Observe(s, inForce)
	}
}

// Decide implements Algorithm.
func (g *greater) Decide(at int64) Size {
	a, b := g.of[0].Decide(at), g.of[1].Decide(at)
	return Size{recommender.Highest(a[0], b[0]), recommender.Highest(a[1], b[1])}
}

// shared is the strategy Node as published: of CPU the bases of all pods and the spike of the largest group, of memory the
// peaks of all. Pods of one workload are a group: series whose names are the same up to the first @.
type shared struct {
	deaf
	node Node
	next int
	pods []past
}

func newShared(n Node) *shared { return &shared{node: n, pods: make([]past, len(n.Pods))} }

// Observe implements Algorithm.
func (s *shared) Observe(Sample, Size) {
	for i := range s.pods {
		s.pods[i].add(s.node.Pods[i].Samples[s.next])
	}
	s.next++
}

// Decide implements Algorithm.
func (s *shared) Decide(at int64) Size {
	sum, spikes, reserve := nothing, map[string]float64{}, 0.0
	for i := range s.pods {
		if !s.node.has(i, at) {
			continue
		}
		base, peak := s.pods[i].base(recommender.CPU, at), s.pods[i].peak(recommender.CPU, at)
		if !measured(base) {
			base = peak
		}
		if measured(base) {
			group, _, _ := strings.Cut(s.node.Pods[i].ID, "@")
			spikes[group] += peak - base
			reserve = max(reserve, spikes[group])
		}
		sum = plus(sum, [2]float64{base, s.pods[i].peak(recommender.Memory, at)})
	}
	sum[recommender.CPU] += reserve
	return sum
}
