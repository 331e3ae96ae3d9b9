package node

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"attune.io/attune/recommender"
)

// LoweredEvery is how long a pod that was lowered is not lowered again.
const LoweredEvery = 15 * time.Minute

// Settle says what each container is to hold next, in the order of the grants. The arguments are those of
// the sharing, and what came of it. A pod that is to be evicted keeps what it holds for as long as it is
// there.
//
// A raise up to the grant is made at once. A pod is lowered, in all that is above its grants, when one of
// its amounts is above by the dead band or more, and not within LoweredEvery of the last time. Three things
// keep the admission invariant, by which a pod that was admitted at its peak makes nobody go:
//   - the dead band gives way where somebody's raise needs the room, with those first who hold the most
//     above their grants;
//   - where the room is short all the same, because pods were lowered a moment ago, raises share it;
//   - together the pods hold what they need: the millicores that rounding down has left over stay with
//     those whose grants were rounded. A scheduler that sees them free gives them to a newcomer, who would
//     not fit for want of a millicore.
func Settle(available Amounts, pods []Pod, shared Result, now time.Time) []Grant {
	s := settlement{available: available, pods: pods, grants: shared.Grants}
	s.begin(shared, now)
	for _, r := range recommender.Resources {
		s.release(r)
		s.ration(r)
	}
	if !shared.Overcommitted[recommender.CPU] {
		s.fill(shared.Needed[recommender.CPU])
	}
	return s.next
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

// farBelow: the grant is below what the container holds by the dead band or more.
func (c *Container) farBelow(g Grant) bool {
	far := func(live, target recommender.Amount) bool {
		return target < live && !recommender.WithinDeadBand(live, target)
	}
	return far(c.Current[0], g.Request[0]) || far(c.Current[1], g.Request[1]) ||
		g.MemoryLimit > 0 && far(c.CurrentLimit, g.MemoryLimit)
}

// raised is a container's next size when nothing of it is lowered.
func (c *Container) raised(g Grant) Grant {
	next := Grant{Rounded: g.Rounded}
	for _, r := range recommender.Resources {
		next.Request[r] = max(c.Current[r], g.Request[r])
	}
	next.MemoryLimit = max(c.CurrentLimit, g.MemoryLimit)
	return next
}

type settlement struct {
	available    Amounts
	pods         []Pod
	grants, next []Grant
	// first is the index of each pod's first container, bound says that the pod must not be lowered.
	first []int
	bound []bool
	// total is what the scheduler will count.
	total Amounts
}

// begin raises, and lowers what is to be lowered in any case.
func (s *settlement) begin(shared Result, now time.Time) {
	s.bound = make([]bool, len(s.pods))
	for i := range s.pods {
		p := &s.pods[i]
		s.first = append(s.first, len(s.next))
		s.bound[i] = !p.LastLowered.IsZero() && now.Sub(p.LastLowered) < LoweredEvery
		for j := range p.Containers {
			s.next = append(s.next, p.Containers[j].raised(s.grants[len(s.next)]))
		}
	}
	for _, v := range shared.Evictions {
		s.bound[v.Pod] = true
	}
	for i := range s.pods {
		far := false
		for j := range s.pods[i].Containers {
			far = far || s.pods[i].Containers[j].farBelow(s.grants[s.first[i]+j])
		}
		if far && !s.bound[i] {
			s.lower(i)
		}
		for _, r := range recommender.Resources {
			s.total[r] += s.counted(i, r)
		}
	}
}

// of is the pod's part of some sizes.
func (s *settlement) of(i int, sizes []Grant) []Grant {
	return sizes[s.first[i] : s.first[i]+len(s.pods[i].Containers)]
}

// lower takes a pod down to its grants. A limit that nothing is known for stays.
func (s *settlement) lower(i int) {
	next := s.of(i, s.next)
	for j, g := range s.of(i, s.grants) {
		if g.MemoryLimit == 0 {
			g.MemoryLimit = s.pods[i].Containers[j].CurrentLimit
		}
		next[j] = g
	}
}

// counted is what the scheduler will count for a pod.
func (s *settlement) counted(i int, r recommender.Resource) recommender.Amount {
	return s.pods[i].countedOf(s.of(i, s.next), r)
}

func (p *Pod) countedOf(sizes []Grant, r recommender.Resource) recommender.Amount {
	var requests recommender.Amount
	for _, g := range sizes {
		requests += g.Request[r]
	}
	return max(requests, p.InitRequest[r])
}

// held is what the pod holds above its grants, as the scheduler counts.
func (s *settlement) held(i int, r recommender.Resource) recommender.Amount {
	return s.counted(i, r) - s.pods[i].countedOf(s.of(i, s.grants), r)
}

// release lowers pods that the dead band has held, until the raises have room.
func (s *settlement) release(r recommender.Resource) {
	if s.total[r] <= s.available[r] {
		return
	}
	var held []int
	for i := range s.pods {
		if !s.bound[i] && s.held(i, r) > 0 {
			held = append(held, i)
		}
	}
	slices.SortFunc(held, func(a, b int) int {
		return cmp.Or(cmp.Compare(s.held(b, r), s.held(a, r)), cmp.Compare(s.pods[a].Name, s.pods[b].Name))
	})
	for _, i := range held {
		if s.total[r] <= s.available[r] {
			return
		}
		s.change(i, func() { s.lower(i) })
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

// ration shares what room there is among the raises.
func (s *settlement) ration(r recommender.Resource) {
	over := s.total[r] - s.available[r]
	if over <= 0 {
		return
	}
	var raises recommender.Amount
	for i := range s.pods {
		raises += max(0, s.raise(i, r))
	}
	for i := range s.pods {
		if s.raise(i, r) > 0 {
			s.change(i, func() { s.cut(i, r, max(0, raises-over), raises) })
		}
	}
}

// raise is how much more the scheduler will count for a pod.
func (s *settlement) raise(i int, r recommender.Resource) recommender.Amount {
	p := &s.pods[i]
	var now recommender.Amount
	for j := range p.Containers {
		now += p.Containers[j].Current[r]
	}
	return s.counted(i, r) - max(now, p.InitRequest[r])
}

// cut leaves the part num / den of the pod's raises, rounded down.
func (s *settlement) cut(i int, r recommender.Resource, num, den recommender.Amount) {
	next := s.of(i, s.next)
	for j := range next {
		current := s.pods[i].Containers[j].Current[r]
		if raise := next[j].Request[r] - current; raise > 0 {
			high, low := bits.Mul64(uint64(raise), uint64(num))
			part, _ := bits.Div64(high, low, uint64(den))
			next[j].Request[r] = current + recommender.Amount(part)
		}
	}
}

// fill leaves CPU with the pods until together they hold what they need: at most the millicore that a
// grant was rounded down by, and what rationing has rounded away.
func (s *settlement) fill(needed recommender.Amount) {
	const cpu = recommender.CPU
	for _, i := range s.byName() {
		for j := range s.pods[i].Containers {
			g, next := s.of(i, s.grants)[j], &s.of(i, s.next)[j]
			most := g.Request[cpu]
			if g.Rounded {
				most++
			}
			if more := min(needed-s.total[cpu], most-next.Request[cpu]); more > 0 {
				s.change(i, func() { next.Request[cpu] += more })
			}
		}
	}
}

func (s *settlement) byName() []int {
	order := make([]int, len(s.pods))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(s.pods[a].Name, s.pods[b].Name) })
	return order
}
