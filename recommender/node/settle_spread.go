package node

import "attune.io/attune/recommender"

// spread gives what nobody needs: to DaemonSets what they were lent, and to others what their policies allow at
// least; in proportion to what they lack. Room that somebody is owed is not given away.
func (s *settlement) spread(r recommender.Resource) {
	room, lacking := s.left(r), recommender.Amount(0)
	for i := range s.pods {
		for j := range s.pods[i].Containers {
			lacking += s.wants(i, j, r)
		}
	}
	if room <= 0 || lacking == 0 {
		return
	}
	for i := range s.pods {
		s.change(i, func() { s.give(i, r, room, lacking) })
	}
}

// left is what is neither held nor owed nor needed.
func (s *settlement) left(r recommender.Resource) recommender.Amount {
	if s.overcommitted[r] {
		return 0
	}
	var sum recommender.Amount
	for i := range s.pods {
		grants := s.of(i, s.grants)
		sum += max(s.counted(i, r), s.sum(i, r, func(j int) recommender.Amount { return grants[j].share(r) }))
	}
	return s.available[r] - max(sum, s.needed[r])
}

// wants is what a container would take of what is left.
func (s *settlement) wants(i, j int, r recommender.Resource) recommender.Amount {
	p := &s.pods[i]
	c, g := &p.Containers[j], &s.of(i, s.grants)[j]
	if s.still[i] || p.fixed(c, r) {
		return 0
	}
	top := c.Least[r]
	if r == recommender.CPU && g.Spare > 0 {
		top = max(top, g.Request[r])
	}
	return max(0, top-s.of(i, s.next)[j].Request[r])
}

// give a pod its part of the room, where that is worth a resize.
func (s *settlement) give(i int, r recommender.Resource, room, lacking recommender.Amount) {
	next := s.of(i, s.next)
	worth := s.changes(i)
	parts := make([]recommender.Amount, len(next))
	for j := range next {
		parts[j] = s.wants(i, j, r)
		if room < lacking {
			parts[j] = proportion(parts[j], room, lacking)
		}
		worth = worth || farAbove(r, s.pods[i].Containers[j].Current[r], next[j].Request[r]+parts[j])
	}
	for j := range next {
		if at := next[j].Request[r]; worth {
			next[j].Request[r] = whole(r, at, at+parts[j], at+s.wants(i, j, r))
		}
	}
}
