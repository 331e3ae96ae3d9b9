package node_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	. "attune.io/attune/recommender/node"
)

// must is require.True, cheap enough for hundreds of thousands of checks.
func must(t *testing.T, holds bool, what string) {
	t.Helper()
	if !holds {
		t.Fatal(what)
	}
}

// checkSharing asserts the invariants of every result, for any input.
func checkSharing(t *testing.T, available Amounts, pods []Pod, got Result) {
	t.Helper()
	gone := map[int]bool{}
	for _, v := range got.Evictions {
		must(t, !pods[v.Pod].DaemonSet && pods[v.Pod].Ranking < Never, "a protected pod goes")
		must(t, !gone[v.Pod], "a pod goes twice")
		must(t, !pods[v.Pod].Frozen, "a frozen pod goes")
		gone[v.Pod] = true
	}
	fixed := slices.ContainsFunc(pods, isFixed)
	must(t, fixed || got.Overcommitted == [2]bool{} || len(gone) == 0, "somebody goes in vain")
	var total Amounts
	first := 0
	for i := range pods {
		grants := got.Grants[first : first+len(pods[i].Containers)]
		first += len(grants)
		checkPod(t, &pods[i], grants, gone[i], got.Overcommitted)
		for _, r := range recommender.Resources {
			if !gone[i] {
				total[r] += counted(&pods[i], grants, r)
			}
		}
	}
	must(t, len(got.Grants) == first, "a grant for each container")
	for _, r := range recommender.Resources {
		room := max(0, available[r])
		must(t, got.Overcommitted[r] || total[r] <= room, "more is granted than available")
		must(t, got.Overcommitted[r] || got.Needed[r] <= room, "more is needed than available")
	}
}

// sane bounds an amount so that it takes part unchanged.
func sane(a recommender.Amount) recommender.Amount { return min(max(a, 0), recommender.MaxAmount>>9) }

func checkPod(t *testing.T, p *Pod, grants []Grant, gone bool, over [2]bool) {
	t.Helper()
	for j, g := range grants {
		for _, r := range recommender.Resources {
			if gone {
				must(t, g.Request[r] == 0, "a grant for a pod that goes")
				continue
			}
			checkRequest(t, p, &p.Containers[j], g, r, over[r])
		}
		must(t, g.MemoryLimit == 0 || g.MemoryLimit >= g.Request[memory], "a limit below the request")
	}
}

// isFixed reports whether a part of the pod cannot be changed, or not be raised to its peak.
func isFixed(p Pod) bool {
	return p.Frozen || slices.ContainsFunc(p.Containers, func(c Container) bool { return c.Restarts != [2]bool{} || c.Reach != Amounts{} })
}

func checkRequest(t *testing.T, p *Pod, c *Container, g Grant, r recommender.Resource, over bool) {
	t.Helper()
	base := max(c.Of[r].Base, 0)
	peak, current := max(base, c.Of[r].Peak), max(c.Current[r], 0)
	must(t, g.Request[r] >= 0, "a negative amount")
	must(t, g.Request[r] <= peak, "above its peak")
	must(t, g.Spare >= 0 && (g.Spare == 0 || p.DaemonSet && g.Request[cpu] <= max(c.Of[cpu].Base, 0)), "lent to somebody else, or too much")
	if createdWith := c.AtCreation[r]; p.DaemonSet && createdWith > 0 {
		must(t, g.Request[r] <= base || r == memory, "a DaemonSet above its base")
		base, peak = min(base, createdWith), min(peak, createdWith)
	}
	if over {
		base, peak = min(base, current), min(peak, current)
	}
	must(t, g.Request[r] >= sane(base), "below its base, or what it holds of that")
	must(t, r == cpu || g.Request[r] >= sane(peak), "memory below its peak, or what it holds of that")
}

// counted is the amount that the scheduler counts for a pod.
func counted(p *Pod, grants []Grant, r recommender.Resource) recommender.Amount {
	var sum recommender.Amount
	for _, g := range grants {
		sum += g.Request[r]
	}
	return max(sum, p.InitRequest[r])
}

func TestProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 10_000 {
		available, pods := randomNode(rng, 40)
		freeze(rng, pods)
		checkSharing(t, available, pods, Share(available, pods))
	}
}

// The reserve is shared completely, except for rounding: grants plus rounding losses equal the need.
func TestTheReserveIsSharedWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 5000 {
		available, pods := randomNode(rng, 20)
		got := Share(available, pods)
		if outcome(got) != "fits" || slices.ContainsFunc(got.Grants, func(g Grant) bool { return g.Spare > 0 }) {
			continue
		}
		var total, rounded recommender.Amount
		for i := range pods {
			total += counted(&pods[i], grantsOf(got, pods, i), cpu)
		}
		for _, g := range got.Grants {
			if g.Rounded[cpu] {
				rounded++
			}
		}
		require.LessOrEqual(t, total, got.Needed[cpu])
		require.GreaterOrEqual(t, total+rounded, got.Needed[cpu])
	}
}

func TestOrderChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 10))
	var sharer Sharer
	for range 3000 {
		available, pods := randomNode(rng, 20)
		freeze(rng, pods)
		want := Share(available, pods)
		other := slices.Clone(pods)
		rng.Shuffle(len(other), func(i, j int) { other[i], other[j] = other[j], other[i] })
		got := sharer.Share(available, other)
		require.Equal(t, evicted(want), evicted(got))
		require.Equal(t, want.Overcommitted, got.Overcommitted)
		require.Equal(t, want.Needed, got.Needed)
		require.Equal(t, cpuByPod(want, pods), cpuByPod(got, other))
	}
}

// Absurd amounts cause no panic, no overflow and no negative amount.
func TestAbsurdAmounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(11, 12))
	absurd := []recommender.Amount{0, 1, -1, math.MinInt64, math.MaxInt64, math.MaxInt64 - 1, recommender.MaxAmount, recommender.MaxAmount - 1, 1 << 62, 1000}
	amount := func() recommender.Amount { return absurd[rng.IntN(len(absurd))] }
	for range 20_000 {
		available := Amounts{amount(), amount()}
		pods := make([]Pod, rng.IntN(6))
		for i := range pods {
			pods[i] = randomPod(rng, string(rune('a'+i)), amount)
			pods[i].Ranking = Ranking(rng.IntN(256))
		}
		freeze(rng, pods)
		got := Share(available, pods)
		checkSharing(t, available, clean(pods), got)
		for i := range got.Evictions {
			assert.NotEmpty(t, got.Evictions[i].Reason())
		}
	}
}

// clean removes negative init requests, which count as zero.
func clean(pods []Pod) []Pod {
	pods = slices.Clone(pods)
	for i := range pods {
		for _, r := range recommender.Resources {
			pods[i].InitRequest[r] = sane(pods[i].InitRequest[r])
		}
	}
	return pods
}

// Sums stay exact for many pods of absurd size.
func TestAbsurdlyMany(t *testing.T) {
	pods := make([]Pod, 5000)
	for i := range pods {
		pods[i] = pod(string(rune(i)), math.MaxInt64/2, math.MaxInt64, ranked(Never))
	}
	got := Share(Amounts{math.MaxInt64, math.MaxInt64}, pods)
	assert.Positive(t, got.Needed[cpu])
	for _, g := range got.Grants {
		require.Positive(t, g.Request[cpu])
	}
}

func FuzzShare(f *testing.F) {
	f.Add(uint64(1), uint64(2), int64(5000), int64(1<<30))
	f.Add(uint64(3), uint64(4), int64(math.MaxInt64), int64(-1))
	f.Fuzz(func(t *testing.T, one, two uint64, available, scale int64) {
		rng := rand.New(rand.NewPCG(one, two))
		amount := func() recommender.Amount {
			if rng.IntN(8) == 0 {
				return recommender.Amount(rng.Uint64())
			}
			return recommender.Amount(rng.Int64N(max(1, scale)))
		}
		pods := make([]Pod, rng.IntN(12))
		for i := range pods {
			pods[i] = randomPod(rng, string(rune('a'+i)), amount)
		}
		freeze(rng, pods)
		room := Amounts{recommender.Amount(available), amount()}
		var sharer Sharer
		got := sharer.Share(room, pods)
		checkSharing(t, room, clean(pods), got)
		for i := range pods {
			for j := range pods[i].Containers {
				checkExplanation(t, &sharer, got, pods, i, j)
			}
		}
	})
}

// checkExplanation asserts that the steps lead to the grant.
func checkExplanation(t *testing.T, sharer *Sharer, got Result, pods []Pod, i, j int) {
	t.Helper()
	steps, grant := sharer.Explain(i, j), grantsOf(got, pods, i)[j]
	if steps == nil {
		require.True(t, slices.ContainsFunc(got.Evictions, func(v Eviction) bool { return v.Pod == i }))
		return
	}
	last := Amounts{}
	for _, s := range steps {
		require.NotEmpty(t, s.Reason)
		if s.Name == StepLimit {
			require.Equal(t, grant.MemoryLimit, s.After)
			continue
		}
		require.Equal(t, last[s.Resource], s.Before, s.Name)
		last[s.Resource] = s.After
	}
	require.Equal(t, grant.Request, last)
}

func TestExplanationsLeadToTheGrants(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 14))
	var sharer Sharer
	for range 3000 {
		available, pods := randomNode(rng, 12)
		freeze(rng, pods)
		got := sharer.Share(available, pods)
		for i := range pods {
			for j := range pods[i].Containers {
				checkExplanation(t, &sharer, got, pods, i, j)
			}
		}
	}
}
