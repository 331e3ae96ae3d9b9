package node

import (
	"math"

	"attune.io/attune/recommender"
)

// fitting brings what is held of a resource down to what there is. Each of its steps does nothing where there is room.
type fitting struct {
	*nodePlan
	r recommender.Resource
}

func (f fitting) short() bool { return f.room(f.r) < 0 }

// capRaises ends raises at what the containers can have: no room is kept for a raise that would be refused. Where there
// is room, raises are asked for as they are, and a refusal says why.
func (f fitting) capRaises() {
	if !f.short() {
		return
	}
	for i := range f.pods {
		p := &f.pods[i]
		f.change(p, func() {
			for j := range p.next {
				p.next[j].Request[f.r] = p.Containers[j].attainable(p.next[j].Request[f.r], f.r)
			}
		})
	}
}

// lowerOthers lowers pods that lowering was not worth it for, until the raises have room.
func (f fitting) lowerOthers() {
	if !f.short() {
		return
	}
	for _, p := range f.mostFirst(f.surplus) {
		if !f.short() {
			return
		}
		f.change(p.podPlan, p.lower)
	}
}

// surplus is what a pod can give. A DaemonSet comes before all other pods with its CPU.
func (f fitting) surplus(p *podPlan) recommender.Amount {
	if p.lowered {
		return 0
	}
	surplus := p.counted(f.r) - p.sum(f.r, func(j int) recommender.Amount {
		c, next := &p.Containers[j], p.next[j].Request[f.r]
		if p.fixed(c, f.r) {
			return next
		}
		return min(next, max(p.grants[j].share(f.r), c.leastHeld(f.r)))
	})
	if p.DaemonSet && f.r == recommender.CPU && surplus > 0 {
		return math.MaxInt64/2 + surplus/2
	}
	return surplus
}

// rationRaises divides what room there is among the raises.
func (f fitting) rationRaises() {
	if !f.short() {
		return
	}
	room := portion{room: f.available[f.r]}
	for i := range f.pods {
		room.add(f.claim(&f.pods[i]))
	}
	for i := range f.pods {
		p := &f.pods[i]
		f.change(p, func() { f.cut(p, room.of(f.claim(p))) })
	}
}

// claim of a pod, as the scheduler counts it.
func (f fitting) claim(p *podPlan) claim {
	var all claim
	for j := range p.Containers {
		all.add(f.claimOf(p, j))
	}
	return all.atLeast(p.InitRequest[f.r])
}

// claimOf a container: from what it would hold without its raise.
func (f fitting) claimOf(p *podPlan, j int) claim {
	c, next := &p.Containers[j], p.next[j].Request[f.r]
	return newClaim(min(c.Current[f.r], next), p.demand(c, f.r, recommender.MaxAmount).Base, next)
}

// cut a pod's raises to what there is for it.
func (f fitting) cut(p *podPlan, to recommender.Amount) {
	own := portion{room: to}
	for j := range p.Containers {
		own.add(f.claimOf(p, j))
	}
	for j := range p.next {
		x := f.claimOf(p, j)
		p.next[j].Request[f.r] = whole(f.r, x.low, own.of(x), x.top)
	}
}
