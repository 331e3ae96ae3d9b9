package node

import (
	"math"

	"attune.io/attune/recommender"
)

// reach ends raises at what the containers can have, where room is short: none of it is kept for what would be refused.
// Where there is room they are asked for as they are, and who refuses them says why.
func (s *settlement) reach(r recommender.Resource) {
	if s.total[r] <= s.available[r] {
		return
	}
	for i := range s.pods {
		next := s.of(i, s.next)
		s.change(i, func() {
			for j := range next {
				next[j].Request[r] = s.pods[i].Containers[j].within(next[j].Request[r], r)
			}
		})
	}
}

// release lowers pods that lowering was not worth it for, until the raises have room.
func (s *settlement) release(r recommender.Resource) {
	if s.total[r] <= s.available[r] {
		return
	}
	for _, i := range s.by(func(i int) recommender.Amount { return s.releases(i, r) }) {
		if s.total[r] <= s.available[r] {
			return
		}
		s.change(i, func() { s.lower(i) })
	}
}

// releases is what a pod can give; a DaemonSet gives its CPU before anybody else does.
func (s *settlement) releases(i int, r recommender.Resource) recommender.Amount {
	if s.bound[i] {
		return 0
	}
	p, next, grants := &s.pods[i], s.of(i, s.next), s.of(i, s.grants)
	above := s.counted(i, r) - s.sum(i, r, func(j int) recommender.Amount {
		c := &p.Containers[j]
		if p.fixed(c, r) {
			return next[j].Request[r]
		}
		return min(next[j].Request[r], max(grants[j].share(r), c.own(r)))
	})
	if p.DaemonSet && r == recommender.CPU && above > 0 {
		return math.MaxInt64/2 + above/2
	}
	return above
}

// ration shares what room there is among the raises.
func (s *settlement) ration(r recommender.Resource) {
	if s.total[r] <= s.available[r] {
		return
	}
	room := portion{room: s.available[r]}
	for i := range s.pods {
		room.add(s.rise(i, r))
	}
	for i := range s.pods {
		s.change(i, func() { s.cut(i, r, room.of(s.rise(i, r))) })
	}
}

// rise of a pod, as the scheduler counts it.
func (s *settlement) rise(i int, r recommender.Resource) rise {
	var all rise
	for j := range s.pods[i].Containers {
		all.add(s.riseOf(i, j, r))
	}
	return all.atLeast(s.pods[i].InitRequest[r])
}

// riseOf a container: from what it would hold without its raise.
func (s *settlement) riseOf(i, j int, r recommender.Resource) rise {
	p := &s.pods[i]
	c, next := &p.Containers[j], s.of(i, s.next)[j].Request[r]
	return newRise(min(c.Current[r], next), p.demand(c, r, recommender.MaxAmount).Base, next)
}

// cut leaves a pod's raises what there is for it.
func (s *settlement) cut(i int, r recommender.Resource, to recommender.Amount) {
	own := portion{room: to}
	for j := range s.pods[i].Containers {
		own.add(s.riseOf(i, j, r))
	}
	next := s.of(i, s.next)
	for j := range next {
		x := s.riseOf(i, j, r)
		next[j].Request[r] = whole(r, x.low, own.of(x), x.top)
	}
}
