package node

import (
	"cmp"
	"slices"

	"attune.io/attune/recommender"
)

// Why a container or pod holds something else than its share.
type Why string

// Reasons why it holds more and is not lowered, which may go on for long.
const (
	// HeldFrozen: it may not be changed now.
	HeldFrozen Why = "Frozen"
	// HeldRestarts: to lower it would restart the container.
	HeldRestarts Why = "RestartContainer"
	// HeldLeast: its policy allows no less.
	HeldLeast Why = "MinAllowed"
)

// Holder is a pod that keeps others below their base demands by what it holds above its share.
type Holder struct {
	// Pod is its index among the pods, Name its name.
	Pod  int
	Name string
	// Resource of which it holds more than its share, by how much, and why.
	Resource recommender.Resource
	Above    recommender.Amount
	Why      Why
}

// Holders are the pods that keep others below their base demands by what they hold above their shares, after Settle: no
// pod is evicted for that, so a person has to be told. Those of CPU come first, then those that hold most. There are none
// where every container that may be raised has its base.
func Holders(pods []Pod, shared Result, next []Grant) []Holder {
	var holders []Holder
	for _, r := range recommender.Resources {
		if lackBase(pods, shared, next, r) {
			holders = append(holders, holdersOf(pods, shared, next, r)...)
		}
	}
	return holders
}

// lackBase: a container that stays and may be raised is to hold less than its base, by more than is worth no raise.
func lackBase(pods []Pod, shared Result, next []Grant, r recommender.Resource) bool {
	gone := map[int]bool{}
	for _, v := range shared.Evictions {
		gone[v.Pod] = true
	}
	k := 0
	for i := range pods {
		p := &pods[i]
		for j := range p.Containers {
			c, has := &p.Containers[j], next[k].Request[r]
			if !gone[i] && !p.fixed(c, r) && farAbove(r, has, c.attainable(p.Asks(c, r).Base, r)) {
				return true
			}
			k++
		}
	}
	return false
}

func holdersOf(pods []Pod, shared Result, next []Grant, r recommender.Resource) []Holder {
	var holders []Holder
	k := 0
	for i := range pods {
		h := Holder{Pod: i, Name: pods[i].Name, Resource: r}
		for j := range pods[i].Containers {
			above, why := pods[i].above(&pods[i].Containers[j], &shared.Grants[k], next[k], r)
			if h.Above += above; above > 0 {
				h.Why = why
			}
			k++
		}
		if h.Above > 0 {
			holders = append(holders, h)
		}
	}
	slices.SortFunc(holders, func(a, b Holder) int {
		return cmp.Or(cmp.Compare(b.Above, a.Above), cmp.Compare(a.Name, b.Name))
	})
	return holders
}

// above is what the container keeps above its share, unless only because it was lowered lately.
func (p *Pod) above(c *Container, g *Grant, next Grant, r recommender.Resource) (recommender.Amount, Why) {
	share := g.share(r)
	switch {
	case p.Frozen:
		return max(0, next.Request[r]-share), HeldFrozen
	case c.Restarts[r]:
		return max(0, next.Request[r]-share), HeldRestarts
	default:
		return max(0, min(next.Request[r], c.Least[r])-share), HeldLeast
	}
}
