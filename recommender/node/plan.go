package node

import (
	"cmp"
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// podPlan is a pod, its containers' grants, and what they are to hold next.
type podPlan struct {
	*Pod
	// grants and next are the pod's parts of the node's, by container.
	grants, next []Grant
	// kept pods keep what they hold: they are frozen, or are to be evicted.
	kept bool
	// lowered: it was lowered within LoweredEvery, and is not lowered now.
	lowered bool
	// resting: it was resized within Rest and holds what it always needs. It is changed for others only.
	resting bool
}

// any says whether is holds for an amount of the pod that may be changed.
func (p *podPlan) any(is func(j int, c *Container, r recommender.Resource) bool) bool {
	for j := range p.Containers {
		c := &p.Containers[j]
		for _, r := range recommender.Resources {
			if !p.fixed(c, r) && is(j, c, r) {
				return true
			}
		}
	}
	return false
}

// each visits the pod's amounts that may be changed.
func (p *podPlan) each(visit func(j int, c *Container, r recommender.Resource)) {
	p.any(func(j int, c *Container, r recommender.Resource) bool {
		visit(j, c, r)
		return false
	})
}

// sum of amounts of the pod's containers, as the scheduler counts it: at least the init request.
func (p *podPlan) sum(r recommender.Resource, of func(j int) recommender.Amount) recommender.Amount {
	var sum recommender.Amount
	for j := range p.Containers {
		sum += of(j)
	}
	return max(sum, p.InitRequest[r])
}

// counted is what the scheduler will count for the pod.
func (p *podPlan) counted(r recommender.Resource) recommender.Amount {
	return p.sum(r, func(j int) recommender.Amount { return p.next[j].Request[r] })
}

// follow gives the pod its grants, as far as that is worth a resize.
func (p *podPlan) follow() {
	if p.kept || p.resting {
		return
	}
	lowers := !p.lowered && p.farAboveGrant()
	if lowers {
		p.lower()
	}
	if lowers || p.farBelowGrant() {
		p.raise()
	}
}

// raise the pod to its shares.
func (p *podPlan) raise() {
	p.each(func(j int, _ *Container, r recommender.Resource) {
		next, grant := &p.next[j], &p.grants[j]
		next.Request[r] = max(next.Request[r], grant.share(r))
		if r == recommender.Memory {
			next.MemoryLimit = max(next.MemoryLimit, grant.MemoryLimit)
		}
	})
}

// lower the pod to its shares. A limit that nothing is known for stays.
func (p *podPlan) lower() {
	p.each(func(j int, c *Container, r recommender.Resource) {
		next, grant := &p.next[j], &p.grants[j]
		next.Request[r] = min(next.Request[r], max(grant.share(r), c.leastHeld(r)))
		if r == recommender.Memory && grant.MemoryLimit > 0 {
			next.MemoryLimit = min(next.MemoryLimit, grant.MemoryLimit)
		}
	})
}

// keep leaves the pod what it holds.
func (p *podPlan) keep() {
	for j := range p.next {
		c := &p.Containers[j]
		p.next[j].Request, p.next[j].MemoryLimit = c.Current, c.CurrentLimit
	}
}

// changes: the pod is written to.
func (p *podPlan) changes() bool {
	for j := range p.next {
		c := &p.Containers[j]
		if p.next[j].Request != c.Current || p.next[j].MemoryLimit != c.CurrentLimit {
			return true
		}
	}
	return false
}

// nodePlan is what the pods of a node are to hold next. It begins with what they hold now.
type nodePlan struct {
	available, needed Amounts
	overcommitted     [2]bool
	pods              []podPlan
	next              []Grant
	// total is what the scheduler will count for all pods: the sum of their counted. change keeps it true.
	total Amounts
}

func newNodePlan(available Amounts, pods []Pod, shared Result, now time.Time) *nodePlan {
	n := &nodePlan{
		available: Amounts{summable(available[0]), summable(available[1])}, needed: shared.Needed, overcommitted: shared.Overcommitted,
		pods: make([]podPlan, len(pods)), next: make([]Grant, 0, len(shared.Grants)),
	}
	for i := range pods {
		p := &pods[i]
		first := len(n.next)
		for j := range p.Containers {
			n.next = append(n.next, Grant{Request: p.Containers[j].Current, MemoryLimit: p.Containers[j].CurrentLimit})
		}
		n.pods[i] = podPlan{
			Pod: p, next: n.next[first:], grants: shared.Grants[first:len(n.next)],
			kept: p.Frozen, lowered: recently(p.LastLowered, now, LoweredEvery),
		}
	}
	for _, v := range shared.Evictions {
		n.pods[v.Pod].kept = true
	}
	for i := range n.pods {
		p := &n.pods[i]
		p.resting = recently(p.LastResized, now, Rest) && !p.lacksNeeds()
	}
	return n
}

// summable keeps what is available to what adds up exactly. It is below zero where other pods hold more than there is.
func summable(available recommender.Amount) recommender.Amount {
	return min(max(available, -mostSum), mostSum)
}

// recently: it happened, less than so long ago. A time in the future, from a clock that was ahead, did not happen.
func recently(at, now time.Time, ago time.Duration) bool {
	since := now.Sub(at)
	return !at.IsZero() && since >= 0 && since < ago
}

// exact: no amount is below zero, or so great that sums are not exact.
func (n *nodePlan) exact() bool {
	greatest := min(recommender.MaxAmount, mostSum/recommender.Amount(max(1, len(n.pods)+len(n.next))))
	exact := func(amounts ...recommender.Amount) bool {
		return !slices.ContainsFunc(amounts, func(a recommender.Amount) bool { return a < 0 || a > greatest })
	}
	for i := range n.pods {
		p := &n.pods[i]
		if !exact(p.InitRequest[:]...) {
			return false
		}
		for j := range p.Containers {
			if c := &p.Containers[j]; !exact(c.Current[:]...) || !exact(c.Least[:]...) || !exact(c.CurrentLimit/2) {
				return false
			}
		}
	}
	return true
}

func (n *nodePlan) recount() {
	n.total = Amounts{}
	for i := range n.pods {
		n.count(&n.pods[i], 1)
	}
}

// count a pod in (times 1) or out (times −1).
func (n *nodePlan) count(p *podPlan, times recommender.Amount) {
	for _, r := range recommender.Resources {
		n.total[r] += times * p.counted(r)
	}
}

// change keeps the total true while it changes a pod.
func (n *nodePlan) change(p *podPlan, change func()) {
	n.count(p, -1)
	change()
	n.count(p, 1)
}

// room is what is available beyond the total; below zero it is short.
func (n *nodePlan) room(r recommender.Resource) recommender.Amount {
	return n.available[r] - n.total[r]
}

// ranked is a pod with the amount that it is ordered by.
type ranked struct {
	*podPlan
	by recommender.Amount
}

// mostFirst are the pods of which there is something and that are not kept: the most first, of those by name. It is a
// total order, as names are unique on a node.
func (n *nodePlan) mostFirst(of func(p *podPlan) recommender.Amount) []ranked {
	var order []ranked
	for i := range n.pods {
		p := &n.pods[i]
		if p.kept {
			continue
		}
		if by := of(p); by > 0 {
			order = append(order, ranked{p, by})
		}
	}
	slices.SortFunc(order, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.by, a.by), cmp.Compare(a.Name, b.Name))
	})
	return order
}

