package node

import (
	"cmp"
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// podPlan is a pod with its containers' grants and the amounts that they are to hold next.
type podPlan struct {
	*Pod
	// grants and next are slices of the node's slices, one entry per container.
	grants, next []Grant
	// kept pods keep their current requests: they are frozen, or are to be evicted.
	kept bool
	// lowered: the pod was lowered within LoweredEvery and is not lowered now.
	lowered bool
	// resting: the pod was resized within Rest and has its base of CPU and its memory. It is changed only for other
	// pods.
	resting bool
}

// any reports whether is holds for an amount of the pod that may be changed.
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

// sum adds up amounts of the pod's containers as the scheduler does: at least the init request.
func (p *podPlan) sum(r recommender.Resource, of func(j int) recommender.Amount) recommender.Amount {
	var sum recommender.Amount
	for j := range p.Containers {
		sum += of(j)
	}
	return max(sum, p.InitRequest[r])
}

// counted is the amount that the scheduler will count for the pod.
func (p *podPlan) counted(r recommender.Resource) recommender.Amount {
	return p.sum(r, func(j int) recommender.Amount { return p.next[j].Request[r] })
}

// follow changes the pod towards its grants if the change is large enough for a resize.
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

func (p *podPlan) raise() {
	p.each(func(j int, _ *Container, r recommender.Resource) {
		next, grant := &p.next[j], &p.grants[j]
		next.Request[r] = max(next.Request[r], grant.share(r))
		if r == recommender.Memory {
			next.MemoryLimit = max(next.MemoryLimit, grant.MemoryLimit)
		}
	})
}

// lower the pod to its shares. If no limit is granted, the current limit stays.
func (p *podPlan) lower() {
	p.each(func(j int, c *Container, r recommender.Resource) {
		next, grant := &p.next[j], &p.grants[j]
		next.Request[r] = min(next.Request[r], max(grant.share(r), c.protectedRequest(r)))
		if r == recommender.Memory && grant.MemoryLimit > 0 {
			next.MemoryLimit = min(next.MemoryLimit, grant.MemoryLimit)
		}
	})
}

// keep resets the plan to the current requests and limits.
func (p *podPlan) keep() {
	for j := range p.next {
		c := &p.Containers[j]
		p.next[j].Request, p.next[j].MemoryLimit = c.Current, c.CurrentLimit
	}
}

// changes reports whether the plan resizes the pod.
func (p *podPlan) changes() bool {
	for j := range p.next {
		c := &p.Containers[j]
		if p.next[j].Request != c.Current || p.next[j].MemoryLimit != c.CurrentLimit {
			return true
		}
	}
	return false
}

// nodePlan has the amounts that the pods of a node are to hold next. It starts with the current amounts.
type nodePlan struct {
	available, needed Amounts
	overcommitted     [2]bool
	pods              []podPlan
	next              []Grant
	// total is the amount that the scheduler will count for all pods: the sum of their counted. Only change may modify
	// a pod without recount, because it updates total.
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

// summable bounds an available amount so that sums stay exact. It is negative if other pods hold more than the node
// has.
func summable(available recommender.Amount) recommender.Amount {
	return min(max(available, -mostSum), mostSum)
}

// recently reports whether at is less than ago before now. A time in the future, from a clock that was ahead, does not
// count.
func recently(at, now time.Time, ago time.Duration) bool {
	since := now.Sub(at)
	return !at.IsZero() && since >= 0 && since < ago
}

// exact reports whether all amounts are at least zero and small enough for exact sums.
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

// count adds a pod to the total (times 1) or subtracts it (times −1).
func (n *nodePlan) count(p *podPlan, times recommender.Amount) {
	for _, r := range recommender.Resources {
		n.total[r] += times * p.counted(r)
	}
}

// change modifies a pod and updates the total.
func (n *nodePlan) change(p *podPlan, change func()) {
	n.count(p, -1)
	change()
	n.count(p, 1)
}

// room is the available amount minus the total. It is negative if the resource is short.
func (n *nodePlan) room(r recommender.Resource) recommender.Amount {
	return n.available[r] - n.total[r]
}

// ranked is a pod with the amount by which it is sorted.
type ranked struct {
	*podPlan
	by recommender.Amount
}

// mostFirst returns the pods that are not kept and have an amount above 0, largest first, then by name. The order is
// total, because names are unique on a node.
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

// raiseBand is the percentage below which a raise is too small for a resize.
var raiseBand = [2]recommender.Amount{recommender.CPU: 5, recommender.Memory: 2}

// farBelow reports whether the target is below the live amount by at least the dead band.
func farBelow(live, target recommender.Amount) bool {
	return target < live && !recommender.WithinDeadBand(live, target)
}

// farAbove reports whether the target is above the live amount by at least raiseBand.
func farAbove(r recommender.Resource, live, target recommender.Amount) bool {
	return target > live && (target-live)*100 >= live*raiseBand[r]
}

// farAboveGrant reports whether a container holds more than its grant and its policy's minimum, by at least the dead
// band.
func (p *podPlan) farAboveGrant() bool {
	return p.any(func(j int, c *Container, r recommender.Resource) bool {
		grant := &p.grants[j]
		return farBelow(c.Current[r], max(grant.Request[r], c.protectedRequest(r))) ||
			r == recommender.Memory && grant.MemoryLimit > 0 && farBelow(c.CurrentLimit, grant.MemoryLimit)
	})
}

// farBelowGrant reports whether a container holds less than its share, by at least raiseBand.
func (p *podPlan) farBelowGrant() bool {
	return p.any(func(j int, c *Container, r recommender.Resource) bool {
		return farAbove(r, c.Current[r], p.grants[j].share(r)) ||
			r == recommender.Memory && farAbove(r, c.CurrentLimit, p.grants[j].MemoryLimit)
	})
}

// lacksNeeds reports whether a container holds less than its base of CPU or less than its memory grant.
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
