package node

import (
	"cmp"
	"slices"

	"attune.io/attune/recommender"
)

// Sharer shares one node after another and reuses its memory. The zero value is ready for use. It is not safe for
// concurrent use.
type Sharer struct {
	available Amounts
	pods      []Pod
	demands   demands
	result    Result
	// order and groups are reused while evictions are chosen.
	order  []int32
	groups tournament
}

// Share computes the grant of every container. available is the room of the node for these pods: its allocatable
// resources minus the requests that the scheduler counts for all other pods. The result depends only on the arguments,
// not on the order of the pods. A negative amount counts as zero. An amount that is too large counts as the largest
// with exact sums. The cost is linear in the containers; with evictions, n log n in the pods.
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

// evict chooses the pods to evict and removes them from the sums.
//
// While it chooses, the demand of a container that cannot be changed now is capped at its current request, and other
// demands at Reach. So no pod is evicted for a demand that cannot be met. No pod is evicted for a container's excess
// over its grant either, because that room is returned later. So the pods that stay may still not fit with all their
// needs.
//
// A frozen pod has its place in the order of evictions, but is removed from the list. The node waits for it, and evicts
// no other pod instead.
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

// choose selects evictions for memory, then for CPU, until all other pods fit. Then it cancels each eviction that is
// not needed, the last one first. If all evictions together are not enough, it evicts no pod. The demands' sums,
// including the reserve, always cover the pods that are not chosen.
//
// In both rounds lower rankings come first, and the second round continues the first. So a pod is chosen only if the
// node would not fit even without all pods of lower rankings. Because less demand always fits better, no chosen pod
// could stay.
func (s *Sharer) choose() {
	s.groups = s.groups.over(s.demands.groups.spikes)
	for _, r := range [...]recommender.Resource{recommender.Memory, recommender.CPU} {
		if !s.chooseFor(r) {
			s.cancelEvictions(func() bool { return true })
			return
		}
	}
	s.cancelEvictions(func() bool { return s.demands.lacking(s.available) == lack{} })
}

// chooseFor chooses evictions until the resource fits. It returns false if it does not fit after all of them.
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

// candidates are the pods that may be evicted, in eviction order: lowest ranking, then largest spike, then name. The
// order is total, because names are unique on a node.
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

// cancelEvictions cancels each eviction, the last one first, without which well still holds.
func (s *Sharer) cancelEvictions(well func() bool) {
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

// count adds a pod to the sums (times 1) or removes it (times −1), and updates the reserve in log n of the groups.
func (s *Sharer) count(d *podDemand, times recommender.Amount) {
	s.demands.count(d, times)
	s.groups.set(int(d.group), s.demands.groups.spikes[d.group])
	s.demands.reserve = s.groups.largest()
}

// tournament finds the largest of some amounts. The amounts are its second half; each place i before them has the
// larger of 2i and 2i+1.
type tournament []recommender.Amount

// over returns a tournament over the amounts; it reuses t.
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
