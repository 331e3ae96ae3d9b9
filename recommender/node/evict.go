package node

import (
	"cmp"
	"slices"

	"attune.io/attune/recommender"
)

// evictor is the memory that evicting needs.
type evictor struct {
	order  []int32
	groups tournament
}

// makeFit chooses who has to go. It is decided with no more than they hold for those that cannot be changed now,
// which moves nobody for what they hold above their shares either: that room comes back. So it may be that the
// pods that stay still do not fit with all that they need.
//
// A frozen pod is never among those that go, as it is not to be touched; but it has its place in their order.
// Nobody goes instead of it: it is waited for. Who may never go has the ranking Never.
func (s *Sharer) makeFit() {
	if s.capped = s.fixed; !s.capped {
		s.evict()
		return
	}
	s.enterAll()
	if s.lacking() != (lack{}) {
		s.evict()
	}
	s.result.Evictions = slices.DeleteFunc(s.result.Evictions, func(v Eviction) bool { return s.pods[v.Pod].Frozen })
	s.capped = false
	s.enterAll()
	for _, v := range s.result.Evictions {
		e := &s.entries[v.Pod]
		e.gone = true
		s.count(e, -1)
	}
	s.reserve = largest(s.groups)
}

// evict chooses who has to go: for memory, then for CPU, until everybody else fits; then it takes back, the
// last one first, whoever still fits. Where that is not enough nobody goes, and it returns false.
//
// Lower rankings go first in either round, and the second begins where the first has stopped. So somebody
// goes only if even without everybody of a lower ranking the node would not fit; and as less demand always
// fits better, none of those who go could stay.
func (s *Sharer) evict() bool {
	s.evictor.groups = s.evictor.groups.over(s.groups)
	for _, r := range [...]recommender.Resource{recommender.Memory, recommender.CPU} {
		if !s.evictFor(r) {
			s.takeBack(func() bool { return true })
			return false
		}
	}
	s.takeBack(func() bool { return s.lacking() == lack{} })
	return true
}

// evictFor evicts until the resource fits; false if it does not even then.
func (s *Sharer) evictFor(r recommender.Resource) bool {
	if s.fits(r) {
		return true
	}
	for _, i := range s.candidates(r) {
		p, e := &s.pods[i], &s.entries[i]
		s.result.Evictions = append(s.result.Evictions, Eviction{
			Pod: int(i), Name: p.Name, Ranking: p.Ranking, Resource: r,
			Needed: s.need(r), Available: s.available[r], Spike: e.spike[r],
		})
		e.gone = true
		s.recount(e, -1)
		if s.fits(r) {
			return true
		}
	}
	return false
}

// candidates are the pods that may go, in the order in which they do: the lowest ranking first, of those
// the largest spike, of those by name.
func (s *Sharer) candidates(r recommender.Resource) []int32 {
	order := s.evictor.order[:0]
	for i := range s.pods {
		if !s.pods[i].protected() && !s.entries[i].gone {
			order = append(order, int32(i))
		}
	}
	slices.SortFunc(order, func(a, b int32) int { return s.before(r, a, b) })
	s.evictor.order = order
	return order
}

func (s *Sharer) before(r recommender.Resource, a, b int32) int {
	if byRanking := cmp.Compare(s.pods[a].Ranking, s.pods[b].Ranking); byRanking != 0 {
		return byRanking
	}
	if bySpike := cmp.Compare(s.entries[b].spike[r], s.entries[a].spike[r]); bySpike != 0 {
		return bySpike
	}
	return cmp.Compare(s.pods[a].Name, s.pods[b].Name)
}

// takeBack takes back, the last one first, every pod with which the rest is still well.
func (s *Sharer) takeBack(well func() bool) {
	chosen := s.result.Evictions
	for n := len(chosen) - 1; n >= 0; n-- {
		e := &s.entries[chosen[n].Pod]
		s.recount(e, 1)
		if e.gone = !well(); e.gone {
			s.recount(e, -1)
		}
	}
	s.result.Evictions = slices.DeleteFunc(chosen, func(v Eviction) bool { return !s.entries[v.Pod].gone })
}

// recount counts a pod in or out and brings the reserve up to date.
func (s *Sharer) recount(e *entry, times recommender.Amount) {
	s.count(e, times)
	s.evictor.groups.set(int(e.group), s.groups[e.group])
	s.reserve = s.evictor.groups.largest()
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
