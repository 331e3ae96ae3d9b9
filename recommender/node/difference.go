package node

import (
	"fmt"
	"time"

	"attune.io/attune/recommender"
)

// Reasons why a container is to hold something else than its share, beside those of holders.
const (
	// Goes: its pod is to be evicted, and keeps what it holds until then.
	Goes Why = "Evicted"
	// Small: the change is worth no resize of its pod.
	Small Why = "SmallChange"
	// LoweredLately: its pod was lowered less than LoweredEvery ago.
	LoweredLately Why = "LoweredLately"
	// ResizedLately: its pod was resized less than Rest ago, and holds what it always needs.
	ResizedLately Why = "ResizedLately"
	// NoRoom: others hold the room that its raise needs, and those who are raised share what there is.
	NoRoom Why = "NoRoom"
	// Owed: it holds what the pods need together, and others do not hold now.
	Owed Why = "KeepsRoom"
	// Unneeded: it is given what nobody else needs.
	Unneeded Why = "NobodyElseNeedsIt"
	// Lent: a DaemonSet is not given now what nobody else needs.
	Lent Why = "GivesWay"
	// TooGreat: there are amounts on the node that do not add up exactly, so nobody is changed.
	TooGreat Why = "AmountsTooGreat"
)

var sentences = map[Why]string{
	HeldFrozen:    "it may not be changed now",
	HeldRestarts:  "its resizePolicy restarts its container",
	HeldLeast:     "its policy allows no less",
	Goes:          "its pod does not fit, and keeps what it holds for as long as it is there",
	Small:         "the change is too small to be worth a resize of its pod",
	LoweredLately: "its pod was lowered a while ago",
	ResizedLately: "its pod was resized a while ago, and holds what it always needs",
	NoRoom:        "others still hold the room that this takes; those who are raised share what there is, base demands first",
	Owed:          "together the pods hold what they need: it keeps room that others are owed and do not hold now, or what rounding has left over",
	Unneeded:      "its policy allows no less, and nobody else needs that room",
	Lent:          "beyond its share a DaemonSet gets what nobody else needs, where that is worth a resize, and is the first to give way",
	TooGreat:      "amounts on this node are so great that they do not add up exactly",
}

// Difference says why a container is to hold something else of a resource than its share. The zero value: it is to hold
// its share.
type Difference struct {
	Why Why
	// Until is when that passes by itself; zero: that is not known.
	Until time.Time
}

// Reason is one sentence.
func (d Difference) Reason() string {
	switch {
	case d.Until.IsZero():
		return sentences[d.Why]
	case d.Why == LoweredLately:
		return fmt.Sprintf("%s, and is not lowered again before %s", sentences[d.Why], d.Until.UTC().Format(time.RFC3339))
	default:
		return fmt.Sprintf("%s; it follows its share again from %s on", sentences[d.Why], d.Until.UTC().Format(time.RFC3339))
	}
}

// Differences are those of each container, in the order of the grants. The arguments are those of Settle, and what came
// of it. It costs as much as Settle, so it is for those who ask.
func Differences(available Amounts, pods []Pod, shared Result, next []Grant, now time.Time) [][2]Difference {
	s := newSettlement(available, pods, shared, now)
	if s.absurd() {
		return s.differences(func(int, int, recommender.Resource) Why { return TooGreat })
	}
	s.next = next
	return s.differences(s.why)
}

func (s *settlement) differences(why func(i, j int, r recommender.Resource) Why) [][2]Difference {
	out := make([][2]Difference, 0, len(s.next))
	for i := range s.pods {
		for j := range s.pods[i].Containers {
			var of [2]Difference
			for _, r := range recommender.Resources {
				of[r] = s.difference(i, j, r, why)
			}
			out = append(out, of)
		}
	}
	return out
}

func (s *settlement) difference(i, j int, r recommender.Resource, why func(i, j int, r recommender.Resource) Why) Difference {
	p := &s.pods[i]
	switch to, g := s.of(i, s.next)[j], &s.of(i, s.grants)[j]; {
	case s.still[i] && !p.Frozen:
		return Difference{Why: Goes}
	case g.reached(to, r):
		return Difference{}
	case p.Frozen:
		return Difference{Why: HeldFrozen}
	case p.Containers[j].Restarts[r]:
		return Difference{Why: HeldRestarts}
	}
	d := Difference{Why: why(i, j, r)}
	switch d.Why {
	case LoweredLately:
		d.Until = p.LastLowered.Add(LoweredEvery)
	case ResizedLately:
		d.Until = p.LastResized.Add(Rest)
	}
	return d
}

// reached: a container that holds so much holds its grant. A limit that nothing is known for may be any, and none is
// below its request.
func (g *Grant) reached(to Grant, r recommender.Resource) bool {
	if to.Request[r] != g.Request[r] || r != recommender.Memory {
		return to.Request[r] == g.Request[r]
	}
	return g.MemoryLimit == 0 || to.MemoryLimit == g.MemoryLimit
}

// why a container that may be changed differs from its grant.
func (s *settlement) why(i, j int, r recommender.Resource) Why {
	switch to, g := s.of(i, s.next)[j], &s.of(i, s.grants)[j]; {
	case s.rests[i] && !s.changes(i):
		return ResizedLately
	case to.Request[r] > g.Request[r]:
		return s.whyMore(i, j, r)
	case to.Request[r] < g.Request[r]:
		return s.whyLess(i, j, r)
	case to.MemoryLimit > g.MemoryLimit && s.bound[i] && s.far(i):
		return LoweredLately
	default:
		return Small
	}
}

func (s *settlement) whyMore(i, j int, r recommender.Resource) Why {
	c, to := &s.pods[i].Containers[j], s.of(i, s.next)[j].Request[r]
	switch {
	case to > c.Current[r] && to <= c.Least[r]:
		return Unneeded
	case to <= c.own(r):
		return HeldLeast
	case to == c.Current[r] && !s.far(i):
		return Small
	case to == c.Current[r] && s.bound[i]:
		return LoweredLately
	default:
		return Owed
	}
}

func (s *settlement) whyLess(i, j int, r recommender.Resource) Why {
	c, to, g := &s.pods[i].Containers[j], s.of(i, s.next)[j].Request[r], &s.of(i, s.grants)[j]
	switch {
	case to >= g.share(r):
		return Lent
	case to == c.Current[r] && !s.rises(i) && (s.bound[i] || !s.far(i)):
		return Small
	default:
		return NoRoom
	}
}
