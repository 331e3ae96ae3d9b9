package node

import (
	"math/bits"
	"slices"

	"attune.io/attune/recommender"
)

// raise is what a pod's containers are raised by together above their CPU bases: whole + rest/spikes, exactly. of is
// the sum of their spikes, by which the raise is divided among them.
type raise struct{ whole, rest, spikes, of uint64 }

// raise of a pod: what its init request pays for, and its part of the reserve, reserve × spike' / Σ spike'.
func (s *sums) raise(d *podDemand) raise {
	spike := d.spike[recommender.CPU]
	if spike == 0 {
		return d.paidRaise()
	}
	high, low := bits.Mul64(uint64(s.reserve), uint64(spike))
	// The reserve is a part of Σ spike', so the quotient is no more than the spike.
	whole, rest := bits.Div64(high, low, uint64(s.spikes))
	return raise{uint64(d.paid) + whole, rest, uint64(s.spikes), uint64(d.ownSpikes)}
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

// granter gives the containers of the pods that stay their grants, once it is known which pods those are.
type granter struct {
	available Amounts
	pods      []Pod
	demands   *demands
	result    *Result
}

func (g *granter) grantAll() {
	for i := range g.pods {
		p, d := &g.pods[i], &g.demands.pods[i]
		if d.evicted {
			g.result.Grants = slices.Grow(g.result.Grants, len(p.Containers))[:d.first+len(p.Containers)]
			clear(g.result.Grants[d.first:])
			continue
		}
		raise := g.demands.raise(d)
		for j := range p.Containers {
			g.result.Grants = append(g.result.Grants, g.grant(p, &p.Containers[j], g.demands.containerSpikes[d.first+j], raise))
		}
	}
	for _, r := range recommender.Resources {
		if g.result.Overcommitted[r] {
			g.ration(r)
		}
	}
	g.giveSpare()
}

func (g *granter) grant(p *Pod, c *Container, spike recommender.Amount, raise raise) (out Grant) {
	const cpu, memory = recommender.CPU, recommender.Memory
	out.Request[cpu] = g.demands.of(p, c, cpu).Base
	if spike > 0 {
		part, rounded := raise.part(spike)
		out.Request[cpu] += part
		out.Rounded[cpu] = rounded
	}
	out.Request[memory] = g.demands.of(p, c, memory).Peak
	out.MemoryLimit = MemoryLimit(c.Max7d, c.OOM, out.Request[memory])
	return out
}

// of are the grants of a pod.
func (g *granter) of(i int) []Grant {
	first := g.demands.pods[i].first
	return g.result.Grants[first : first+len(g.pods[i].Containers)]
}
