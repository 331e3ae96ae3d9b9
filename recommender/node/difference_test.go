package node_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/recommender"
	. "attune.io/attune/recommender/node"
)

// differences are the reasons why the pods' first containers hold an amount of CPU other than their share.
func differences(available recommender.Amount, pods ...Pod) []Why {
	room := Amounts{available, plenty}
	result := Share(room, pods)
	var all []Why
	for _, d := range Differences(room, pods, result, Settle(room, pods, result, noon), noon) {
		all = append(all, d[cpu].Why)
	}
	return all
}

// The cases match TestSettle.
func TestDifferences(t *testing.T) {
	for _, tc := range []struct {
		name      string
		available recommender.Amount
		pods      []Pod
		want      []Why
	}{
		{"who gets his share", 2000, []Pod{pod("a", 1000, 1000, holding(900)), pod("b", 500, 500, holding(1000))}, []Why{"", ""}},
		{"a lowering within the dead band", 2000, []Pod{pod("a", 901, 901, holding(1000))}, []Why{SmallChange}},
		{"a raise that nobody misses", 2000, []Pod{pod("a", 1000, 1020, holding(1000)), pod("b", 500, 500, holding(540))}, []Why{SmallChange, SmallChange}},
		{"a pod that was lowered a while ago", 2000, []Pod{pod("a", 500, 500, holding(1000), loweredAgo(time.Minute))}, []Why{LoweredLately}},
		{"a pod that was resized a while ago, and holds its base", 2000, []Pod{pod("a", 500, 500, holding(1000), resizedAgo(20*time.Minute))}, []Why{ResizedLately}},
		{"one that holds less than its share", 2000,
			[]Pod{pod("a", 500, 1000, holding(600), resizedAgo(time.Minute)), pod("b", 500, 500, holding(900), loweredAgo(time.Minute))}, []Why{ResizedLately, LoweredLately}},
		{"a frozen one", 2000, []Pod{pod("a", 500, 500, holding(1000), frozen)}, []Why{HeldFrozen}},
		{"a frozen one that holds its share", 2000, []Pod{pod("a", 500, 500, holding(500), frozen)}, []Why{""}},
		{"one whose container would restart", 2000, []Pod{pod("a", 500, 500, holding(1000), restarts(cpu))}, []Why{HeldRestarts}},
		{"one whose policy allows no less", 2000, []Pod{pod("a", 500, 500, holding(1000), least(1200))}, []Why{NobodyElseNeedsIt}},
		{"the same on a full node", 1000, []Pod{pod("a", 500, 500, holding(1000), least(1200))}, []Why{HeldLeast}},
		{"raises share the room", 2000,
			[]Pod{pod("a", 900, 900, holding(1500), loweredAgo(time.Minute)), pod("b", 400, 400, holding(200)), pod("c", 300, 300, holding(200))}, []Why{LoweredLately, NoRoom, NoRoom}},
		{"a small raise that goes with a lowering, and has no room", 3501, []Pod{
			{Name: "a", Containers: []Container{
				{Name: "y", Current: Amounts{1000, mi}, Of: [2]Demand{{Base: 1001, Peak: 1001}, {Base: mi, Peak: mi}}},
				{Name: "x", Current: Amounts{1000, mi}, Of: [2]Demand{{Base: 500, Peak: 500}, {Base: mi, Peak: mi}}},
			}},
			pod("b", 1500, 1500, holding(400)), pod("c", 500, 500, holding(1000), loweredAgo(time.Minute)),
		}, []Why{NoRoom, "", NoRoom, LoweredLately}},
		{"what rounding leaves over", 1000,
			[]Pod{pod("a", 100, 200, holding(200)), pod("b", 100, 200, holding(200)), pod("c", 100, 200, holding(200))}, []Why{KeepsRoom, "", ""}},
		{"what is owed to who is frozen", 1400,
			[]Pod{pod("a", 1000, 1000, holding(400), frozen), pod("b", 400, 400, holding(1000))}, []Why{HeldFrozen, KeepsRoom}},
		{"who is to go", 1000,
			[]Pod{pod("a", 500, 700, holding(700)), pod("b", 400, 500, holding(500), ranked(High))}, []Why{Evicted, ""}},
		{"a DaemonSet that was lent nothing", 1000,
			[]Pod{pod("a", 500, 500, holding(500), daemonSet, createdWith(300)), pod("b", 700, 700, holding(400))}, []Why{"", ""}},
		{"an amount that does not add up", 1000, []Pod{pod("a", 500, 500, holding(math.MaxInt64))}, []Why{AmountsTooGreat}},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.want, differences(tc.available, tc.pods...)) })
	}
}

// A memory limit may differ when the request does not.
func TestDifferencesOfLimits(t *testing.T) {
	why := func(limit recommender.Amount, options ...func(*Pod)) Why {
		p := pod("a", 1, 1, append(options, remembering(0, 64*mi), holding(1), holdingMemory(64*mi))...)
		p.Containers[0].CurrentLimit, p.Containers[0].Max7d = limit*mi, 64*mi
		room, pods := Amounts{plenty, plenty}, []Pod{p}
		result := Share(room, pods)
		return Differences(room, pods, result, Settle(room, pods, result, noon), noon)[0][memory].Why
	}
	assert.Empty(t, why(128))
	assert.Equal(t, SmallChange, why(130))
	assert.Empty(t, why(300), "it is lowered")
	assert.Equal(t, LoweredLately, why(300, loweredAgo(time.Minute)))
	assert.Equal(t, HeldFrozen, why(300, frozen))
}

