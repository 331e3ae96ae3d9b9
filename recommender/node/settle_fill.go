package node

import "attune.io/attune/recommender"

// crumb is the least amount that a pod is resized for: what is left of a MiB would be handed on for ever.
var crumb = [2]recommender.Amount{recommender.CPU: 1, recommender.Memory: 1 << 20}

// missing is what the pods hold less than they need, or than there is.
func (s *settlement) missing(r recommender.Resource) recommender.Amount {
	missing := min(s.needed[r], s.available[r]) - s.total[r]
	if missing < crumb[r] {
		return 0
	}
	return missing
}

// short is how much a pod has to be raised so that nothing is missing: inside its init request that changes nothing.
func (s *settlement) short(i int, r recommender.Resource) recommender.Amount {
	missing := s.missing(r)
	if missing <= 0 {
		return 0
	}
	for _, g := range s.of(i, s.next) {
		missing -= g.Request[r]
	}
	return missing + s.counted(i, r)
}

// fill leaves with the pods what is missing.
func (s *settlement) fill(r recommender.Resource) {
	if s.missing(r) <= 0 {
		return
	}
	lacks := func(i int) recommender.Amount { return s.lacks(i, r) }
	for _, i := range s.by(lacks) {
		if s.changes(i) {
			s.complete(i, r)
		}
	}
	for _, i := range s.by(func(i int) recommender.Amount { return s.lowering(i, r) }) {
		s.giveBack(i, r)
	}
	for _, rests := range [...]bool{false, true} {
		for _, i := range s.by(lacks) {
			if s.rests[i] == rests {
				s.complete(i, r)
			}
		}
	}
}

// most that a container may hold: its share, rounded up.
func (g *Grant) most(r recommender.Resource) recommender.Amount {
	if g.Rounded[r] {
		return r.Whole(g.share(r) + 1)
	}
	return g.share(r)
}

// lacks is what a pod holds less than it may.
func (s *settlement) lacks(i int, r recommender.Resource) (sum recommender.Amount) {
	next, grants := s.of(i, s.next), s.of(i, s.grants)
	s.each(i, func(j int, c *Container, of recommender.Resource) {
		if of == r {
			sum += max(0, c.within(grants[j].most(r), r)-next[j].Request[r])
		}
	})
	return sum
}

// complete raises a pod until nothing is missing, as far as it may be. A pod that would not be written to otherwise
// is raised to its share at once, where there is room, so that it is not written to again for the rest.
func (s *settlement) complete(i int, r recommender.Resource) {
	if s.missing(r) <= 0 {
		return
	}
	next, grants, changes := s.of(i, s.next), s.of(i, s.grants), s.changes(i)
	s.each(i, func(j int, c *Container, of recommender.Resource) {
		if of != r {
			return
		}
		most := c.within(grants[j].most(r), r)
		more := min(s.short(i, r), most-next[j].Request[r])
		if !changes {
			more = max(more, min(s.available[r]-s.total[r], c.within(grants[j].share(r), r)-next[j].Request[r]))
		}
		if at := next[j].Request[r]; more > 0 {
			to := s.wholly(r, at, more, most)
			s.change(i, func() { next[j].Request[r] = to })
		}
	})
}

// wholly is so much more, up to the top: rounded up where there is room, so that nothing is missing.
func (s *settlement) wholly(r recommender.Resource, at, more, top recommender.Amount) recommender.Amount {
	if up := min(top, r.Whole(at+more)); up-at <= s.available[r]-s.total[r] {
		return up
	}
	return whole(r, at, at+more, top)
}

// lowering is how much a pod's containers are lowered.
func (s *settlement) lowering(i int, r recommender.Resource) (sum recommender.Amount) {
	next := s.of(i, s.next)
	for j := range next {
		sum += max(0, s.pods[i].Containers[j].Current[r]-next[j].Request[r])
	}
	return sum
}

