package node

import "attune.io/attune/recommender"

// leftover is what no pod needs of a resource. It goes to DaemonSets, up to what they are given to spare, and to
// containers that hold less than their policies allow, in proportion to what they lack.
type leftover struct {
	*nodePlan
	r recommender.Resource
}

// give the leftover where it is wanted. Room that a pod has a grant for and does not hold yet is not given away.
func (l leftover) give() {
	room, wanted := l.amount(), recommender.Amount(0)
	for i := range l.pods {
		for j := range l.pods[i].Containers {
			wanted += l.wants(&l.pods[i], j)
		}
	}
	if room <= 0 || wanted == 0 {
		return
	}
	for i := range l.pods {
		p := &l.pods[i]
		l.change(p, func() { l.giveTo(p, room, wanted) })
	}
}

// amount that is neither held nor granted nor needed.
func (l leftover) amount() recommender.Amount {
	if l.overcommitted[l.r] {
		return 0
	}
	var sum recommender.Amount
	for i := range l.pods {
		p := &l.pods[i]
		sum += max(p.counted(l.r), p.sum(l.r, func(j int) recommender.Amount { return p.grants[j].share(l.r) }))
	}
	return l.available[l.r] - max(sum, l.needed[l.r])
}

// wants is what a container would take.
func (l leftover) wants(p *podPlan, j int) recommender.Amount {
	c, grant := &p.Containers[j], &p.grants[j]
	if p.kept || p.fixed(c, l.r) {
		return 0
	}
	top := c.Least[l.r]
	if l.r == recommender.CPU && grant.Spare > 0 {
		top = max(top, grant.Request[l.r])
	}
	return max(0, top-p.next[j].Request[l.r])
}

// giveTo a pod its part of the room, where that is worth a resize.
func (l leftover) giveTo(p *podPlan, room, wanted recommender.Amount) {
	worth := p.changes()
	parts := make([]recommender.Amount, len(p.next))
	for j := range p.next {
		parts[j] = l.wants(p, j)
		if room < wanted {
			parts[j] = proportion(parts[j], room, wanted)
		}
		worth = worth || farAbove(l.r, p.Containers[j].Current[l.r], p.next[j].Request[l.r]+parts[j])
	}
	for j := range p.next {
		if at := p.next[j].Request[l.r]; worth {
			p.next[j].Request[l.r] = whole(l.r, at, at+parts[j], at+l.wants(p, j))
		}
	}
}