func TestDifferenceReason(t *testing.T) {
	pods := []Pod{pod("a", 500, 500, holding(1000), loweredAgo(time.Minute))}
	room := Amounts{2000, plenty}
	result := Share(room, pods)
	d := Differences(room, pods, result, Settle(room, pods, result, noon), noon)[0]
	assert.Equal(t, noon.Add(14*time.Minute), d[cpu].Until)
	assert.Equal(t, "its pod was lowered recently, and is not lowered again before 2026-03-04T12:14:00Z", d[cpu].Reason())
	assert.Empty(t, d[memory].Reason())
	assert.Equal(t, "its pod was resized recently and has its base demand of CPU and its memory; it follows its share again from 2026-03-04T12:14:00Z",
		Difference{Why: ResizedLately, Until: noon.Add(14 * time.Minute)}.Reason())
	for _, why := range []Why{HeldFrozen, HeldRestarts, HeldLeast, Evicted, SmallChange, NoRoom, KeepsRoom, NobodyElseNeedsIt, GivesWay, AmountsTooGreat} {
		assert.NotEmpty(t, Difference{Why: why}.Reason(), why)
	}
}

// Each reason is true on any node: a container with NoRoom would not fit at its share, room with KeepsRoom would be
// missed, and so on.
func TestDifferencesAreTrue(t *testing.T) {
	rng := rand.New(rand.NewPCG(15, 4))
	seen := map[Why]int{}
	for range 10_000 {
		room, pods := randomNode(rng, 12)
		freeze(rng, pods)
		for i := range pods {
			if rng.IntN(4) == 0 {
				loweredAgo(time.Duration(rng.IntN(30)) * time.Minute)(&pods[i])
			}
			if rng.IntN(8) == 0 {
				resizedAgo(time.Duration(rng.IntN(60)) * time.Minute)(&pods[i])
			}
		}
		result := Share(room, pods)
		next := Settle(room, pods, result, noon)
		checkDifferences(t, room, pods, result, next, seen)
	}
	for _, why := range []Why{HeldFrozen, HeldRestarts, HeldLeast, Evicted, SmallChange, LoweredLately, ResizedLately, NoRoom, KeepsRoom, NobodyElseNeedsIt, GivesWay} {
		assert.NotZero(t, seen[why], why)
	}
}

func checkDifferences(t *testing.T, room Amounts, pods []Pod, result Result, next []Grant, seen map[Why]int) {
	t.Helper()
	all := Differences(room, pods, result, next, noon)
	must(t, len(all) == len(next), "one for each container")
	gone := map[int]bool{}
	for _, v := range result.Evictions {
		gone[v.Pod] = true
	}
	k := 0
	for i := range pods {
		for j := range pods[i].Containers {
			c, g, to := &pods[i].Containers[j], result.Grants[k], next[k]
			for _, r := range recommender.Resources {
				why, at := all[k][r].Why, to.Request[r]
				seen[why]++
				// with is the amount that the scheduler counts if the container holds its grant.
				with := func() recommender.Amount {
					was := next[k].Request[r]
					next[k].Request[r] = g.Request[r]
					defer func() { next[k].Request[r] = was }()
					return total(pods, next, r)
				}
				switch why {
				case "":
					must(t, at == g.Request[r], "it is another than its grant")
				case Evicted:
					must(t, gone[i] && at == c.Current[r], "who goes keeps what he holds")
				case HeldFrozen, HeldRestarts:
					must(t, (pods[i].Frozen || c.Restarts[r]) && at == c.Current[r], "who is fixed keeps what he holds")
				case HeldLeast:
					must(t, at > g.Request[r] && at <= c.Least[r] && at <= c.Current[r], "the least")
				case ResizedLately:
					must(t, noon.Before(all[k][r].Until) && at == c.Current[r] && at >= min(c.Current[r], c.Of[r].Base), "it rests")
				case LoweredLately:
					must(t, noon.Before(all[k][r].Until) && (at == c.Current[r] || r == memory), "until later")
				case SmallChange:
					must(t, at == c.Current[r] || r == memory && at == g.Request[r], "a small change is not made")
				case NoRoom:
					must(t, at < g.Request[r] && (with() > max(0, room[r])-slack(r, len(next)) || len(gone) > 0), "there is room")
				case KeepsRoom:
					must(t, at > g.Request[r] && with() < min(result.Needed[r], room[r])+extra(pods, result, next, r)+slack(r, len(next)), "nothing would be missing")
				case NobodyElseNeedsIt:
					must(t, at > c.Current[r] && at <= c.Least[r], "more, as its policy wants")
				case GivesWay:
					must(t, pods[i].DaemonSet && r == cpu, "a DaemonSet")
				}
			}
			k++
		}
	}
}

// slack is the amount that rounding to whole amounts may leave.
func slack(r recommender.Resource, containers int) recommender.Amount {
	return []recommender.Amount{1, mi}[r] * recommender.Amount(containers)
}

// extra is the amount held above the need: spare room of DaemonSets, and policies' minimums.
func extra(pods []Pod, result Result, next []Grant, r recommender.Resource) (sum recommender.Amount) {
	k := 0
	for i := range pods {
		for j := range pods[i].Containers {
			if r == cpu {
				sum += result.Grants[k].Spare
			}
			sum += max(0, min(next[k].Request[r], pods[i].Containers[j].Least[r])-result.Grants[k].Request[r])
			k++
		}
	}
	return sum
}

func total(pods []Pod, next []Grant, r recommender.Resource) (sum recommender.Amount) {
	k := 0
	for i := range pods {
		n := len(pods[i].Containers)
		sum += counted(&pods[i], next[k:k+n], r)
		k += n
	}
	return sum
}
