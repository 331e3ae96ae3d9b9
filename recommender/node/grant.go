package node

import (
	"fmt"
	"math/bits"
	"slices"

	"attune.io/attune/recommender"
)

// raise is what a pod's containers are raised by together above their CPU bases: whole + rest/spikes, exactly. of is
// the sum of their spikes, by which the raise is divided among them.
type raise struct{ whole, rest, spikes, of uint64 }

// raise of a pod: what its init request pays for, and its part of the reserve, reserve × spike' / Σ spike'.
func (d *demands) raise(p *podDemand) raise {
	spike := p.spike[recommender.CPU]
	if spike == 0 {
		return p.paidRaise()
	}
	high, low := bits.Mul64(uint64(d.reserve), uint64(spike))
	// The reserve is a part of Σ spike', so the quotient is no more than the spike.
	whole, rest := bits.Div64(high, low, uint64(d.spikes))
	return raise{uint64(p.paid) + whole, rest, uint64(d.spikes), uint64(p.ownSpikes)}
}

// paidRaise is the raise that the init request pays for alone.
func (d *podDemand) paidRaise() raise { return raise{whole: uint64(d.paid), of: uint64(d.ownSpikes)} }

// part of the raise for one container, in proportion to its spike. It is rounded down once, and says whether it was.
func (x raise) part(spike recommender.Amount) (part recommender.Amount, rounded bool) {
	var fraction, lost uint64
	if x.rest > 0 {
		high, low := bits.Mul64(x.rest, uint64(spike))
		fraction, lost = bits.Div64(high, low, x.spikes)
	}
	high, low := bits.Mul64(x.whole, uint64(spike))
	low, carry := bits.Add64(low, fraction, 0)
	// ⌊(n + x) / m⌋ is ⌊(n + ⌊x⌋) / m⌋ for whole n and m: nothing is rounded twice.
	up, left := bits.Div64(high+carry, low, x.of)
	return recommender.Amount(up), lost|left != 0
}

// grantAll gives the containers of the pods that stay their grants, once it is known which pods those are.
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
	s.giveSpare()
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

// grantsOf returns the grants of a pod.
func (s *Sharer) grantsOf(i int) []Grant {
	first := s.demands.pods[i].first
	return s.result.Grants[first : first+len(s.pods[i].Containers)]
}

// ration divides the room of an overcommitted node: each container keeps what it holds of its grant, and what is left
// goes to the bases first, then to the rest of the grants. What a container holds above its grant and cannot give back
// now is not left.
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

// limit a grant to what there is room for.
func (g *Grant) limit(c *Container, r recommender.Resource, most recommender.Amount) {
	if most >= g.Request[r] {
		return
	}
	g.Request[r], g.Rounded[r] = most, true
	if r == recommender.Memory {
		g.MemoryLimit = c.MemoryLimit(most)
	}
}

// claimOf a container, from what it keeps whatever it is granted.
func (s *Sharer) claimOf(i, j int, r recommender.Resource) claim {
	p := &s.pods[i]
	c, granted := &p.Containers[j], s.grantsOf(i)[j].Request[r]
	current := bounded(c.Current[r], s.demands.greatest)
	if p.fixed(c, r) {
		return claim{current, current, current}
	}
	return newClaim(max(min(current, granted), min(current, c.Least[r])), s.demands.of(p, c, r).Base, c.attainable(granted, r))
}

// giveSpare raises the CPU of DaemonSets towards their bases with what is left when every pod has its grant, in
// proportion to what they lack. It is given last, and counts as needed by no pod.
func (s *Sharer) giveSpare() {
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

// above is what a pod keeps above its grants, as the scheduler counts it.
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

// MemoryLimit is 2 × the greater of the most memory in 7 days and what OOM kills taught
// (recommender.OOMFloor, decayed), in whole MiB, never below the request. It is zero, which sets none, where neither is
// known: a limit that was guessed too low would kill containers. It is at most LimitMost, as usage may follow its limit:
// twice the peak would then be twice the last limit, each time.
func (c *Container) MemoryLimit(request recommender.Amount) recommender.Amount {
	most := bounded(max(c.Max7d, c.OOM), recommender.MaxAmount)
	if most == 0 {
		return 0
	}
	return max(recommender.Brake(recommender.Memory.Whole(2*most), c.LimitMost), request)
}

// WhyMemoryLimit says how MemoryLimit was computed.
func (c *Container) WhyMemoryLimit() string {
	why := fmt.Sprintf("2 × the greater of the most in 7 days, %s, and what OOM kills taught, %s; at least the request", text(recommender.Memory, c.Max7d), text(recommender.Memory, c.OOM))
	if c.LimitMost > 0 {
		why += fmt.Sprintf(", and without another OOM kill at most %s", text(recommender.Memory, c.LimitMost))
	}
	return why
}
