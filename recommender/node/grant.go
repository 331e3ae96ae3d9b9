package node

import (
	"fmt"
	"math/bits"
	"slices"

	"attune.io/attune/recommender"
)

// raise is the total by which a pod's containers are raised above their CPU bases: exactly whole + rest/spikes. The
// field of is the sum of their spikes; the raise is divided in proportion to them.
type raise struct{ whole, rest, spikes, of uint64 }

// raise of a pod: the part that its init request covers, plus its part of the reserve, reserve × spike' / Σ spike'.
func (d *demands) raise(p *podDemand) raise {
	spike := p.spike[recommender.CPU]
	if spike == 0 {
		return p.paidRaise()
	}
	high, low := bits.Mul64(uint64(d.reserve), uint64(spike))
	// reserve ≤ Σ spike', so the quotient is at most the spike.
	whole, rest := bits.Div64(high, low, uint64(d.spikes))
	return raise{uint64(p.paid) + whole, rest, uint64(d.spikes), uint64(p.ownSpikes)}
}

// paidRaise is the part of the raise that the init request covers.
func (d *podDemand) paidRaise() raise { return raise{whole: uint64(d.paid), of: uint64(d.ownSpikes)} }

// part of the raise for one container, in proportion to its spike. It is rounded down once; rounded reports whether it
// was.
func (x raise) part(spike recommender.Amount) (part recommender.Amount, rounded bool) {
	var fraction, lost uint64
	if x.rest > 0 {
		high, low := bits.Mul64(x.rest, uint64(spike))
		fraction, lost = bits.Div64(high, low, x.spikes)
	}
	high, low := bits.Mul64(x.whole, uint64(spike))
	low, carry := bits.Add64(low, fraction, 0)
	// ⌊(n + x) / m⌋ = ⌊(n + ⌊x⌋) / m⌋ for whole n and m, so nothing is rounded twice.
	up, left := bits.Div64(high+carry, low, x.of)
	return recommender.Amount(up), lost|left != 0
}

// grantAll computes the grants of the pods that stay, after the evictions were chosen.
func (s *Sharer) grantAll() {
	for i := range s.pods {
		p, d := &s.pods[i], &s.demands.pods[i]
		if d.evicted {
			s.result.Grants = slices.Grow(s.result.Grants, len(p.Containers))[:d.first+len(p.Containers)]
			clear(s.result.Grants[d.first:])
			continue
		}
		raise := s.demands.raise(d)
		for j := range p.Containers {
			s.result.Grants = append(s.result.Grants, s.grant(p, &p.Containers[j], s.demands.containerSpikes[d.first+j], raise))
		}
	}
	for _, r := range recommender.Resources {
		if s.result.Overcommitted[r] {
			s.ration(r)
		}
	}
	s.raiseDaemonSets()
}

func (s *Sharer) grant(p *Pod, c *Container, spike recommender.Amount, raise raise) (out Grant) {
	const cpu, memory = recommender.CPU, recommender.Memory
	out.Request[cpu] = s.demands.of(p, c, cpu).Base
	if spike > 0 {
		part, rounded := raise.part(spike)
		out.Request[cpu] += part
		out.Rounded[cpu] = rounded
	}
	out.Request[memory] = s.demands.of(p, c, memory).Peak
	out.MemoryLimit = c.MemoryLimit(out.Request[memory])
	return out
}

func (s *Sharer) grantsOf(i int) []Grant {
	first := s.demands.pods[i].first
	return s.result.Grants[first : first+len(s.pods[i].Containers)]
}

// ration divides the room of an overcommitted node. Each container keeps the part of its grant that it already holds.
// The free room goes to the bases first, then to the rest of the grants. Amounts above a grant that cannot be lowered
// now are not free.
func (s *Sharer) ration(r recommender.Resource) {
	claims := make([][]claim, len(s.pods))
	for i := range s.pods {
		if s.demands.pods[i].evicted {
			continue
		}
		for j := range s.pods[i].Containers {
			claims[i] = append(claims[i], s.claimOf(i, j, r))
		}
	}
	init := func(i int) recommender.Amount {
		if s.demands.pods[i].evicted {
			return 0
		}
		return bounded(s.pods[i].InitRequest[r], s.demands.greatest)
	}
	ration(r, s.available[r], claims, init, func(i, j int, to recommender.Amount) { s.grantsOf(i)[j].limit(&s.pods[i].Containers[j], r, to) })
}

