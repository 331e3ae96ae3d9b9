package node

import "attune.io/attune/recommender"

// ration divides the room of an overcommitted node: each container keeps what it holds of its grant, and what is left
// goes to the bases first, then to the rest of the grants. What a container holds above its grant and cannot give back
// now is not left.
func (g *granter) ration(r recommender.Resource) {
	room := portion{room: g.available[r]}
	for i := range g.pods {
		if !g.demands.pods[i].evicted {
			room.add(g.claim(i, r))
		}
	}
	for i := range g.pods {
		if g.demands.pods[i].evicted {
			continue
		}
		own, grants := portion{room: room.of(g.claim(i, r))}, g.of(i)
		for j := range grants {
			own.add(g.claimOf(i, j, r))
		}
		for j := range grants {
			x := g.claimOf(i, j, r)
			grants[j].limit(&g.pods[i].Containers[j], r, whole(r, x.low, own.of(x), x.top))
		}
	}
}

// limit a grant to what there is room for.
func (g *Grant) limit(c *Container, r recommender.Resource, most recommender.Amount) {
	if most >= g.Request[r] {
		return
	}
	g.Request[r], g.Rounded[r] = most, true
	if r == recommender.Memory {
		g.MemoryLimit = MemoryLimit(c.Max7d, c.OOM, most)
	}
}

// claim of a pod, as the scheduler counts it.
func (g *granter) claim(i int, r recommender.Resource) claim {
	var all claim
	for j := range g.pods[i].Containers {
		all.add(g.claimOf(i, j, r))
	}
	return all.atLeast(bounded(g.pods[i].InitRequest[r], g.demands.greatest))
}

// claimOf a container, from what it keeps whatever it is granted.
func (g *granter) claimOf(i, j int, r recommender.Resource) claim {
	p := &g.pods[i]
	c, granted := &p.Containers[j], g.of(i)[j].Request[r]
	current := bounded(c.Current[r], g.demands.greatest)
	if p.fixed(c, r) {
		return claim{current, current, current}
	}
	return newClaim(max(min(current, granted), min(current, c.Least[r])), g.demands.of(p, c, r).Base, c.attainable(granted, r))
}

// giveSpare raises the CPU of DaemonSets towards their bases with what is left when every pod has its grant, in
// proportion to what they lack. It is given last, and counts as needed by no pod.
func (g *granter) giveSpare() {
	const cpu = recommender.CPU
	uncounted := g.demands.uncounted
	if uncounted == 0 || g.result.Overcommitted[cpu] {
		return
	}
	room := g.available[cpu] - g.demands.need(cpu)
	for i := range g.pods {
		room -= g.above(i, cpu)
	}
	if room <= 0 {
		return
	}
	for i := range g.pods {
		grants := g.of(i)
		for j := range grants {
			spare := g.demands.notCounted(&g.pods[i], &g.pods[i].Containers[j])
			if spare > 0 && room < uncounted {
				spare = proportion(spare, room, uncounted)
			}
			grants[j].Request[cpu], grants[j].Spare = grants[j].Request[cpu]+spare, spare
		}
	}
}

// above is what a pod keeps above its grants, as the scheduler counts it.
func (g *granter) above(i int, r recommender.Resource) recommender.Amount {
	if g.demands.pods[i].evicted {
		return 0
	}
	var keeps, granted recommender.Amount
	for j, grant := range g.of(i) {
		keeps, granted = keeps+max(g.claimOf(i, j, r).low, grant.Request[r]), granted+grant.Request[r]
	}
	init := bounded(g.pods[i].InitRequest[r], g.demands.greatest)
	return max(keeps, init) - max(granted, init)
}
