package node_test

import (
	"cmp"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	. "attune.io/attune/recommender/node"
)

// The oracle computes in fractions, from the written rules, regardless of cost.

type oracle struct {
	available Amounts
	pods      []Pod
	// capped: every container counts with at most the amount that it can have now.
	capped bool
}

// entered is a pod's demand of one resource after the rules of entry: base', spike', and its containers' demands.
type entered struct {
	base, spike int64
	bases       []int64
	spikes      []int64
}

func (o oracle) enter(i int, r recommender.Resource) (e entered) {
	p := o.pods[i]
	var base, peak int64
	for _, c := range p.Containers {
		b := int64(c.Of[r].Base)
		top := max(b, int64(c.Of[r].Peak))
		if createdWith := int64(c.AtCreation[r]); p.DaemonSet && createdWith > 0 {
			b, top = min(b, createdWith), min(top, createdWith)
			if r == cpu {
				top = b
			}
		}
		if o.capped && (p.Frozen || c.Restarts[r]) {
			b, top = min(b, int64(c.Current[r])), min(top, int64(c.Current[r]))
		} else if o.capped {
			b, top = reached(c, r, b), reached(c, r, top)
		}
		base, peak = base+b, peak+top
		e.bases, e.spikes = append(e.bases, b), append(e.spikes, top-b)
	}
	e.base = max(base, int64(p.InitRequest[r]))
	e.spike = max(0, peak-e.base)
	return e
}

// reached is the part of an amount that a container can have now; it can always have its current request.
func reached(c Container, r recommender.Resource, amount int64) int64 {
	if reach := int64(c.Reach[r]); reach > 0 {
		return min(amount, max(int64(c.Current[r]), reach))
	}
	return amount
}

// reserve is the largest group's spike without the evicted pods.
func (o oracle) reserve(gone map[int]bool) int64 {
	groups := map[string]int64{}
	for i, p := range o.pods {
		if gone[i] {
			continue
		}
		name := "group " + p.Group
		if p.Group == "" {
			name = "pod " + p.Name
		}
		groups[name] += o.enter(i, cpu).spike
	}
	var most int64
	for _, spike := range groups {
		most = max(most, spike)
	}
	return most
}

func (o oracle) fits(r recommender.Resource, gone map[int]bool) bool {
	var need int64
	for i := range o.pods {
		if e := o.enter(i, r); !gone[i] {
			need += e.base
			if r == memory {
				need += e.spike
			}
		}
	}
	if r == cpu {
		need += o.reserve(gone)
	}
	return need <= int64(o.available[r])
}

func (o oracle) allFit(gone map[int]bool) bool { return o.fits(cpu, gone) && o.fits(memory, gone) }

// evict chooses greedily, then cancels unneeded evictions.
func (o oracle) evict() (order []int, ok bool) {
	gone := map[int]bool{}
	for _, r := range []recommender.Resource{memory, cpu} {
		for !o.fits(r, gone) {
			next := -1
			for i := range o.pods {
				if !gone[i] && !o.pods[i].DaemonSet && o.pods[i].Ranking != Never && (next < 0 || o.before(r, i, next)) {
					next = i
				}
			}
			if next < 0 {
				return nil, false
			}
			gone[next] = true
			order = append(order, next)
		}
	}
	for _, i := range slices.Backward(slices.Clone(order)) {
		delete(gone, i)
		if o.allFit(gone) {
			order = slices.DeleteFunc(order, func(j int) bool { return j == i })
		} else {
			gone[i] = true
		}
	}
	return order, true
}

func (o oracle) before(r recommender.Resource, i, j int) bool {
	return cmp.Or(
		cmp.Compare(o.pods[i].Ranking, o.pods[j].Ranking),
		cmp.Compare(o.enter(j, r).spike, o.enter(i, r).spike),
		cmp.Compare(o.pods[i].Name, o.pods[j].Name),
	) < 0
}

