package node

import (
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
	for _, step := range [...]func(fitting){fitting.capRaises, fitting.lowerOthers, fitting.rationRaises} {
		for _, r := range recommender.Resources {
			step(fitting{n, r})
		}
	}
	for _, r := range recommender.Resources {
		filling{n, r}.fill()
	}
	keeping{n}.smallChanges()
	if len(shared.Evictions) > 0 {
		keeping{n}.waiting(before)
	}
	for _, r := range recommender.Resources {
		leftover{n, r}.give()
	}
	n.raiseLimits()
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
