package node

import (
	"math"
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// LoweredEvery is the minimum time between two lowerings of a pod. It holds even if other pods wait for the room.
const LoweredEvery = 15 * time.Minute

// Rest is how long a resized pod with sufficient resources stays unchanged while no other pod needs its room. Grants
// change with each reconcile; following all of them would write to the API server for little gain.
const Rest = 90 * time.Minute

// Pace is the minimum time between two resizes of a pod: at most eight in an hour.
const Pace = 8 * time.Minute

// Paced reports whether the pod was resized within Pace. It is frozen until Pace is over.
func Paced(resized, now time.Time) bool { return recently(resized, now, Pace) }

// Settle returns the amounts that each container is to hold next, in the order of the grants. shared is the result of
// Share for the same available and pods. Settle is pure, and its result does not depend on the order of the pods.
//
// These keep their current amounts: frozen pods, pods that are to be evicted, and containers that a change would
// restart. A raise up to the grant is made at once, unless all raises of the pod are small. A pod is lowered when one
// of its amounts exceeds the grant by at least the dead band. It is then lowered in all amounts above the grants, but
// not within LoweredEvery of its last lowering, even if other pods wait for the room. A pod that was resized within
// Rest is neither raised nor lowered while it has its base of CPU and its memory.
//
// The steps keep the admission invariant: a pod that was admitted at its peak causes no eviction.
//   - If the raises need more room than is free, they are first capped at Reach. Then DaemonSets return their spare
//     CPU. Then pods within the dead band or Rest are lowered, the largest excess first.
//   - If the room is still short, because pods are frozen or were lowered recently, the raises divide it, bases
//     first.
//   - Together the pods hold Needed, or all that is available. If the scheduler counted less, it could give the room
//     to a new pod that does not fit. Rounding grants down, omitting small raises, and frozen pods below their grants
//     leave such a gap. Pods that change anyway keep the missing amount, up to their grants. Next are pods that would
//     be lowered, then pods that lack most are raised. So the fewest pods are changed.
//
// Before an eviction, pods that wait for its room are resized only for a large gain. A resize is observed, and an
// observed pod claims no more than it holds.
//
// Remaining room goes to DaemonSets, and to containers below their policy's minimum. If an amount is too large for
// exact sums, no pod is changed.
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
	// A pod may have kept so much of a lowering that the rest is too small for a resize.
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

// Lowers reports whether next lowers an amount of the pod's containers.
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

// share is the grant without a DaemonSet's spare CPU.
func (g *Grant) share(r recommender.Resource) recommender.Amount {
	if r == recommender.CPU {
		return g.Request[r] - g.Spare
	}
	return g.Request[r]
}

// protectedRequest is the part of the current request that the policy's minimum protects.
func (c *Container) protectedRequest(r recommender.Resource) recommender.Amount {
	return min(c.Current[r], c.Least[r])
}

// changed returns the pods that the plan resizes, by name.
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

// small reports whether the pod's lowerings are below the dead band and its raises below raiseBand, and whether there
// is room to leave it unchanged without a gap below Needed.
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
	return !slices.ContainsFunc(recommender.Resources[:], func(r recommender.Resource) bool {
		return n.totalWithout(p, r) > n.available[r] || n.leavesMissing(p, r, min(n.needed[r], n.available[r]))
	})
}

// totalWithout is the total that the scheduler would count if this pod kept its current requests.
func (n *nodePlan) totalWithout(p *podPlan, r recommender.Resource) recommender.Amount {
	return n.total[r] - p.counted(r) + p.sum(r, func(j int) recommender.Amount { return p.Containers[j].Current[r] })
}

// leavesMissing reports whether keeping the pod's current requests would lower the total and leave it below should.
func (n *nodePlan) leavesMissing(p *podPlan, r recommender.Resource, should recommender.Amount) bool {
	then := n.totalWithout(p, r)
	return then < n.total[r] && then+leastMissing[r] <= should
}

// leastGain is the smallest raise worth a resize of a pod that waits for the room of an eviction.
var leastGain = [2]recommender.Amount{recommender.CPU: 10, recommender.Memory: 16 << 20}

// waiting skips raises of less than leastGain while an eviction is pending, unless the pods would then hold less than
// before.
func (n *nodePlan) waiting(before Amounts) {
	for _, p := range n.changed() {
		if p.gainsLittle() && n.dispensable(p.podPlan, before) {
			n.change(p.podPlan, p.keep)
		}
	}
}

// gainsLittle reports whether a container stays below its share, while the plan lowers no amount of the pod and raises
// none by much.
func (p *podPlan) gainsLittle() bool {
	worth := p.any(func(j int, c *Container, r recommender.Resource) bool {
		more := p.next[j].Request[r] - c.Current[r]
		return more < 0 || more >= leastGain[r] && !recommender.WithinDeadBand(c.Current[r], p.next[j].Request[r])
	})
	return !worth && p.any(func(j int, _ *Container, r recommender.Resource) bool {
		return farAbove(r, p.next[j].Request[r], p.grants[j].share(r))
	})
}

// dispensable reports whether the pods still hold as much as before, or as needed, without the pod's raise.
func (n *nodePlan) dispensable(p *podPlan, before Amounts) bool {
	return !slices.ContainsFunc(recommender.Resources[:], func(r recommender.Resource) bool {
		return n.leavesMissing(p, r, min(before[r], n.needed[r], n.available[r]))
	})
}

// resourcePlan is the plan of one resource. While the resource is short, its first steps reduce the total to the
// available amount. fill then closes the gap below Needed, and give distributes room that no pod needs.
type resourcePlan struct {
	*nodePlan
	r recommender.Resource
}

func (f resourcePlan) short() bool { return f.room(f.r) < 0 }

// capRaises caps raises at the containers' Reach: no room is reserved for a raise that would be refused. If the room is
// not short, the raise is attempted, and the refusal is reported with its reason.
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

// lowerOthers lowers pods with small excesses until the raises have room.
func (f resourcePlan) lowerOthers() {
	for _, p := range f.mostFirst(f.surplus) {
		if !f.short() {
			return
		}
		f.change(p.podPlan, p.lower)
	}
}

// surplus is the amount that a pod can return. The CPU of DaemonSets sorts before all other pods.
func (f resourcePlan) surplus(p *podPlan) recommender.Amount {
	if p.lowered {
		return 0
	}
	surplus := p.counted(f.r) - p.sum(f.r, func(j int) recommender.Amount {
		c, next := &p.Containers[j], p.next[j].Request[f.r]
		if p.fixed(c, f.r) {
			return next
		}
		return min(next, max(p.grants[j].share(f.r), c.protectedRequest(f.r)))
	})
	if p.DaemonSet && f.r == recommender.CPU && surplus > 0 {
		return math.MaxInt64/2 + surplus/2
	}
	return surplus
}

// rationRaises divides the free room among the raises.
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

// claimOf a container. Its low is the amount without its raise.
func (f resourcePlan) claimOf(p *podPlan, j int) claim {
	c, next := &p.Containers[j], p.next[j].Request[f.r]
	return newClaim(min(c.Current[f.r], next), p.demand(c, f.r, recommender.MaxAmount).Base, next)
}
