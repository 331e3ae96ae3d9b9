package node

import "attune.io/attune/recommender"

// leastMissing is the least amount that a pod is resized for: what is left of a MiB would be passed on for ever.
var leastMissing = [2]recommender.Amount{recommender.CPU: 1, recommender.Memory: 1 << 20}

// filling leaves with the pods what of a resource they hold less than they need together, or than there is.
type filling struct {
	*nodePlan
	r recommender.Resource
}

// fill first from pods that are changed anyway, then by lowering less, then by raises that were not worth it: those of
// pods that rest come last.
func (f filling) fill() {
	if f.missing() <= 0 {
		return
	}
	for _, p := range f.mostFirst(f.lacks) {
		if p.changes() {
			f.complete(p.podPlan)
		}
	}
	for _, p := range f.mostFirst(f.lowering) {
		f.giveBack(p.podPlan)
	}
	for _, resting := range [...]bool{false, true} {
		for _, p := range f.mostFirst(f.lacks) {
			if p.resting == resting {
				f.complete(p.podPlan)
			}
		}
	}
}

// missing is what the pods hold less than they need, or than there is.
func (f filling) missing() recommender.Amount {
	missing := min(f.needed[f.r], f.available[f.r]) - f.total[f.r]
	if missing < leastMissing[f.r] {
		return 0
	}
	return missing
}

// missingOf is how much a pod has to be raised so that nothing is missing: raises within its init request count for
// nothing.
func (f filling) missingOf(p *podPlan) recommender.Amount {
	missing := f.missing()
	if missing <= 0 {
		return 0
	}
	for _, g := range p.next {
		missing -= g.Request[f.r]
	}
	return missing + p.counted(f.r)
}

// most that a container may hold: its share, rounded up.
func (g *Grant) most(r recommender.Resource) recommender.Amount {
	if g.Rounded[r] {
		return r.Whole(g.share(r) + 1)
	}
	return g.share(r)
}

// lacks is what a pod holds less than it may.
func (f filling) lacks(p *podPlan) (sum recommender.Amount) {
	p.each(func(j int, c *Container, r recommender.Resource) {
		if r == f.r {
			sum += max(0, c.attainable(p.grants[j].most(r), r)-p.next[j].Request[r])
		}
	})
	return sum
}

// complete raises a pod until nothing is missing, as far as it may be raised. A pod that would not be written to
// otherwise is raised to its share at once, where there is room, so that it is not written to again for the rest.
func (f filling) complete(p *podPlan) {
	if f.missing() <= 0 {
		return
	}
	changes := p.changes()
	p.each(func(j int, c *Container, r recommender.Resource) {
		if r != f.r {
			return
		}
		at, most := p.next[j].Request[r], c.attainable(p.grants[j].most(r), r)
		more := min(f.missingOf(p), most-at)
		if !changes {
			more = max(more, min(f.room(r), c.attainable(p.grants[j].share(r), r)-at))
		}
		f.raiseBy(p, j, more, most)
	})
}

// lowering is how much a pod's containers are lowered.
func (f filling) lowering(p *podPlan) (sum recommender.Amount) {
	for j := range p.next {
		sum += max(0, p.Containers[j].Current[f.r]-p.next[j].Request[f.r])
	}
	return sum
}

// giveBack lets a pod keep what is missing, and all that it holds where the rest is worth no resize.
func (f filling) giveBack(p *podPlan) {
	if f.missing() <= 0 {
		return
	}
	for j := range p.next {
		current := p.Containers[j].Current[f.r]
		f.raiseBy(p, j, min(f.missingOf(p), current-p.next[j].Request[f.r]), current)
	}
	keeping{f.nodePlan}.ifSmall(p)
}

// raiseBy raises a container's amount by more, no higher than the top: rounded up where there is room, so that nothing
// is missing then, and down where there is none.
func (f filling) raiseBy(p *podPlan, j int, more, top recommender.Amount) {
	if more <= 0 {
		return
	}
	at := p.next[j].Request[f.r]
	to := min(top, f.r.Whole(at+more))
	if to-at > f.room(f.r) {
		to = whole(f.r, at, at+more, top)
	}
	f.change(p, func() { p.next[j].Request[f.r] = to })
}
