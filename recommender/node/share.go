package node

import (
	"slices"

	"attune.io/attune/recommender"
)

// Share gives every container of a node its grant. available is what the node has left for these pods: its
// allocatable resources less what the scheduler counts for all other pods. A caller that shares often keeps a Sharer.
func Share(available Amounts, pods []Pod) Result { return new(Sharer).Share(available, pods) }

// Sharer shares one node after the other and reuses its memory. The zero value is ready. It is for one goroutine.
type Sharer struct {
	available Amounts
	pods      []Pod
	demands   demands
	eviction  evictionMemory
	result    Result
}

// Share gives every container its grant. The answer depends on the arguments alone, and not on the order of the
// pods. An amount below zero counts as zero, and an absurd one as the greatest that adds up exactly. The cost is
// linear in the containers; where evictions are needed, n log n in the pods.
func (s *Sharer) Share(available Amounts, pods []Pod) Result {
	s.available = Amounts{bounded(available[0], mostSum), bounded(available[1], mostSum)}
	s.pods = pods
	s.result = Result{Grants: s.result.Grants[:0], Evictions: s.result.Evictions[:0]}
	d := &s.demands
	d.greatest = greatestOf(pods)
	d.countAll(pods, false)
	if d.lacking(s.available) != (lack{}) {
		s.evict()
	}
	s.result.Overcommitted = d.lacking(s.available)
	s.result.Needed = Amounts{d.need(recommender.CPU), d.need(recommender.Memory)}
	g := granter{s.available, pods, d, &s.result}
	g.grantAll()
	return s.result
}

// evict chooses the pods that are to be evicted, and counts them out.
//
// While it chooses, a container that cannot be changed now counts with no more than it holds, and one with a Reach
// with no more than that: no pod is evicted for a demand that could not be met. Nor is one evicted for what such a
// container holds above its grant, as that room comes back. So the pods that stay may still not fit with all that
// they need.
//
// A frozen pod has its place in the order of evictions, but is taken off the list: it is waited for, and no other pod
// is evicted instead of it.
func (s *Sharer) evict() {
	d := &s.demands
	e := evictor{s.available, s.pods, d, &s.result, &s.eviction}
	if !d.constrained {
		e.choose()
		return
	}
	d.countAll(s.pods, true)
	if d.lacking(s.available) != (lack{}) {
		e.choose()
	}
	s.result.Evictions = slices.DeleteFunc(s.result.Evictions, func(v Eviction) bool { return s.pods[v.Pod].Frozen })
	d.countAll(s.pods, false)
	for _, v := range s.result.Evictions {
		out := &d.pods[v.Pod]
		out.evicted = true
		d.count(out, -1)
	}
	d.reserve = d.groups.largest()
}
