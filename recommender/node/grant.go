package node

import (
	"math/bits"
	"slices"

	"attune.io/attune/recommender"
)

// grant gives the containers of the pods that stay their sizes.
func (s *Sharer) grant() {
	for i := range s.pods {
		p, e := &s.pods[i], &s.entries[i]
		if e.gone {
			s.result.Grants = slices.Grow(s.result.Grants, len(p.Containers))[:e.first+len(p.Containers)]
			clear(s.result.Grants[e.first:])
			continue
		}
		whole, rest := s.climbs(e)
		for j := range p.Containers {
			s.result.Grants = append(s.result.Grants, s.grantOf(p, e, j, whole, rest))
		}
	}
	for _, r := range recommender.Resources {
		if s.result.Overcommitted[r] {
			s.ration(r)
		}
	}
	s.lend()
}

func (s *Sharer) grantOf(p *Pod, e *entry, j int, whole, rest uint64) (g Grant) {
	const cpu, memory = recommender.CPU, recommender.Memory
	c := &p.Containers[j]
	g.Request[cpu] = s.demand(p, c, cpu).Base
	if spike := s.spikes[e.first+j]; spike > 0 {
		up, rounded := s.part(e, spike, whole, rest)
		g.Request[cpu] += up
		g.Rounded[cpu] = rounded
	}
	g.Request[memory] = s.demand(p, c, memory).Peak
	g.MemoryLimit = MemoryLimit(c.Max7d, c.OOM, g.Request[memory])
	return g
}

// climbs is how far a pod's containers climb altogether: what its init request pays for, and its part of
// the reserve, reserve × spike' / Σ spike'. It is whole + rest/Σ spike', exactly.
func (s *Sharer) climbs(e *entry) (whole, rest uint64) {
	spike := e.spike[recommender.CPU]
	if spike == 0 {
		return uint64(e.free), 0
	}
	high, low := bits.Mul64(uint64(s.reserve), uint64(spike))
	// The reserve is a part of Σ spike', so the quotient is no more than the spike.
	whole, rest = bits.Div64(high, low, uint64(s.shared))
	return uint64(e.free) + whole, rest
}

// part is one container's of its pod's climb, in proportion to its spike: rounded down, once.
func (s *Sharer) part(e *entry, spike recommender.Amount, whole, rest uint64) (recommender.Amount, bool) {
	var fraction, lost uint64
	if rest > 0 {
		high, low := bits.Mul64(rest, uint64(spike))
		fraction, lost = bits.Div64(high, low, uint64(s.shared))
	}
	high, low := bits.Mul64(whole, uint64(spike))
	low, carry := bits.Add64(low, fraction, 0)
	// ⌊(n + x) / m⌋ is ⌊(n + ⌊x⌋) / m⌋ for whole n and m: nothing is rounded twice.
	up, left := bits.Div64(high+carry, low, uint64(e.climb))
	return recommender.Amount(up), lost|left != 0
}
