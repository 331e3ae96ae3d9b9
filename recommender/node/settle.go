package node

import (
	"math"
	"time"

	"attune.io/attune/recommender"
)

// LoweredEvery is how long a pod that was lowered is not lowered again, even where other pods wait for its room.
const LoweredEvery = 15 * time.Minute

// Rest is how long a pod that was resized, and holds what it always needs, is left as it is where no pod waits for its
// room. Grants move with each look; to follow them all would write to the API server for little.
const Rest = 90 * time.Minute

// Pace is the least time between two resizes of a pod: at most eight in an hour.
const Pace = 8 * time.Minute

// Paced: the pod was resized within Pace, and is frozen until it is over.
func Paced(resized, now time.Time) bool { return recently(resized, now, Pace) }

// Settle says what each container is to hold next, in the order of the grants. The arguments are those of the
// sharing, and its result. It is pure, and its answer does not depend on the order of the pods.
//
// A frozen pod keeps what it holds, and so do one that is to be evicted, for as long as it is there, and a container that
// a change would restart. A raise up to the grant is made at once, unless all of the pod's raises are
// small. A pod is lowered, in all that is above its grants, when one of its amounts is above by the dead band or more,
// and not within LoweredEvery of the last time, also where other pods wait for its room. A pod that was resized within
// Rest is neither raised nor lowered while it holds its CPU's base and its memory.
//
// The steps keep the admission invariant: a pod that was admitted at its peak causes no eviction.
//   - Where raises need more room than there is, they first end at what their containers can have (Reach); then
//     DaemonSets give back what they were given to spare; then pods are lowered that are within the dead band or rest,
//     those first that hold the most above their grants.
//   - Where the room is short all the same, because pods are frozen or were lowered a moment ago, the raises divide it,
//     bases first.
//   - Together the pods hold what they need, or all that there is. A scheduler that sees less would give the room to a
//     new pod that does not fit. Less would be held because grants are rounded down, because small raises are left out,
//     or because a frozen pod holds less than its grant. What is missing stays with pods that are changed anyway, up to
//     their grants, then with pods that would be lowered; then it raises the pods that lack most. So the fewest pods
//     are changed.
//
// Before an eviction, pods that wait for its room are resized only where that gives them much: a resize is watched, and
// a watched pod claims no more than it holds.
//
// What is left then goes to DaemonSets, and to containers that hold less than their policies allow. Where there is an
// amount that does not add up exactly, no pod is changed.
func Settle(available Amounts, pods []Pod, shared Result, now time.Time) []Grant {
	n := newNodePlan(available, pods, shared, now)
	if !n.exact() {
		return n.next
	}
	n.recount()
	before := n.total
	for i := range n.pods {
		n.pods[i].follow()
	}
	n.recount()
	for _, step := range [...]func(resourcePlan){resourcePlan.capRaises, resourcePlan.lowerOthers, resourcePlan.rationRaises} {
		for _, r := range recommender.Resources {
			if f := (resourcePlan{n, r}); f.short() {
				step(f)
			}
		}
	}
	for _, r := range recommender.Resources {
		resourcePlan{n, r}.fill()
	}
	// Where a pod was to be lowered and what was missing was left with it, the rest may be worth no resize.
	for _, p := range n.changed() {
		n.ifSmall(p.podPlan)
	}
	if len(shared.Evictions) > 0 {
		n.waiting(before)
	}
	for _, r := range recommender.Resources {
		resourcePlan{n, r}.give()
	}
	for k := range n.next {
		if g := &n.next[k]; g.MemoryLimit > 0 {
			g.MemoryLimit = max(g.MemoryLimit, g.Request[recommender.Memory])
		}
	}
	return n.next
}

// Lowers says whether the sizes of the pod's containers lower any of them.
func (p *Pod) Lowers(next []Grant) bool {
	for i := range p.Containers {
		if p.Containers[i].lowered(next[i]) {
			return true
		}
	}
	return false
}

func (c *Container) lowered(to Grant) bool {
	return to.Request[0] < c.Current[0] || to.Request[1] < c.Current[1] ||
		to.MemoryLimit > 0 && to.MemoryLimit < c.CurrentLimit
}

// share is the grant without what a DaemonSet has to spare.
func (g *Grant) share(r recommender.Resource) recommender.Amount {
	if r == recommender.CPU {
		return g.Request[r] - g.Spare
	}
	return g.Request[r]
}

// leastHeld is what the container keeps of what it holds because its policy allows no less.
func (c *Container) leastHeld(r recommender.Resource) recommender.Amount {
	return min(c.Current[r], c.Least[r])
}

// changed are the pods that are written to, by name.
func (n *nodePlan) changed() []ranked {
	return n.mostFirst(func(p *podPlan) recommender.Amount {
		if p.changes() {
			return 1
		}
		return 0
	})
}