// share is the complete result.
func (o oracle) share() Result {
	var result Result
	gone := map[int]bool{}
	if !o.allFit(nil) {
		order, _ := oracle{o.available, o.pods, true}.evict()
		for _, i := range order {
			if !o.pods[i].Frozen {
				gone[i] = true
				result.Evictions = append(result.Evictions, Eviction{Name: o.pods[i].Name})
			}
		}
	}
	result.Overcommitted = [2]bool{!o.fits(cpu, gone), !o.fits(memory, gone)}
	reserve, shared := o.reserve(gone), int64(0)
	for i := range o.pods {
		if !gone[i] {
			shared += o.enter(i, cpu).spike
		}
	}
	finals := make([][2][]int64, len(o.pods))
	for i, p := range o.pods {
		c, m := o.enter(i, cpu), o.enter(i, memory)
		for j := range p.Containers {
			finals[i][cpu] = append(finals[i][cpu], int64(c.grant(j, reserve, shared)))
			finals[i][memory] = append(finals[i][memory], m.bases[j]+m.spikes[j])
		}
	}
	granted := [2][][]int64{}
	for _, r := range recommender.Resources {
		granted[r] = o.ration(r, finals, gone, !result.Overcommitted[r])
	}
	if !result.Overcommitted[cpu] {
		o.lend(granted[cpu], reserve, gone)
	}
	for i, p := range o.pods {
		for j := range p.Containers {
			var g Grant
			if !gone[i] {
				g.Request = Amounts{recommender.Amount(granted[cpu][i][j]), recommender.Amount(granted[memory][i][j])}
			}
			result.Grants = append(result.Grants, g)
		}
	}
	return result
}

// keeps is the amount that a container keeps with this grant in any case.
func (o oracle) keeps(i, j int, r recommender.Resource, final int64) int64 {
	c := o.pods[i].Containers[j]
	current := int64(c.Current[r])
	if o.pods[i].Frozen || c.Restarts[r] {
		return current
	}
	return max(min(current, final), min(current, int64(c.Least[r])))
}

// ration divides the room among the shares. If they fit, each container gets its share. Otherwise each keeps the part
// of its share that it holds, and the rest goes to the bases first, then to the shares; in proportion, rounded down to
// whole millicores and MiB.
func (o oracle) ration(r recommender.Resource, finals [][2][]int64, gone map[int]bool, fits bool) [][]int64 {
	type level struct{ low, base, top []int64 }
	levels := make([]level, len(o.pods))
	room, lacking, missing := int64(o.available[r]), int64(0), int64(0)
	pod := func(i int, of []int64) int64 { return max(sum(of), int64(o.pods[i].InitRequest[r])) }
	granted := make([][]int64, len(o.pods))
	for i, p := range o.pods {
		e := o.enter(i, r)
		granted[i] = slices.Clone(finals[i][r])
		for j := range p.Containers {
			low := o.keeps(i, j, r, finals[i][r][j])
			top := max(low, reached(p.Containers[j], r, finals[i][r][j]))
			if p.Frozen || p.Containers[j].Restarts[r] {
				top = low
			}
			levels[i].low = append(levels[i].low, low)
			levels[i].base = append(levels[i].base, min(top, max(low, e.bases[j])))
			levels[i].top = append(levels[i].top, top)
		}
		if !gone[i] {
			low, base, top := pod(i, levels[i].low), pod(i, levels[i].base), pod(i, levels[i].top)
			room, lacking, missing = room-low, lacking+base-low, missing+top-base
		}
	}
	if fits {
		return granted
	}
	for i := range o.pods {
		l := levels[i]
		has := split(pod(i, l.low), pod(i, l.base), pod(i, l.top), room, lacking, missing)
		for j := range l.low {
			part := split(l.low[j], l.base[j], l.top[j], has-sum(l.low), sum(l.base)-sum(l.low), sum(l.top)-sum(l.base))
			if part < l.top[j] {
				part = max(l.low[j], int64(r.WholeDown(recommender.Amount(part))))
			}
			granted[i][j] = min(granted[i][j], part)
		}
	}
	return granted
}

