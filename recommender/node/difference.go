package node

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// Reasons why a container is to get something other than its share. The reasons of holders follow below.
const (
	// Evicted: its pod is to be evicted and keeps its current requests until then.
	Evicted Why = "Evicted"
	// SmallChange: the change is too small for a resize of its pod.
	SmallChange Why = "SmallChange"
	// LoweredLately: its pod was lowered less than LoweredEvery ago.
	LoweredLately Why = "LoweredLately"
	// ResizedLately: its pod was resized less than Rest ago and has its base of CPU and its memory.
	ResizedLately Why = "ResizedLately"
	// NoRoom: other pods hold the room that its raise needs. All raises divide the room that is free.
	NoRoom Why = "NoRoom"
	// KeepsRoom: it holds room that the pods need together and that no other pod holds now.
	KeepsRoom Why = "KeepsRoom"
	// NobodyElseNeedsIt: it gets room that no other pod needs.
	NobodyElseNeedsIt Why = "NobodyElseNeedsIt"
	// GivesWay: it belongs to a DaemonSet and does not get all spare room now.
	GivesWay Why = "GivesWay"
	// AmountsTooGreat: some amounts on the node are too large for exact sums, so no pod is changed.
	AmountsTooGreat Why = "AmountsTooGreat"
)

var sentences = map[Why]string{
	HeldFrozen:        "the pod cannot be changed now",
	HeldRestarts:      "its resizePolicy restarts the container",
	HeldLeast:         "its policy does not allow less",
	Evicted:           "its pod does not fit the node and keeps its current resources until it is evicted",
	SmallChange:       "the change is too small for a resize of its pod",
	LoweredLately:     "its pod was lowered recently",
	ResizedLately:     "its pod was resized recently and has its base demand of CPU and its memory",
	NoRoom:            "other pods still hold the room that it needs; the pods to raise divide the free room, base demands first",
	KeepsRoom:         "the pods together have what they need; it keeps room that other pods do not use yet, or that rounding left over",
	NobodyElseNeedsIt: "its policy does not allow less, and no other pod needs the room",
	GivesWay:          "a DaemonSet gets more than its share only from room that no other pod needs, if a resize is worth it; attune lowers it first",
	AmountsTooGreat:   "amounts on this node are too large for exact sums",
}

// Difference says why a container is to hold something other than its share of a resource. The zero value means that it
// is to hold its share.
type Difference struct {
	Why Why
	// Until is when the difference ends without further events; zero if unknown.
	Until time.Time
}

// Reason returns one sentence for people.
func (d Difference) Reason() string {
	switch {
	case d.Until.IsZero():
		return sentences[d.Why]
	case d.Why == LoweredLately:
		return fmt.Sprintf("%s, and is not lowered again before %s", sentences[d.Why], d.Until.UTC().Format(time.RFC3339))
	default:
		return fmt.Sprintf("%s; it follows its share again from %s", sentences[d.Why], d.Until.UTC().Format(time.RFC3339))
	}
}

// Differences returns the difference of each container, in the order of the grants. next is the result of Settle; the
// other arguments are the arguments of Settle. It costs as much as Settle.
func Differences(available Amounts, pods []Pod, shared Result, next []Grant, now time.Time) [][2]Difference {
	n := newNodePlan(available, pods, shared, now)
	exact := n.exact()
	if !exact {
		next = n.next
	}
	out := make([][2]Difference, 0, len(next))
	for i := range n.pods {
		p := &n.pods[i]
		p.next = next[len(out) : len(out)+len(p.Containers)]
		for j := range p.Containers {
			var of [2]Difference
			for _, r := range recommender.Resources {
				of[r] = comparison{p, &p.Containers[j], &p.next[j], &p.grants[j], r}.difference(exact)
			}
			out = append(out, of)
		}
	}
	return out
}

// comparison compares a container's next amount of a resource with its grant.
type comparison struct {
	pod       *podPlan
	container *Container
	next      *Grant
	grant     *Grant
	r         recommender.Resource
}

