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
	// lent is what DaemonSets take part with less than their CPU bases.
	lent recommender.Amount
	// fixed: there is a container that cannot have all that it asks for now. capped: those take part with no more than
	// they can have.
	fixed, capped bool
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
	s.enterAll()
	if s.lacking() != (lack{}) {
		s.makeFit()
	}
	s.result.Overcommitted = s.lacking()
	s.result.Needed = Amounts{s.need(recommender.CPU), s.need(recommender.Memory)}
	s.grant()
	return s.result
}

// lack says which resources do not fit.
type lack = [2]bool

// mostSum is the greatest sum of amounts: sums of sums stay within 63 bits.
const mostSum recommender.Amount = 1 << 61

func (s *Sharer) begin(available Amounts, pods []Pod) {
	count := len(pods)
	for i := range pods {
		count += len(pods[i].Containers)
	}
	s.greatest = min(recommender.MaxAmount, mostSum/recommender.Amount(max(1, count)))
	s.available = Amounts{bounded(available[0], mostSum), bounded(available[1], mostSum)}
	s.pods = pods
	s.fixed, s.capped = false, false
	s.result = Result{Grants: s.result.Grants[:0], Evictions: s.result.Evictions[:0]}
}

func bounded(a, most recommender.Amount) recommender.Amount { return min(max(a, 0), most) }

// enterAll counts everybody in, whoever may not be changed as well: with what is known of his demand.
func (s *Sharer) enterAll() {
	s.entries = s.entries[:0]
	s.spikes = s.spikes[:0]
	s.groups = s.groups[:0]
	if s.named == nil {
		s.named = map[string]int32{}
	}
	clear(s.named)
	s.needed, s.shared, s.lent = Amounts{}, 0, 0
	for i := range s.pods {
		s.enter(&s.pods[i])
	}
	s.reserve = largest(s.groups)
}

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
				s.lent += s.lacks(p, &p.Containers[i])
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

// demand is a container's as it takes part. Where it is decided who goes, it counts with no more than it can have
// now: nobody goes for what somebody could not be given.
func (s *Sharer) demand(p *Pod, c *Container, r recommender.Resource) Demand {
	d := p.demand(c, r, s.greatest)
	var most recommender.Amount
	switch {
	case p.fixed(c, r):
		most = bounded(c.Current[r], s.greatest)
	case c.Reach[r] > 0:
		most = c.within(d.Peak, r)
	default:
		return d
	}
	s.fixed = true
	if s.capped {
		return Demand{min(d.Base, most), min(d.Peak, most)}
	}
	return d
}

// within is as much of an amount as the container can have now. What it holds it has.
func (c *Container) within(a recommender.Amount, r recommender.Resource) recommender.Amount {
	if c.Reach[r] <= 0 {
		return a
	}
	return min(a, max(c.Reach[r], c.Current[r]))
}

// Asks is the demand with which a container takes part, whether it can be given it now or not.
func (p *Pod) Asks(c *Container, r recommender.Resource) Demand {
	return p.demand(c, r, recommender.MaxAmount)
}

// demand is a container's, whether it may be changed or not. A DaemonSet's takes part with no more than it was
// born with, as nobody may have to go for a pod that cannot be refused: its CPU with no more than its base,
// and memory, which cannot be shared, with its peak.
func (p *Pod) demand(c *Container, r recommender.Resource, greatest recommender.Amount) Demand {
	base := bounded(c.Of[r].Base, greatest)
	peak := max(base, bounded(c.Of[r].Peak, greatest))
	born := bounded(c.Born[r], greatest)
	if !p.DaemonSet || born == 0 {
		return Demand{base, peak}
	}
	base, peak = min(base, born), min(peak, born)
	if r == recommender.CPU {
		peak = base
	}
	return Demand{base, peak}
}

// fixed: what the container holds of the resource is not changed now.
func (p *Pod) fixed(c *Container, r recommender.Resource) bool { return p.Frozen || c.Restarts[r] }

// lacks is what a DaemonSet's container takes part with less than its CPU base.
func (s *Sharer) lacks(p *Pod, c *Container) recommender.Amount {
	if !p.DaemonSet {
		return 0
	}
	return bounded(c.Of[recommender.CPU].Base, s.greatest) - p.demand(c, recommender.CPU, s.greatest).Base
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