// raiseBand is the percentage below which a raise is worth no resize.
var raiseBand = [2]recommender.Amount{recommender.CPU: 5, recommender.Memory: 2}

// farBelow: the target is below what is held by the dead band or more.
func farBelow(live, target recommender.Amount) bool {
	return target < live && !recommender.WithinDeadBand(live, target)
}

// farAbove: the target is above what is held by raiseBand or more.
func farAbove(r recommender.Resource, live, target recommender.Amount) bool {
	return target > live && (target-live)*100 >= live*raiseBand[r]
}

// farAboveGrant: a container holds more than its grant, and than its policy's least, by the dead band or more.
func (p *podPlan) farAboveGrant() bool {
	return p.any(func(j int, c *Container, r recommender.Resource) bool {
		grant := &p.grants[j]
		return farBelow(c.Current[r], max(grant.Request[r], c.leastHeld(r))) ||
			r == recommender.Memory && grant.MemoryLimit > 0 && farBelow(c.CurrentLimit, grant.MemoryLimit)
	})
}

// farBelowGrant: a container holds less than its share by raiseBand or more.
func (p *podPlan) farBelowGrant() bool {
	return p.any(func(j int, c *Container, r recommender.Resource) bool {
		return farAbove(r, c.Current[r], p.grants[j].share(r)) ||
			r == recommender.Memory && farAbove(r, c.CurrentLimit, p.grants[j].MemoryLimit)
	})
}

// lacksNeeds: a container holds less than it always needs: its base of CPU, all of its grant of memory.
func (p *podPlan) lacksNeeds() bool {
	return p.any(func(j int, c *Container, r recommender.Resource) bool {
		grant := &p.grants[j]
		if r == recommender.Memory {
			return farAbove(r, c.Current[r], grant.Request[r]) || farAbove(r, c.CurrentLimit, grant.MemoryLimit)
		}
		base := min(c.Of[r].Base, grant.share(r))
		return base > c.Current[r] && !recommender.WithinDeadBand(c.Current[r], base)
	})
}