// difference from the grant. exact means that all sums of the node's amounts are exact.
func (x comparison) difference(exact bool) Difference {
	switch p := x.pod; {
	case p.kept && !p.Frozen:
		return Difference{Why: Evicted}
	case x.reached():
		return Difference{}
	case p.Frozen:
		return Difference{Why: HeldFrozen}
	case x.container.Restarts[x.r]:
		return Difference{Why: HeldRestarts}
	case !exact:
		return Difference{Why: AmountsTooGreat}
	}
	d := Difference{Why: x.why()}
	switch d.Why {
	case LoweredLately:
		d.Until = x.pod.LastLowered.Add(LoweredEvery)
	case ResizedLately:
		d.Until = x.pod.LastResized.Add(Rest)
	}
	return d
}

// reached reports whether the container is to hold its grant. If no limit is granted, any limit is accepted, because no
// limit is below its request.
func (x comparison) reached() bool {
	if x.next.Request[x.r] != x.grant.Request[x.r] {
		return false
	}
	return x.r != recommender.Memory || x.grant.MemoryLimit == 0 || x.next.MemoryLimit == x.grant.MemoryLimit
}

// why returns the reason why a container that may be changed differs from its grant.
func (x comparison) why() Why {
	switch p, to, granted := x.pod, x.next.Request[x.r], x.grant.Request[x.r]; {
	case p.resting && !p.changes():
		return ResizedLately
	case to > granted:
		return x.whyMore(to)
	case to < granted:
		return x.whyLess(to)
	case x.next.MemoryLimit > x.grant.MemoryLimit && p.lowered && p.farAboveGrant():
		return LoweredLately
	default:
		return SmallChange
	}
}

func (x comparison) whyMore(to recommender.Amount) Why {
	c := x.container
	switch current := c.Current[x.r]; {
	case to > current && to <= c.Least[x.r]:
		return NobodyElseNeedsIt
	case to <= c.protectedRequest(x.r):
		return HeldLeast
	case to == current && !x.pod.farAboveGrant():
		return SmallChange
	case to == current && x.pod.lowered:
		return LoweredLately
	default:
		return KeepsRoom
	}
}

func (x comparison) whyLess(to recommender.Amount) Why {
	switch p := x.pod; {
	case to >= x.grant.share(x.r):
		return GivesWay
	case to == x.container.Current[x.r] && !p.farBelowGrant() && (p.lowered || !p.farAboveGrant()):
		return SmallChange
	default:
		return NoRoom
	}
}

// Why is the reason why a container or pod holds something other than its share.
type Why string

// Reasons why a container holds more than its share and is not lowered. They may apply for a long time.
const (
	// HeldFrozen: its pod must not be changed now.
	HeldFrozen Why = "Frozen"
	// HeldRestarts: lowering the amount would restart the container.
	HeldRestarts Why = "RestartContainer"
	// HeldLeast: its policy sets this minimum.
	HeldLeast Why = "MinAllowed"
)

// Holder is a pod whose excess over its share leaves other pods below their base demands.
type Holder struct {
	// Pod is its index among the pods.
	Pod  int
	Name string
	// Resource of which it holds more than its share. Above is the excess.
	Resource recommender.Resource
	Above    recommender.Amount
	Why      Why
}

// Holders returns the pods whose excess over their shares leaves other pods below base after Settle. No pod is evicted
// for this, so an operator of the cluster must be informed. CPU comes first, then the largest excess. The result is
// empty if every container that may be raised has its base.
func Holders(pods []Pod, shared Result, next []Grant) []Holder {
	var holders []Holder
	for _, r := range recommender.Resources {
		if lackBase(pods, shared, next, r) {
			holders = append(holders, holdersOf(pods, shared, next, r)...)
		}
	}
	return holders
}

// lackBase reports whether a container that stays and may be raised is to hold less than its base, by more than the
// smallest raise worth a resize.
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

// above returns the excess of the container over its share. An excess that stays only because the pod was lowered
// recently does not count.
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