// giveBack lets a pod keep what is missing, and all that it holds where the rest is worth no resize.
func (s *settlement) giveBack(i int, r recommender.Resource) {
	if s.missing(r) <= 0 {
		return
	}
	next := s.of(i, s.next)
	for j := range next {
		at, current := next[j].Request[r], s.pods[i].Containers[j].Current[r]
		if more := min(s.short(i, r), current-at); more > 0 {
			to := s.wholly(r, at, more, current)
			s.change(i, func() { next[j].Request[r] = to })
		}
	}
	s.leaveTrifle(i)
}

// leaveTrifles: where a pod was to be lowered and what was missing was left with it, the rest may be worth no resize.
func (s *settlement) leaveTrifles() {
	for _, i := range s.changed() {
		s.leaveTrifle(i)
	}
}

// changed are the pods that are written to, by name.
func (s *settlement) changed() []int {
	return s.by(func(i int) recommender.Amount {
		if s.changes(i) {
			return 1
		}
		return 0
	})
}

func (s *settlement) leaveTrifle(i int) {
	if s.trifling(i) {
		s.change(i, func() { s.keep(i) })
	}
}

// trifling: the pod is lowered by less than the dead band and raised by little, there is room to leave it as it is, and
// nothing is missing then.
func (s *settlement) trifling(i int) bool {
	next := s.of(i, s.next)
	for j := range next {
		c := &s.pods[i].Containers[j]
		if next[j].MemoryLimit != c.CurrentLimit {
			return false
		}
		for _, r := range recommender.Resources {
			if to := next[j].Request[r]; farAbove(r, c.Current[r], to) || farBelow(c.Current[r], to) {
				return false
			}
		}
	}
	for _, r := range recommender.Resources {
		if s.without(i, r) > s.available[r] || s.leaves(i, r, min(s.needed[r], s.available[r])) {
			return false
		}
	}
	return true
}

// without is what the scheduler would count if a pod kept what it holds.
func (s *settlement) without(i int, r recommender.Resource) recommender.Amount {
	return s.total[r] - s.counted(i, r) + s.sum(i, r, func(j int) recommender.Amount { return s.pods[i].Containers[j].Current[r] })
}

// leaves: less would be held if a pod kept what it holds, and less than should be.
func (s *settlement) leaves(i int, r recommender.Resource, should recommender.Amount) bool {
	then := s.without(i, r)
	return then < s.total[r] && then+crumb[r] <= should
}

// keep leaves a pod what it holds.
func (s *settlement) keep(i int) {
	next := s.of(i, s.next)
	for j := range next {
		c := &s.pods[i].Containers[j]
		next[j].Request, next[j].MemoryLimit = c.Current, c.CurrentLimit
	}
}

// much is the least raise that somebody is resized for who waits for more.
var much = [2]recommender.Amount{recommender.CPU: 10, recommender.Memory: 16 << 20}

// await leaves alone those who get little of what they lack before somebody has gone, as far as they do not hold for
// others what these let go.
func (s *settlement) await() {
	if !s.going {
		return
	}
	for _, i := range s.changed() {
		if s.waits(i) && s.spared(i) {
			s.change(i, func() { s.keep(i) })
		}
	}
}

// waits: a container is to hold less than its share, and none of the pod's is raised by much, nor lowered at all.
func (s *settlement) waits(i int) bool {
	next, grants := s.of(i, s.next), s.of(i, s.grants)
	worth := s.any(i, func(j int, c *Container, r recommender.Resource) bool {
		more := next[j].Request[r] - c.Current[r]
		return more < 0 || more >= much[r] && !recommender.WithinDeadBand(c.Current[r], next[j].Request[r])
	})
	return !worth && s.any(i, func(j int, _ *Container, r recommender.Resource) bool {
		return farAbove(r, next[j].Request[r], grants[j].share(r))
	})
}

// spared: as much is held without what a pod is raised by as before, or as is needed.
func (s *settlement) spared(i int) bool {
	for _, r := range recommender.Resources {
		if s.leaves(i, r, min(s.before[r], s.needed[r], s.available[r])) {
			return false
		}
	}
	return true
}
