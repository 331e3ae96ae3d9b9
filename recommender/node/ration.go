package node

import "attune.io/attune/recommender"

// ration shares an overcommitted node's room: each container keeps what it holds of its share, and what is left
// goes to the bases first, then to the shares. Where somebody holds more than his share and cannot be lowered,
// that is not left.
func (s *Sharer) ration(r recommender.Resource) {
	room := portion{room: s.available[r]}
	for i := range s.pods {
		if !s.entries[i].gone {
			room.add(s.rise(i, r))
		}
	}
	for i := range s.pods {
		if s.entries[i].gone {
			continue
		}
		p, own := &s.pods[i], portion{room: room.of(s.rise(i, r))}
		for j := range p.Containers {
			own.add(s.riseOf(i, j, r))
		}
		for j := range p.Containers {
			x := s.riseOf(i, j, r)
			s.limit(&s.result.Grants[s.entries[i].first+j], &p.Containers[j], r, whole(r, x.low, own.of(x), x.top))
		}
	}
}

// limit a grant to what there is room for.
func (s *Sharer) limit(g *Grant, c *Container, r recommender.Resource, most recommender.Amount) {
	if most >= g.Request[r] {
		return
	}
	g.Request[r], g.Rounded[r] = most, true
	if r == recommender.Memory {
		g.MemoryLimit = MemoryLimit(c.Max7d, c.OOM, most)
	}
}

// rise of a pod, as the scheduler counts it.
func (s *Sharer) rise(i int, r recommender.Resource) rise {
	var all rise
	for j := range s.pods[i].Containers {
		all.add(s.riseOf(i, j, r))
	}
	return all.atLeast(bounded(s.pods[i].InitRequest[r], s.greatest))
}

// riseOf a container, from what it keeps whatever it is granted.
func (s *Sharer) riseOf(i, j int, r recommender.Resource) rise {
	p := &s.pods[i]
	c, g := &p.Containers[j], &s.result.Grants[s.entries[i].first+j]
	current := bounded(c.Current[r], s.greatest)
	if p.fixed(c, r) {
		return rise{current, current, current}
	}
	return newRise(max(min(current, g.Request[r]), min(current, c.Least[r])), s.demand(p, c, r).Base, c.within(g.Request[r], r))
}

// lend raises the CPU of DaemonSets towards their bases with what is left when everybody has his share, in
// proportion to what they lack. It is not counted in before anybody else is.
func (s *Sharer) lend() {
	const cpu = recommender.CPU
	if s.lent == 0 || s.result.Overcommitted[cpu] {
		return
	}
	room := s.available[cpu] - s.need(cpu)
	for i := range s.pods {
		room -= s.above(i, cpu)
	}
	if room <= 0 {
		return
	}
	for i := range s.pods {
		for j := range s.pods[i].Containers {
			lacks := s.lacks(&s.pods[i], &s.pods[i].Containers[j])
			if lacks > 0 && room < s.lent {
				lacks = proportion(lacks, room, s.lent)
			}
			g := &s.result.Grants[s.entries[i].first+j]
			g.Request[cpu], g.Spare = g.Request[cpu]+lacks, lacks
		}
	}
}

// above is what a pod keeps above its share, as the scheduler counts it.
func (s *Sharer) above(i int, r recommender.Resource) recommender.Amount {
	if s.entries[i].gone {
		return 0
	}
	var keeps, granted recommender.Amount
	for j := range s.pods[i].Containers {
		low, share := s.riseOf(i, j, r).low, s.result.Grants[s.entries[i].first+j].Request[r]
		keeps, granted = keeps+max(low, share), granted+share
	}
	init := bounded(s.pods[i].InitRequest[r], s.greatest)
	return max(keeps, init) - max(granted, init)
}
