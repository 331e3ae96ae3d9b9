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

// The oracle computes in fractions, from the rules as they are written down, without a thought for cost.

type oracle struct {
	available Amounts
	pods      []Pod
}

// entered is a pod's demand of one resource after the rules of entry: base', spike', and its containers'.
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
		if current := int64(c.Current[r]); p.DaemonSet && current > 0 {
			b, top = min(b, current), min(top, current)
			if r == cpu {
				top = b
			}
		}
		base, peak = base+b, peak+top
		e.bases, e.spikes = append(e.bases, b), append(e.spikes, top-b)
	}
	e.base = max(base, int64(p.InitRequest[r]))
	e.spike = max(0, peak-e.base)
	return e
}

// reserve is the largest group's spike without those who are gone.
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

// evict is the greedy choice, then the taking back.
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

// share is the whole answer.
func (o oracle) share() Result {
	var result Result
	gone := map[int]bool{}
	order, ok := o.evict()
	if !ok {
		result.Overcommitted = [2]bool{!o.fits(cpu, nil), !o.fits(memory, nil)}
	}
	for _, i := range order {
		gone[i] = true
		result.Evictions = append(result.Evictions, Eviction{Name: o.pods[i].Name})
	}
	reserve, shared := o.reserve(gone), int64(0)
	for i := range o.pods {
		if !gone[i] {
			shared += o.enter(i, cpu).spike
		}
	}
	for i, p := range o.pods {
		c, m := o.enter(i, cpu), o.enter(i, memory)
		for j := range p.Containers {
			var g Grant
			if !gone[i] {
				g.Request = Amounts{c.grant(j, reserve, shared), recommender.Amount(m.bases[j] + m.spikes[j])}
				for _, r := range recommender.Resources {
					if current := p.Containers[j].Current[r]; result.Overcommitted[r] && current > 0 {
						g.Request[r] = min(g.Request[r], current)
					}
				}
			}
			result.Grants = append(result.Grants, g)
		}
	}
	return result
}

// grant of CPU: the pod has base' + reserve × spike' / Σ spike', up to its peak, and its containers share
// what that is above their bases in proportion to their spikes.
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
	for range 6000 {
		available, pods := randomNode(rng, 10)
		got, want := sharer.Share(available, pods), oracle{available, pods}.share()
		require.Equal(t, want.Overcommitted, got.Overcommitted, "%v %+v", available, pods)
		require.Equal(t, evicted(want), evicted(got), "%v %+v", available, pods)
		for i := range want.Grants {
			require.Equal(t, want.Grants[i].Request, got.Grants[i].Request, "container %d: %v %+v", i, available, pods)
		}
		seen[outcome(got)]++
	}
	for _, outcome := range []string{"fits", "evicts", "overcommitted"} {
		assert.Greater(t, seen[outcome], 500, "%s: the nodes are too much alike", outcome)
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

// All sets of pods that could go are tried. A set does if the others fit. Of those sets:
//
//   - if there is none, nobody goes, and the node is overcommitted if it does not fit as it is;
//   - nobody goes needlessly: no set that does is a part of the answer but less than it;
//   - nobody of a higher ranking goes before one of a lower: for each ranking, no set that does takes of
//     that ranking and those above it a part, but less than the whole, of whom the answer takes of them.
//     So the answer spares a High pod wherever its going could be avoided by that of any Low and Medium
//     ones in addition to the rest of the answer.
func TestEvictionsAgainstEverySet(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	evictions := 0
	for range 4000 {
		available, pods := randomNode(rng, 10)
		got := Share(available, pods)
		o := oracle{available, pods}
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

// setsThatDo are all sets, as bits, of unprotected pods without which the others fit.
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
