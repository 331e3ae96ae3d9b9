package node

import "attune.io/attune/recommender"

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