func (n *nodePlan) ifSmall(p *podPlan) {
	if n.small(p) {
		n.change(p, p.keep)
	}
}

// small: the pod is lowered by less than the dead band and raised by little, there is room to leave it as it is, and
// nothing is missing then.
func (n *nodePlan) small(p *podPlan) bool {
	for j := range p.next {
		c := &p.Containers[j]
		if p.next[j].MemoryLimit != c.CurrentLimit {
			return false
		}
		for _, r := range recommender.Resources {
			if to := p.next[j].Request[r]; farAbove(r, c.Current[r], to) || farBelow(c.Current[r], to) {
				return false
			}
		}
	}
	for _, r := range recommender.Resources {
		if n.totalWithout(p, r) > n.available[r] || n.leavesMissing(p, r, min(n.needed[r], n.available[r])) {
			return false
		}
	}
	return true
}

// totalWithout is what the scheduler would count for all pods if this one kept what it holds.
func (n *nodePlan) totalWithout(p *podPlan, r recommender.Resource) recommender.Amount {
	return n.total[r] - p.counted(r) + p.sum(r, func(j int) recommender.Amount { return p.Containers[j].Current[r] })
}

// leavesMissing: if the pod kept what it holds, less would be held, and less than should be.
func (n *nodePlan) leavesMissing(p *podPlan, r recommender.Resource, should recommender.Amount) bool {
	then := n.totalWithout(p, r)
	return then < n.total[r] && then+leastMissing[r] <= should
}

// leastGain is the least raise that a pod is resized for that waits for the room of an eviction.
var leastGain = [2]recommender.Amount{recommender.CPU: 10, recommender.Memory: 16 << 20}

// waiting leaves pods alone that gain little of what they lack before an eviction, as far as what they would gain is not
// needed to hold what was held before.
func (n *nodePlan) waiting(before Amounts) {
	for _, p := range n.changed() {
		if p.gainsLittle() && n.dispensable(p.podPlan, before) {
			n.change(p.podPlan, p.keep)
		}
	}
}

// gainsLittle: a container is to hold less than its share, and none of the pod's is raised by much, nor lowered at all.
func (p *podPlan) gainsLittle() bool {
	worth := p.any(func(j int, c *Container, r recommender.Resource) bool {
		more := p.next[j].Request[r] - c.Current[r]
		return more < 0 || more >= leastGain[r] && !recommender.WithinDeadBand(c.Current[r], p.next[j].Request[r])
	})
	return !worth && p.any(func(j int, _ *Container, r recommender.Resource) bool {
		return farAbove(r, p.next[j].Request[r], p.grants[j].share(r))
	})
}

// dispensable: without the pod's raise as much is held as before, or as is needed.
func (n *nodePlan) dispensable(p *podPlan, before Amounts) bool {
	for _, r := range recommender.Resources {
		if n.leavesMissing(p, r, min(before[r], n.needed[r], n.available[r])) {
			return false
		}
	}
	return true
}

// resourcePlan is the plan of one resource. Its first steps bring what is held of a resource that is short down to what there
// is; fill then leaves with the pods what they hold less than they need together, and give what no pod needs.
type resourcePlan struct {
	*nodePlan
	r recommender.Resource
}

func (f resourcePlan) short() bool { return f.room(f.r) < 0 }

// capRaises ends raises at what the containers can have: no room is kept for a raise that would be refused. Where there
// is room, raises are asked for as they are, and a refusal says why.
func (f resourcePlan) capRaises() {
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
func (f resourcePlan) lowerOthers() {
	for _, p := range f.mostFirst(f.surplus) {
		if !f.short() {
			return
		}
		f.change(p.podPlan, p.lower)
	}
}

// surplus is what a pod can give. A DaemonSet comes before all other pods with its CPU.
func (f resourcePlan) surplus(p *podPlan) recommender.Amount {
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
func (f resourcePlan) rationRaises() {
	claims := make([][]claim, len(f.pods))
	for i := range f.pods {
		for j := range f.pods[i].Containers {
			claims[i] = append(claims[i], f.claimOf(&f.pods[i], j))
		}
	}
	ration(f.r, f.available[f.r], claims, func(i int) recommender.Amount { return f.pods[i].InitRequest[f.r] },
		func(i, j int, to recommender.Amount) { f.pods[i].next[j].Request[f.r] = to })
	f.recount()
}

// claimOf a container: from what it would hold without its raise.
func (f resourcePlan) claimOf(p *podPlan, j int) claim {
	c, next := &p.Containers[j], p.next[j].Request[f.r]
	return newClaim(min(c.Current[f.r], next), p.demand(c, f.r, recommender.MaxAmount).Base, next)
}