// split is one container's part of the room: lacking is the total gap to the bases, missing the total gap above them.
func split(low, base, top, room, lacking, missing int64) int64 {
	part := func(a, b, of int64) int64 {
		if of == 0 || b <= 0 {
			return 0
		}
		whole := new(big.Rat).Mul(big.NewRat(a, 1), big.NewRat(min(b, of), of))
		return new(big.Int).Quo(whole.Num(), whole.Denom()).Int64()
	}
	return low + part(base-low, room, lacking) + part(top-base, room-lacking, missing)
}

// lend gives DaemonSets the remaining CPU.
func (o oracle) lend(granted [][]int64, reserve int64, gone map[int]bool) {
	room := int64(o.available[cpu]) - reserve
	lacking := int64(0)
	lacks := make([][]int64, len(o.pods))
	for i, p := range o.pods {
		e := o.enter(i, cpu)
		lacks[i] = make([]int64, len(p.Containers))
		if gone[i] {
			continue
		}
		keeps := slices.Clone(granted[i])
		for j := range p.Containers {
			keeps[j] = max(keeps[j], o.keeps(i, j, cpu, granted[i][j]))
			if p.DaemonSet {
				lacks[i][j] = max(0, int64(p.Containers[j].Of[cpu].Base)-e.bases[j])
			}
		}
		init := int64(p.InitRequest[cpu])
		room -= e.base + max(init, sum(keeps)) - max(init, sum(granted[i]))
		lacking += sum(lacks[i])
	}
	for i := range granted {
		for j := range granted[i] {
			granted[i][j] = split(granted[i][j], granted[i][j]+lacks[i][j], granted[i][j]+lacks[i][j], room, lacking, 0)
		}
	}
}

func sum(amounts []int64) (all int64) {
	for _, a := range amounts {
		all += a
	}
	return all
}

// grant of CPU: the pod gets base' + reserve × spike' / Σ spike', up to its peak. Its containers share the part above
// their bases in proportion to their spikes.
func (e entered) grant(j int, reserve, shared int64) recommender.Amount {
	var bases, spikes int64
	for k := range e.bases {
		bases, spikes = bases+e.bases[k], spikes+e.spikes[k]
	}
	if spikes == 0 {
		return recommender.Amount(e.bases[j])
	}
	has := new(big.Rat).SetInt64(e.base)
	if shared > 0 {
		part := big.NewRat(e.spike, shared)
		has.Add(has, part.Mul(part, new(big.Rat).SetInt64(reserve)))
	}
	if peak := new(big.Rat).SetInt64(bases + spikes); has.Cmp(peak) > 0 {
		has = peak
	}
	climb := has.Sub(has, new(big.Rat).SetInt64(bases))
	climb.Mul(climb, big.NewRat(e.spikes[j], spikes))
	down := new(big.Int).Quo(climb.Num(), climb.Denom())
	return recommender.Amount(e.bases[j] + down.Int64())
}

func TestShareIsTheOracles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var sharer Sharer
	seen := map[string]int{}
	for range 8000 {
		available, pods := randomNode(rng, 10)
		freeze(rng, pods)
		if rng.IntN(2) == 0 {
			available[memory] *= mi
			for i := range pods {
				inMi(&pods[i])
			}
		}
		got, want := sharer.Share(available, pods), oracle{available, pods, false}.share()
		require.Equal(t, want.Overcommitted, got.Overcommitted, "%v %+v", available, pods)
		require.Equal(t, evicted(want), evicted(got), "%v %+v", available, pods)
		for i := range want.Grants {
			require.Equal(t, want.Grants[i].Request, got.Grants[i].Request, "container %d: %v %+v", i, available, pods)
		}
		seen[outcome(got)]++
		if slices.ContainsFunc(got.Grants, func(g Grant) bool { return g.Spare > 0 }) {
			seen["lends"]++
		}
		if want.Overcommitted != [2]bool{} && (oracle{available, pods, true}).allFit(nil) {
			seen["lacks what is frozen"]++
		}
	}
	for _, outcome := range []string{"fits", "evicts", "overcommitted", "lends", "lacks what is frozen"} {
		assert.Greater(t, seen[outcome], 300, "%s: the nodes are too much alike", outcome)
	}
}

