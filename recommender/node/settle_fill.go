package node

import (
	"math/bits"

	"attune.io/attune/recommender"
)

// leastMissing is the smallest gap worth a resize. Without it, the remainder of a MiB would move between pods forever.
var leastMissing = [2]recommender.Amount{recommender.CPU: 1, recommender.Memory: 1 << 20}

// fill closes the gap between the total and Needed, or the available amount. It first raises pods that change anyway,
// then reduces lowerings, then makes small raises; resting pods come last.
func (f resourcePlan) fill() {
	if f.missing() <= 0 {
		return
	}
	for _, p := range f.mostFirst(f.lacks) {
		if p.changes() {
			f.complete(p.podPlan)
		}
	}
	for _, p := range f.mostFirst(f.lowering) {
		f.reduceLowering(p.podPlan)
	}
	for _, resting := range [...]bool{false, true} {
		for _, p := range f.mostFirst(f.lacks) {
			if p.resting == resting {
				f.complete(p.podPlan)
			}
		}
	}
}

// missing is the gap between the total and Needed, or the available amount.
func (f resourcePlan) missing() recommender.Amount {
	missing := min(f.needed[f.r], f.available[f.r]) - f.total[f.r]
	if missing < leastMissing[f.r] {
		return 0
	}
	return missing
}

