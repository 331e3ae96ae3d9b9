package node

import (
	"cmp"
	"slices"

	"attune.io/attune/recommender"
)

// Sharer shares one node after the other and reuses its memory. The zero value is ready. It is for one goroutine.
type Sharer struct {
	available Amounts
	pods      []Pod
	demands   demands
	result    Result
	// order and groups are the memory in which evictions are chosen.
	order  []int32
	groups tournament
}

// Share gives every container its grant. available is what the node has left for these pods: its allocatable resources
// less what the scheduler counts for all other pods. The answer depends on the arguments alone, and not on the order of the
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
	s.grantAll()
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
	if !d.constrained {
		s.choose()
		return
	}
	d.countAll(s.pods, true)
	if d.lacking(s.available) != (lack{}) {
		s.choose()
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

// choose the result's evictions: for memory, then for CPU, until all other pods fit; then take back, the last one first, each
// that fits after all. Where all evictions together are not enough, there is none. The demands' sums, reserve included, are
// kept those of the pods that are not chosen.
//
// Lower rankings go first in either round, and the second round begins where the first has stopped. So a pod is chosen
// only if the node would not fit even without all pods of lower rankings; and as less demand always fits better, none
// of the chosen could stay.
func (s *Sharer) choose() {
	s.groups = s.groups.over(s.demands.groups.spikes)
	for _, r := range [...]recommender.Resource{recommender.Memory, recommender.CPU} {
		if !s.chooseFor(r) {
			s.takeBack(func() bool { return true })
			return
		}
	}
	s.takeBack(func() bool { return s.demands.lacking(s.available) == lack{} })
}

// chooseFor chooses evictions until the resource fits; false if it does not even then.
func (s *Sharer) chooseFor(r recommender.Resource) bool {
	if s.fits(r) {
		return true
	}
	for _, i := range s.candidates(r) {
		p, d := &s.pods[i], &s.demands.pods[i]
		s.result.Evictions = append(s.result.Evictions, Eviction{
			Pod: int(i), Name: p.Name, Ranking: p.Ranking, Resource: r,
			Needed: s.demands.need(r), Available: s.available[r], Spike: d.spike[r],
		})
		d.evicted = true
		s.count(d, -1)
		if s.fits(r) {
			return true
		}
	}
	return false
}

func (s *Sharer) fits(r recommender.Resource) bool { return !s.demands.lacking(s.available)[r] }

// candidates are the pods that may be evicted, in the order of their evictions: the lowest ranking first, of those the
// largest spike, of those by name. The order is total, as names are unique on a node.
func (s *Sharer) candidates(r recommender.Resource) []int32 {
	order := s.order[:0]
	for i := range s.pods {
		if !s.pods[i].protected() && !s.demands.pods[i].evicted {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return s.before(r, a, b) })
	s.order = order
	return order
}

func (s *Sharer) before(r recommender.Resource, a, b int32) int {
	x, y := &s.pods[a], &s.pods[b]
	bySpike := cmp.Compare(s.demands.pods[b].spike[r], s.demands.pods[a].spike[r])
	return cmp.Or(cmp.Compare(x.Ranking, y.Ranking), bySpike, cmp.Compare(x.Name, y.Name))
}

// takeBack takes back, the last one first, every eviction without which well still holds.
func (s *Sharer) takeBack(well func() bool) {
	chosen := s.result.Evictions
	for n := len(chosen) - 1; n >= 0; n-- {
		d := &s.demands.pods[chosen[n].Pod]
		s.count(d, 1)
		if d.evicted = !well(); d.evicted {
			s.count(d, -1)
		}
	}
	s.result.Evictions = slices.DeleteFunc(chosen, func(v Eviction) bool { return !s.demands.pods[v.Pod].evicted })
}

// count a pod in (times 1) or out (times −1), and bring the reserve up to date, in log n of the groups.
func (s *Sharer) count(d *podDemand, times recommender.Amount) {
	s.demands.count(d, times)
	s.groups.set(int(d.group), s.demands.groups.spikes[d.group])
	s.demands.reserve = s.groups.largest()
}

// tournament knows the largest of some amounts: they are its second half, and each place i before them
// holds the larger of 2i and 2i+1.
type tournament []recommender.Amount

// over is a tournament over the amounts; it reuses t.
func (t tournament) over(amounts []recommender.Amount) tournament {
	n := len(amounts)
	t = slices.Grow(t[:0], 2*n)[:2*n]
	copy(t[n:], amounts)
	for i := n - 1; i > 0; i-- {
		t[i] = max(t[2*i], t[2*i+1])
	}
	return t
}

func (t tournament) set(i int, amount recommender.Amount) {
	i += len(t) / 2
	t[i] = amount
	for i /= 2; i > 0; i /= 2 {
		t[i] = max(t[2*i], t[2*i+1])
	}
}

func (t tournament) largest() recommender.Amount {
	if len(t) < 2 {
		return 0
	}
	return t[1]
}