func outcome(r Result) string {
	switch {
	case r.Overcommitted != [2]bool{}:
		return "overcommitted"
	case len(r.Evictions) > 0:
		return "evicts"
	}
	return "fits"
}

// The test tries all sets of pods that could be evicted. A set is sufficient if the other pods fit. Then:
//
//   - without a sufficient set, no pod is evicted, and the node is overcommitted if it does not fit;
//   - no eviction is unneeded: no sufficient set is a proper subset of the answer;
//   - lower rankings come first: for each ranking, no sufficient set contains only a proper subset of the answer's
//     pods of that ranking and above. So the answer spares a High pod if evicting any Low and Medium pods in addition
//     to the rest of the answer would suffice.
func TestEvictionsAgainstEverySet(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	evictions := 0
	for range 4000 {
		available, pods := randomNode(rng, 10)
		got := Share(available, pods)
		o := oracle{available, pods, false}
		answer := 0
		for _, v := range got.Evictions {
			require.False(t, pods[v.Pod].DaemonSet || pods[v.Pod].Ranking == Never, "a protected pod")
			answer |= 1 << v.Pod
		}
		sets := o.setsThatDo()
		if len(sets) == 0 {
			require.Zero(t, answer)
			require.NotEqual(t, [2]bool{}, got.Overcommitted)
			continue
		}
		require.Equal(t, [2]bool{}, got.Overcommitted)
		require.Contains(t, sets, answer)
		evictions += len(got.Evictions)
		for ranking := Low; ranking <= High; ranking++ {
			mask := o.ranked(ranking)
			for set := range sets {
				part := set&mask&^answer == 0 && set&mask != answer&mask
				require.False(t, part, "%b goes, %b would do: from %v up of %v %+v", answer, set, ranking, available, pods)
			}
		}
	}
	assert.Greater(t, evictions, 2000)
}

// setsThatDo are all sufficient sets, as bits, of unprotected pods.
func (o oracle) setsThatDo() map[int]bool {
	protected := 0
	for i, p := range o.pods {
		if p.DaemonSet || p.Ranking == Never {
			protected |= 1 << i
		}
	}
	sets := map[int]bool{}
	need := o.needs()
	for set := range 1 << len(o.pods) {
		if set&protected == 0 && need.fit(o.available, set) {
			sets[set] = true
		}
	}
	return sets
}

// ranked are the pods of a ranking or a higher one, as bits.
func (o oracle) ranked(least Ranking) int {
	set := 0
	for i, p := range o.pods {
		if p.Ranking >= least {
			set |= 1 << i
		}
	}
	return set
}

// needs of every pod, computed once for all sets.
type needs struct {
	base, spike, memory []int64
	group               []int
}

func (o oracle) needs() (n needs) {
	groups := map[string]int{}
	for i, p := range o.pods {
		c, m := o.enter(i, cpu), o.enter(i, memory)
		n.base, n.spike, n.memory = append(n.base, c.base), append(n.spike, c.spike), append(n.memory, m.base+m.spike)
		name := "group " + p.Group
		if p.Group == "" {
			name = "pod " + p.Name
		}
		if _, ok := groups[name]; !ok {
			groups[name] = len(groups)
		}
		n.group = append(n.group, groups[name])
	}
	return n
}

func (n needs) fit(available Amounts, gone int) bool {
	var base, memories, reserve int64
	spikes := make([]int64, len(n.base))
	for i := range n.base {
		if gone&(1<<i) == 0 {
			base, memories = base+n.base[i], memories+n.memory[i]
			spikes[n.group[i]] += n.spike[i]
		}
	}
	for _, spike := range spikes {
		reserve = max(reserve, spike)
	}
	return base+reserve <= int64(available[cpu]) && memories <= int64(available[memory])
}