// missingOf is the raise of the pod's containers that would close the gap. Raises within its init request do not count.
func (f resourcePlan) missingOf(p *podPlan) recommender.Amount {
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

// lacks is the amount by which a pod may still be raised.
func (f resourcePlan) lacks(p *podPlan) (sum recommender.Amount) {
	p.each(func(j int, c *Container, r recommender.Resource) {
		if r == f.r {
			sum += max(0, c.attainable(p.grants[j].most(r), r)-p.next[j].Request[r])
		}
	})
	return sum
}

// complete raises a pod until nothing is missing or its limit is reached. A pod that would not be resized otherwise is
// raised to its share at once if there is room. It then needs no second resize.
func (f resourcePlan) complete(p *podPlan) {
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

// lowering is the total by which the pod's containers are lowered.
func (f resourcePlan) lowering(p *podPlan) (sum recommender.Amount) {
	for j := range p.next {
		sum += max(0, p.Containers[j].Current[f.r]-p.next[j].Request[f.r])
	}
	return sum
}

// reduceLowering reduces the pod's lowering by the missing amount. If the rest is too small for a resize, the pod keeps its
// current requests.
func (f resourcePlan) reduceLowering(p *podPlan) {
	if f.missing() <= 0 {
		return
	}
	for j := range p.next {
		current := p.Containers[j].Current[f.r]
		f.raiseBy(p, j, min(f.missingOf(p), current-p.next[j].Request[f.r]), current)
	}
	f.ifSmall(p)
}

// raiseBy raises a container's amount by more, at most to top. It rounds up if there is room, so that nothing is
// missing, and down otherwise.
func (f resourcePlan) raiseBy(p *podPlan, j int, more, top recommender.Amount) {
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

// give distributes room that no pod needs: to DaemonSets, up to their spare CPU, and to containers below their policy's
// minimum, in proportion to what they lack. Room that is granted to a pod but not yet held is not distributed.
func (f resourcePlan) give() {
	room, wanted := f.unclaimed(), recommender.Amount(0)
	for i := range f.pods {
		for j := range f.pods[i].Containers {
			wanted += f.wants(&f.pods[i], j)
		}
	}
	if room <= 0 || wanted == 0 {
		return
	}
	for i := range f.pods {
		p := &f.pods[i]
		f.change(p, func() { f.giveTo(p, room, wanted) })
	}
}

// unclaimed is the room that is not held, granted or needed.
func (f resourcePlan) unclaimed() recommender.Amount {
	if f.overcommitted[f.r] {
		return 0
	}
	var sum recommender.Amount
	for i := range f.pods {
		p := &f.pods[i]
		sum += max(p.counted(f.r), p.sum(f.r, func(j int) recommender.Amount { return p.grants[j].share(f.r) }))
	}
	return f.available[f.r] - max(sum, f.needed[f.r])
}

// wants is the amount of unclaimed room that a container can use.
func (f resourcePlan) wants(p *podPlan, j int) recommender.Amount {
	c, grant := &p.Containers[j], &p.grants[j]
	if p.kept || p.fixed(c, f.r) {
		return 0
	}
	top := c.Least[f.r]
	if f.r == recommender.CPU && grant.Spare > 0 {
		top = max(top, grant.Request[f.r])
	}
	return max(0, top-p.next[j].Request[f.r])
}

// giveTo raises a pod by its part of the room, if the raise is large enough for a resize.
func (f resourcePlan) giveTo(p *podPlan, room, wanted recommender.Amount) {
	worth := p.changes()
	parts := make([]recommender.Amount, len(p.next))
	for j := range p.next {
		parts[j] = f.wants(p, j)
		if room < wanted {
			parts[j] = proportion(parts[j], room, wanted)
		}
		worth = worth || farAbove(f.r, p.Containers[j].Current[f.r], p.next[j].Request[f.r]+parts[j])
	}
	for j := range p.next {
		if at := p.next[j].Request[f.r]; worth {
			p.next[j].Request[f.r] = whole(f.r, at, at+parts[j], at+f.wants(p, j))
		}
	}
}

// claim has the amounts of a pod or container without a raise (low), with its base demand (base), and with its full
// grant (top): low ≤ base ≤ top.
type claim struct{ low, base, top recommender.Amount }

func newClaim(low, base, top recommender.Amount) claim {
	top = max(low, top)
	return claim{low, min(max(base, low), top), top}
}

func (x *claim) add(y claim) { x.low, x.base, x.top = x.low+y.low, x.base+y.base, x.top+y.top }

// atLeast an init request, which the scheduler counts anyway: raises within it need no room.
func (x claim) atLeast(a recommender.Amount) claim {
	return claim{max(x.low, a), max(x.base, a), max(x.top, a)}
}

// portion divides room that may be too small for all claims. It first covers the gap to the bases (toBase), then the
// gap above them (toTop), each in proportion. Each part is rounded down, so the sum never exceeds the room, unless the
// lows already do.
type portion struct{ room, toBase, toTop recommender.Amount }

func (p *portion) add(x claim) {
	p.room -= x.low
	p.toBase += x.base - x.low
	p.toTop += x.top - x.base
}

// of returns the amount of one added claim.
func (p *portion) of(x claim) recommender.Amount {
	switch left := p.room - p.toBase; {
	case left >= p.toTop:
		return x.top
	case left >= 0:
		return x.base + proportion(x.top-x.base, left, p.toTop)
	case p.room > 0:
		return x.low + proportion(x.base-x.low, p.room, p.toBase)
	default:
		return x.low
	}
}

// ration divides room among the claims of the pods' containers and calls give for each container. A pod counts with at
// least its init request, as in the scheduler.
func ration(r recommender.Resource, room recommender.Amount, pods [][]claim, init func(i int) recommender.Amount, give func(i, j int, to recommender.Amount)) {
	all, ofPods := portion{room: room}, make([]claim, len(pods))
	for i, containers := range pods {
		for _, x := range containers {
			ofPods[i].add(x)
		}
		ofPods[i] = ofPods[i].atLeast(init(i))
		all.add(ofPods[i])
	}
	for i, containers := range pods {
		own := portion{room: all.of(ofPods[i])}
		for _, x := range containers {
			own.add(x)
		}
		for j, x := range containers {
			give(i, j, whole(r, x.low, own.of(x), x.top))
		}
	}
}

// proportion is a × part / whole, rounded down, with a product of 126 bits; 0 ≤ part < whole.
func proportion(a, part, whole recommender.Amount) recommender.Amount {
	high, low := bits.Mul64(uint64(a), uint64(part))
	quotient, _ := bits.Div64(high, low, uint64(whole))
	return recommender.Amount(quotient)
}

// whole rounds an amount below top down to a whole one (memory: MiB), for readable pod specs; not below low.
func whole(r recommender.Resource, low, to, top recommender.Amount) recommender.Amount {
	if to >= top {
		return to
	}
	return max(low, r.WholeDown(to))
}
