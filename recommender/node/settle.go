package node

import (
	"cmp"
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// LoweredEvery is how long a pod that was lowered is not lowered again, whoever waits for its room.
const LoweredEvery = 15 * time.Minute

// Rest is how long a pod that was resized, and holds what it always needs, is left as it is where nobody waits for its
// room. Shares move with each look; to follow them all would write to the API server for little.
const Rest = 90 * time.Minute

// Pace is the least time between two resizes of a pod: at most eight in an hour.
const Pace = 8 * time.Minute

// Paced: the pod was resized within Pace, and is frozen until it is over.
func Paced(resized, now time.Time) bool { return lately(resized, now, Pace) }

// raiseBand is the percentage below which a raise is worth no resize.
var raiseBand = [2]recommender.Amount{recommender.CPU: 5, recommender.Memory: 2}

// Settle says what each container is to hold next, in the order of the grants. The arguments are those of
// the sharing, and what came of it. A frozen pod keeps what it holds, and so does one that is to be evicted, for
// as long as it is there, and of any pod what restarts its container.
//
// A raise up to the grant is made at once, unless all of the pod's are small. A pod is lowered, in all that is
// above its grants, when one of its amounts is above by the dead band or more, and not within LoweredEvery of
// the last time, also where somebody waits for it. A pod that was resized within Rest is neither raised nor lowered
// while it holds its CPU's base and its memory. These things keep the admission invariant, by which a pod
// that was admitted at its peak makes nobody go:
//   - where somebody's raise needs room, first raises end at what their pods can have (Reach), then DaemonSets give way
//     with what they were lent, then the dead band and those that rest, with those first who hold the most above their
//     grants;
//   - where the room is short all the same, because pods are frozen or were lowered a moment ago, raises share
//     it, bases first;
//   - together the pods hold what they need, or all that there is. A scheduler that sees less gives it to a
//     newcomer, who would not fit: because grants are rounded down, because small raises are left out, or because
//     it is owed to somebody who is frozen. What is missing stays with those that are changed anyway, up to
//     their grants, then with those that would be lowered, then it raises those that lack most: so the fewest
//     pods are changed.
//
// Where somebody is to go, those who wait for the room are resized before only where that gives them much: a resize is
// watched, and who is watched claims no more than he holds.
//
// What is left then goes to DaemonSets, and to those who hold less than their policies allow. Where somebody holds
// an amount that does not add up exactly, nobody is changed.
func Settle(available Amounts, pods []Pod, shared Result, now time.Time) []Grant {
	s := newSettlement(available, pods, shared, now)
	if s.absurd() {
		return s.next
	}
	s.recount()
	s.before = s.total
	for i := range pods {
		s.move(i)
	}
	s.recount()
	s.steps(s.reach, s.release, s.ration, s.fill)
	s.leaveTrifles()
	s.await()
	s.steps(s.spread)
	s.limits()
	return s.next
}

// steps of both resources, one after the other.
func (s *settlement) steps(all ...func(recommender.Resource)) {
	for _, step := range all {
		for _, r := range recommender.Resources {
			step(r)
		}
	}
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

// share is the grant without what is lent.
func (g *Grant) share(r recommender.Resource) recommender.Amount {
	if r == recommender.CPU {
		return g.Request[r] - g.Spare
	}
	return g.Request[r]
}

// own is what the container keeps above its grant, because its policy allows no less.
func (c *Container) own(r recommender.Resource) recommender.Amount {
	return min(c.Current[r], c.Least[r])
}

// within keeps what is available to what adds up exactly. It is below zero where others hold more than there is.
func within(available recommender.Amount) recommender.Amount {
	return min(max(available, -mostSum), mostSum)
}

type settlement struct {
	available, needed Amounts
	overcommitted     [2]bool
	pods              []Pod
	grants, next      []Grant
	// first is the index of each pod's first container. still says that the pod keeps what it holds, bound
	// that it must not be lowered, rests that it is changed for others only.
	first               []int
	still, bound, rests []bool
	// going: somebody is to go.
	going bool
	// total is what the scheduler will count, before what it counts now.
	total, before Amounts
}

func newSettlement(available Amounts, pods []Pod, shared Result, now time.Time) *settlement {
	s := &settlement{
		available: Amounts{within(available[0]), within(available[1])}, needed: shared.Needed, overcommitted: shared.Overcommitted, pods: pods, grants: shared.Grants,
		still: make([]bool, len(pods)), bound: make([]bool, len(pods)), rests: make([]bool, len(pods)),
	}
	for i := range pods {
		p := &pods[i]
		s.first = append(s.first, len(s.next))
		s.still[i] = p.Frozen
		s.bound[i] = lately(p.LastLowered, now, LoweredEvery)
		for j := range p.Containers {
			c := &p.Containers[j]
			s.next = append(s.next, Grant{Request: c.Current, MemoryLimit: c.CurrentLimit})
		}
	}
	s.going = len(shared.Evictions) > 0
	for _, v := range shared.Evictions {
		s.still[v.Pod] = true
	}
	for i := range pods {
		s.rests[i] = lately(pods[i].LastResized, now, Rest) && !s.wanting(i)
	}
	return s
}

// lately: it happened, less than so long ago. What a clock that was ahead has noted did not.
func lately(at, now time.Time, ago time.Duration) bool {
	since := now.Sub(at)
	return !at.IsZero() && since >= 0 && since < ago
}

// wanting: a container holds less than it always needs: its base of CPU, all of its grant of memory.
func (s *settlement) wanting(i int) bool {
	grants := s.of(i, s.grants)
	return s.any(i, func(j int, c *Container, r recommender.Resource) bool {
		if r == recommender.Memory {
			return farAbove(r, c.Current[r], grants[j].Request[r]) || farAbove(r, c.CurrentLimit, grants[j].MemoryLimit)
		}
		base := min(c.Of[r].Base, grants[j].share(r))
		return base > c.Current[r] && !recommender.WithinDeadBand(c.Current[r], base)
	})
}

// of is the pod's part of some sizes.
func (s *settlement) of(i int, sizes []Grant) []Grant {
	return sizes[s.first[i] : s.first[i]+len(s.pods[i].Containers)]
}

// move gives a pod its grants, as far as that is worth a resize.
func (s *settlement) move(i int) {
	if s.still[i] || s.rests[i] {
		return
	}
	lowers := !s.bound[i] && s.far(i)
	if lowers {
		s.lower(i)
	}
	if lowers || s.rises(i) {
		s.raise(i)
	}
}

// far: a grant is below what a container holds by the dead band or more.
func (s *settlement) far(i int) bool {
	grants := s.of(i, s.grants)
	return s.any(i, func(j int, c *Container, r recommender.Resource) bool {
		return farBelow(c.Current[r], max(grants[j].Request[r], c.own(r))) ||
			r == recommender.Memory && grants[j].MemoryLimit > 0 && farBelow(c.CurrentLimit, grants[j].MemoryLimit)
	})
}

// rises: a grant is above what a container holds by more than a little.
func (s *settlement) rises(i int) bool {
	grants := s.of(i, s.grants)
	return s.any(i, func(j int, c *Container, r recommender.Resource) bool {
		return farAbove(r, c.Current[r], grants[j].share(r)) ||
			r == recommender.Memory && farAbove(r, c.CurrentLimit, grants[j].MemoryLimit)
	})
}

func farBelow(live, target recommender.Amount) bool {
	return target < live && !recommender.WithinDeadBand(live, target)
}

func farAbove(r recommender.Resource, live, target recommender.Amount) bool {
	return target > live && (target-live)*100 >= live*raiseBand[r]
}

// any of a pod's amounts that may be changed.
func (s *settlement) any(i int, is func(j int, c *Container, r recommender.Resource) bool) bool {
	p := &s.pods[i]
	for j := range p.Containers {
		for _, r := range recommender.Resources {
			if c := &p.Containers[j]; !p.fixed(c, r) && is(j, c, r) {
				return true
			}
		}
	}
	return false
}

// each visits a pod's amounts that may be changed.
func (s *settlement) each(i int, visit func(j int, c *Container, r recommender.Resource)) {
	s.any(i, func(j int, c *Container, r recommender.Resource) bool {
		visit(j, c, r)
		return false
	})
}

// raise a pod to its shares.
func (s *settlement) raise(i int) {
	next, grants := s.of(i, s.next), s.of(i, s.grants)
	s.each(i, func(j int, _ *Container, r recommender.Resource) {
		next[j].Request[r] = max(next[j].Request[r], grants[j].share(r))
		if r == recommender.Memory {
			next[j].MemoryLimit = max(next[j].MemoryLimit, grants[j].MemoryLimit)
		}
	})
}

// lower a pod to its shares. A limit that nothing is known for stays.
func (s *settlement) lower(i int) {
	next, grants := s.of(i, s.next), s.of(i, s.grants)
	s.each(i, func(j int, c *Container, r recommender.Resource) {
		next[j].Request[r] = min(next[j].Request[r], max(grants[j].share(r), c.own(r)))
		if r == recommender.Memory && grants[j].MemoryLimit > 0 {
			next[j].MemoryLimit = min(next[j].MemoryLimit, grants[j].MemoryLimit)
		}
	})
}

// limits are not below their requests.
func (s *settlement) limits() {
	for k := range s.next {
		if g := &s.next[k]; g.MemoryLimit > 0 {
			g.MemoryLimit = max(g.MemoryLimit, g.Request[recommender.Memory])
		}
	}
}

// counted is what the scheduler will count for a pod.
func (s *settlement) counted(i int, r recommender.Resource) recommender.Amount {
	return s.sum(i, r, func(j int) recommender.Amount { return s.of(i, s.next)[j].Request[r] })
}

// sum of amounts of a pod's containers, as the scheduler counts it.
func (s *settlement) sum(i int, r recommender.Resource, of func(j int) recommender.Amount) recommender.Amount {
	var sum recommender.Amount
	for j := range s.pods[i].Containers {
		sum += of(j)
	}
	return max(sum, s.pods[i].InitRequest[r])
}

func (s *settlement) recount() {
	s.total = Amounts{}
	for i := range s.pods {
		for _, r := range recommender.Resources {
			s.total[r] += s.counted(i, r)
		}
	}
}

// change keeps the totals while it changes a pod.
func (s *settlement) change(i int, change func()) {
	for _, r := range recommender.Resources {
		s.total[r] -= s.counted(i, r)
	}
	change()
	for _, r := range recommender.Resources {
		s.total[r] += s.counted(i, r)
	}
}

// changes: the pod is written to.
func (s *settlement) changes(i int) bool {
	next := s.of(i, s.next)
	for j := range next {
		c := &s.pods[i].Containers[j]
		if next[j].Request != c.Current || next[j].MemoryLimit != c.CurrentLimit {
			return true
		}
	}
	return false
}

// by are the pods of which there is something, the most first, of those by name.
func (s *settlement) by(much func(i int) recommender.Amount) []int {
	var order []int
	of := make([]recommender.Amount, len(s.pods))
	for i := range s.pods {
		if s.still[i] {
			continue
		}
		if of[i] = much(i); of[i] > 0 {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(of[b], of[a]), cmp.Compare(s.pods[a].Name, s.pods[b].Name))
	})
	return order
}

// absurd: there is an amount, below zero or very great, with which sums are not exact.
func (s *settlement) absurd() bool {
	greatest := min(recommender.MaxAmount, mostSum/recommender.Amount(max(1, len(s.pods)+len(s.next))))
	within := func(amounts ...recommender.Amount) bool {
		for _, a := range amounts {
			if a < 0 || a > greatest {
				return false
			}
		}
		return true
	}
	for i := range s.pods {
		p := &s.pods[i]
		if !within(p.InitRequest[:]...) {
			return true
		}
		for j := range p.Containers {
			if c := &p.Containers[j]; !within(c.Current[:]...) || !within(c.Least[:]...) || !within(c.CurrentLimit/2) {
				return true
			}
		}
	}
	return false
}