// limit lowers a grant to the given amount.
func (g *Grant) limit(c *Container, r recommender.Resource, most recommender.Amount) {
	if most >= g.Request[r] {
		return
	}
	g.Request[r], g.Rounded[r] = most, true
	if r == recommender.Memory {
		g.MemoryLimit = c.MemoryLimit(most)
	}
}

// claimOf a container. Its low is the amount that the container keeps with any grant.
func (s *Sharer) claimOf(i, j int, r recommender.Resource) claim {
	p := &s.pods[i]
	c, granted := &p.Containers[j], s.grantsOf(i)[j].Request[r]
	current := bounded(c.Current[r], s.demands.greatest)
	if p.fixed(c, r) {
		return claim{current, current, current}
	}
	return newClaim(max(min(current, granted), min(current, c.Least[r])), s.demands.of(p, c, r).Base, c.attainable(granted, r))
}

// raiseDaemonSets raises the CPU of DaemonSets towards their bases, in proportion to what they lack, when every pod has its
// grant. It is given last, and does not count as needed.
func (s *Sharer) raiseDaemonSets() {
	const cpu = recommender.CPU
	uncounted := s.demands.uncounted
	if uncounted == 0 || s.result.Overcommitted[cpu] {
		return
	}
	room := s.available[cpu] - s.demands.need(cpu)
	for i := range s.pods {
		room -= s.above(i, cpu)
	}
	if room <= 0 {
		return
	}
	for i := range s.pods {
		grants := s.grantsOf(i)
		for j := range grants {
			spare := s.demands.notCounted(&s.pods[i], &s.pods[i].Containers[j])
			if spare > 0 && room < uncounted {
				spare = proportion(spare, room, uncounted)
			}
			grants[j].Request[cpu], grants[j].Spare = grants[j].Request[cpu]+spare, spare
		}
	}
}

// above is the excess of a pod over its grants, as the scheduler counts it.
func (s *Sharer) above(i int, r recommender.Resource) recommender.Amount {
	if s.demands.pods[i].evicted {
		return 0
	}
	var keeps, granted recommender.Amount
	for j, grant := range s.grantsOf(i) {
		keeps, granted = keeps+max(s.claimOf(i, j, r).low, grant.Request[r]), granted+grant.Request[r]
	}
	init := bounded(s.pods[i].InitRequest[r], s.demands.greatest)
	return max(keeps, init) - max(granted, init)
}

// MemoryLimit is 2 × max(Max7d, OOM), in whole MiB, at least the request. OOM is the decayed minimum learned from OOM
// kills (recommender.OOMFloor). It returns zero, no limit, if neither is known: a limit guessed too low would kill
// containers. LimitMost bounds it, because usage may follow its limit. Without the bound, each limit could be twice the
// last one.
func (c *Container) MemoryLimit(request recommender.Amount) recommender.Amount {
	most := bounded(max(c.Max7d, c.OOM), recommender.MaxAmount)
	if most == 0 {
		return 0
	}
	return max(recommender.Brake(recommender.Memory.Whole(2*most), c.LimitMost), request)
}

// WhyMemoryLimit explains how MemoryLimit was computed.
func (c *Container) WhyMemoryLimit() string {
	why := fmt.Sprintf("2 × the greater of the peak of 7 days, %s, and the minimum learned from OOM kills, %s; at least the request", text(recommender.Memory, c.Max7d), text(recommender.Memory, c.OOM))
	if c.LimitMost > 0 {
		why += fmt.Sprintf("; at most %s without another OOM kill", text(recommender.Memory, c.LimitMost))
	}
	return why
}
