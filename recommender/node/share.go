package node

import (
	"slices"

	"attune.io/attune/recommender"
)

// Share gives every container of a node its grant. available is what the node has left for these pods:
// its allocatable resources less what the scheduler counts for all others. See Sharer for those who share
// often.
func Share(available Amounts, pods []Pod) Result { return new(Sharer).Share(available, pods) }

// Sharer shares one node after the other and reuses its memory. The zero value is ready. One goroutine
// may use it.
type Sharer struct {
	available Amounts
	pods      []Pod
	entries   []entry
	// spikes are those of each container's CPU, groups those of the pods of each group that stay.
	spikes, groups []recommender.Amount
	// named numbers the groups that have a name.
	named map[string]int32
	// needed is what the pods that stay need: Σ base' of CPU, without the reserve, and Σ peak of memory.
	needed Amounts
	// reserve is the largest group's spike, shared the sum of all pods' spikes.
	reserve, shared recommender.Amount
	// greatest amount of which that many can be added up.
	greatest recommender.Amount

	evictor evictor
	result  Result
}

// entry is a pod as it takes part.
type entry struct {
	// first is the index of its first container among all.
	first int
	group int32
	gone  bool
	// base is base' and spike is spike', what it adds to the reserve of its group.
	base, spike Amounts
	// climb is what its containers' CPU has to climb from base to peak altogether; free is how much of
	// that its init request pays for.
	climb, free recommender.Amount
}

// Share gives every container its grant. The answer depends on nothing but the arguments, and not on the
// order of the pods. An amount below zero counts as zero, an absurd one as the greatest that adds up
// exactly. The cost is linear; where somebody has to be evicted it is n log n in the pods.
func (s *Sharer) Share(available Amounts, pods []Pod) Result {
	s.begin(available, pods)
	for i := range pods {
		s.enter(&pods[i])
	}
	s.reserve = largest(s.groups)
	over := s.lacking()
	if over != (lack{}) && s.evict() {
		over = lack{}
	}
	s.result.Overcommitted = over
	s.result.Needed = Amounts{s.need(recommender.CPU), s.need(recommender.Memory)}
	s.grant()
	return s.result
}

// lack says which resources do not fit.
type lack = [2]bool

func (s *Sharer) begin(available Amounts, pods []Pod) {
	count := len(pods)
	for i := range pods {
		count += len(pods[i].Containers)
	}
	// Sums of sums stay within 63 bits.
	const most = 1 << 61
	s.greatest = min(recommender.MaxAmount, most/recommender.Amount(max(1, count)))
	s.available = Amounts{bounded(available[0], most), bounded(available[1], most)}
	s.pods = pods
	s.entries = s.entries[:0]
	s.spikes = s.spikes[:0]
	s.groups = s.groups[:0]
	if s.named == nil {
		s.named = map[string]int32{}
	}
	clear(s.named)
	s.needed, s.reserve, s.shared = Amounts{}, 0, 0
	s.result = Result{Grants: s.result.Grants[:0], Evictions: s.result.Evictions[:0]}
}

func bounded(a, most recommender.Amount) recommender.Amount { return min(max(a, 0), most) }

// enter counts a pod in.
func (s *Sharer) enter(p *Pod) {
	e := entry{first: len(s.spikes), group: s.groupOf(p)}
	var base, spike Amounts
	for i := range p.Containers {
		for _, r := range recommender.Resources {
			d := s.demand(p, &p.Containers[i], r)
			base[r] += d.Base
			spike[r] += d.Peak - d.Base
			if r == recommender.CPU {
				s.spikes = append(s.spikes, d.Peak-d.Base)
			}
		}
	}
	for _, r := range recommender.Resources {
		e.base[r] = max(base[r], bounded(p.InitRequest[r], s.greatest))
		e.spike[r] = max(0, base[r]+spike[r]-e.base[r])
	}
	e.climb = spike[recommender.CPU]
	e.free = e.climb - e.spike[recommender.CPU]
	s.count(&e, 1)
	s.entries = append(s.entries, e)
}

// groupOf numbers the pod's group.
func (s *Sharer) groupOf(p *Pod) int32 {
	number := int32(len(s.groups))
	if p.Group != "" {
		if known, ok := s.named[p.Group]; ok {
			return known
		}
		s.named[p.Group] = number
	}
	s.groups = append(s.groups, 0)
	return number
}

// demand is a container's as it takes part. A DaemonSet's is never raised above what it holds, as nobody
// may have to go for a pod that cannot be refused: its CPU asks for no more than its base, and memory,
// which cannot be shared, for its peak.
func (s *Sharer) demand(p *Pod, c *Container, r recommender.Resource) Demand {
	base := bounded(c.Of[r].Base, s.greatest)
	peak := max(base, bounded(c.Of[r].Peak, s.greatest))
	current := bounded(c.Current[r], s.greatest)
	if !p.DaemonSet || current == 0 {
		return Demand{base, peak}
	}
	base, peak = min(base, current), min(peak, current)
	if r == recommender.CPU {
		peak = base
	}
	return Demand{base, peak}
}

// count adds (1) or takes away (−1) a pod's demand. The reserve is not brought up to date.
func (s *Sharer) count(e *entry, times recommender.Amount) {
	const cpu, memory = recommender.CPU, recommender.Memory
	s.needed[cpu] += times * e.base[cpu]
	s.needed[memory] += times * (e.base[memory] + e.spike[memory])
	s.shared += times * e.spike[cpu]
	s.groups[e.group] += times * e.spike[cpu]
}

// largest of some amounts, or 0.
func largest(amounts []recommender.Amount) recommender.Amount {
	if len(amounts) == 0 {
		return 0
	}
	return slices.Max(amounts)
}

// need is what the pods that stay need of a resource.
func (s *Sharer) need(r recommender.Resource) recommender.Amount {
	if r == recommender.CPU {
		return s.needed[r] + s.reserve
	}
	return s.needed[r]
}

// fits: equality does.
func (s *Sharer) fits(r recommender.Resource) bool { return s.need(r) <= s.available[r] }

func (s *Sharer) lacking() lack {
	return lack{!s.fits(recommender.CPU), !s.fits(recommender.Memory)}
}
