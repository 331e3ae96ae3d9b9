package node

import "attune.io/attune/recommender"

// keeping leaves pods as they are whose change is not worth a resize after all.
type keeping struct{ *nodePlan }

// smallChanges: where a pod was to be lowered and what was missing was left with it, the rest may be worth no resize.
func (k keeping) smallChanges() {
	for _, p := range k.changed() {
		k.ifSmall(p.podPlan)
	}
}

// changed are the pods that are written to, by name.
func (k keeping) changed() []ranked {
	return k.mostFirst(func(p *podPlan) recommender.Amount {
		if p.changes() {
			return 1
		}
		return 0
	})
}

func (k keeping) ifSmall(p *podPlan) {
	if k.small(p) {
		k.change(p, p.keep)
	}
}

// small: the pod is lowered by less than the dead band and raised by little, there is room to leave it as it is, and
// nothing is missing then.
func (k keeping) small(p *podPlan) bool {
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
		if k.totalWithout(p, r) > k.available[r] || k.leavesMissing(p, r, min(k.needed[r], k.available[r])) {
			return false
		}
	}
	return true
}

// totalWithout is what the scheduler would count for all pods if this one kept what it holds.
func (k keeping) totalWithout(p *podPlan, r recommender.Resource) recommender.Amount {
	return k.total[r] - p.counted(r) + p.sum(r, func(j int) recommender.Amount { return p.Containers[j].Current[r] })
}

// leavesMissing: if the pod kept what it holds, less would be held, and less than should be.
func (k keeping) leavesMissing(p *podPlan, r recommender.Resource, should recommender.Amount) bool {
	then := k.totalWithout(p, r)
	return then < k.total[r] && then+leastMissing[r] <= should
}

// leastGain is the least raise that a pod is resized for that waits for the room of an eviction.
var leastGain = [2]recommender.Amount{recommender.CPU: 10, recommender.Memory: 16 << 20}

// waiting leaves pods alone that gain little of what they lack before an eviction, as far as what they would gain is not
// needed to hold what was held before.
func (k keeping) waiting(before Amounts) {
	for _, p := range k.changed() {
		if p.gainsLittle() && k.dispensable(p.podPlan, before) {
			k.change(p.podPlan, p.keep)
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
func (k keeping) dispensable(p *podPlan, before Amounts) bool {
	for _, r := range recommender.Resources {
		if k.leavesMissing(p, r, min(before[r], k.needed[r], k.available[r])) {
			return false
		}
	}
	return true
}
