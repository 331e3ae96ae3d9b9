package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	. "attune.io/attune/recommender/node"
)

func frozen(p *Pod) { p.Frozen = true }
func createdWith(a recommender.Amount) func(*Pod) {
	return func(p *Pod) { p.Containers[0].AtCreation[cpu] = a }
}
func least(a recommender.Amount) func(*Pod) {
	return func(p *Pod) { p.Containers[0].Least[cpu] = a }
}
func reach(a recommender.Amount) func(*Pod) {
	return func(p *Pod) { p.Containers[0].Reach[cpu] = a }
}
func restarts(r recommender.Resource) func(*Pod) {
	return func(p *Pod) { p.Containers[0].Restarts[r] = true }
}
func with(p Pod, options ...func(*Pod)) Pod {
	for _, option := range options {
		option(&p)
	}
	return p
}

// of is the result of sharing a node's CPU.
func of(available recommender.Amount, pods ...Pod) Result {
	return Share(Amounts{available, plenty}, pods)
}

func TestAFrozenPodSharesAsOthersDo(t *testing.T) {
	golden := func(ofB ...func(*Pod)) []Pod {
		return []Pod{pod("a", 1000, 3000, holding(2000)), with(pod("b", 1000, 2000, holding(1500)), ofB...), pod("c", 1000, 2000, holding(1500))}
	}
	got := of(5000, golden(frozen)...)
	assert.Empty(t, got.Evictions, "golden node of 5 with b frozen evicts nobody")
	assert.Equal(t, [2]bool{}, got.Overcommitted)
	assert.Equal(t, []recommender.Amount{2000, 1500, 1500}, requestsOf(got, cpu), "its share is computed like the others'")
	assert.Equal(t, []recommender.Amount{2000, 1500, 1500}, settled(5000, golden(frozen)...))

	all := golden(frozen)
	all[0].Frozen, all[2].Frozen = true, true
	assert.Empty(t, of(5000, all...).Evictions)

	// Lower demand evicts no pod: b's base falls, it was lowered, and is observed.
	less := []Pod{pod("a", 1000, 3000, holding(2000)), pod("b", 500, 2000, holding(1167), frozen), pod("c", 1000, 2000, holding(1500))}
	assert.Empty(t, of(5000, less...).Evictions)
}

// An amount that a pod cannot have evicts no pod, and is not taken from other pods.
func TestUnattainableDemandEvictsNoPod(t *testing.T) {
	node := func(most ...func(*Pod)) []Pod {
		return []Pod{with(pod("a", 6000, 6000, holding(1000)), most...), pod("b", 1000, 3000, holding(3000)), pod("c", 2000, 3000, holding(3000))}
	}
	assert.NotEmpty(t, of(8000, node()...).Evictions, "what it can have")

	got := of(8000, node(reach(1000))...)
	assert.Empty(t, got.Evictions)
	assert.Equal(t, [2]bool{cpu: true}, got.Overcommitted)
	assert.Equal(t, []recommender.Amount{1000, 3000, 3000}, settled(8000, node(reach(1000))...), "nobody is lowered for it")

	got = of(8000, node(reach(2000))...)
	assert.Empty(t, got.Evictions, "3 and the reserve of 2 beside it")
	assert.EqualValues(t, 2000, settled(8000, node(reach(2000))...)[0], "it has what it can")
	assert.NotEmpty(t, of(8000, node(reach(4000), ranked(Never))...).Evictions, "as far as it can have it, it counts")

	// If there is room, the raise is attempted, so that its refusal gives the reason.
	assert.EqualValues(t, 6000, settled(20_000, node(reach(1000))...)[0])

	// A pod that lacks an amount that it cannot have has no holders.
	pods := []Pod{with(pod("a", 3000, 3000, holding(1000)), reach(1000)), pod("b", 1000, 1000, holding(4000), least(4000))}
	shared := of(5000, pods...)
	assert.Empty(t, Holders(pods, shared, Settle(Amounts{5000, plenty}, pods, shared, noon)))
}

func TestExcessOfAFrozenPodEvictsNoPod(t *testing.T) {
	pods := []Pod{pod("a", 3000, 3000, holding(1000)), pod("b", 1000, 1000, holding(4000), frozen)}
	got := of(5000, pods...)
	assert.Empty(t, got.Evictions, "that room comes back")
	assert.Equal(t, [2]bool{}, got.Overcommitted)
	assert.Equal(t, []recommender.Amount{1000, 4000}, settled(5000, pods...), "a waits for it")
	pods[1].Containers[0].Current[cpu] = 3500
	assert.Equal(t, []recommender.Amount{1500, 3500}, settled(5000, pods...), "but not for what is there")
}

// A frozen pod cannot be raised now, so no pod is evicted for its lack.
func TestDeficitOfAFrozenPodEvictsNoPod(t *testing.T) {
	pods := []Pod{pod("a", 3000, 3000, holding(3000)), pod("b", 3000, 3000, holding(2000), frozen, ranked(Never))}
	got := of(5000, pods...)
	assert.Empty(t, got.Evictions)
	assert.Equal(t, [2]bool{true, false}, got.Overcommitted, "it does not fit all the same")
	assert.Equal(t, []recommender.Amount{3000, 2000}, settled(5000, pods...))
	assert.Equal(t, []string{"a"}, evicted(of(4999, pods...)), "what it holds and needs does not fit")
	pods[1].Frozen = false
	assert.Equal(t, []string{"a"}, evicted(of(5000, pods...)), "thawed it is as any other")
}

func TestFrozenPodIsNotEvictedOrReplaced(t *testing.T) {
	pods := []Pod{pod("a", 3000, 3000, holding(3000), frozen), pod("b", 3000, 3000, holding(2000), ranked(High))}
	got := of(5000, pods...)
	assert.Empty(t, got.Evictions)
	assert.Equal(t, [2]bool{true, false}, got.Overcommitted)
	pods[0].Frozen = false
	assert.Equal(t, []string{"a"}, evicted(of(5000, pods...)))

	pods = []Pod{pod("a", 3000, 3000, holding(3000), frozen), pod("b", 3000, 3000, holding(3000)), pod("c", 3000, 3000, holding(3000), ranked(High))}
	assert.Equal(t, []string{"b"}, evicted(of(5000, pods...)), "who has to go beside it goes")
}

// Memory is capped in the same way.
func TestFrozenMemory(t *testing.T) {
	a, b := pod("a", 1, 1, remembering(mi, 300*mi), holdingMemory(300*mi)), pod("b", 1, 1, remembering(mi, 300*mi), holdingMemory(200*mi), frozen)
	got := Share(Amounts{plenty, 500 * mi}, []Pod{a, b})
	assert.Empty(t, got.Evictions)
	assert.Equal(t, [2]bool{false, true}, got.Overcommitted)
	b.Frozen = false
	assert.Equal(t, []string{"a"}, evicted(Share(Amounts{plenty, 500 * mi}, []Pod{a, b})))
}

func TestOvercommittedNodesGiveWhatRoomThereIs(t *testing.T) {
	never := func(name string, base, peak, holds recommender.Amount, options ...func(*Pod)) Pod {
		return with(pod(name, base, peak, ranked(Never), holding(holds)), options...)
	}
	for _, tc := range []struct {
		name      string
		available recommender.Amount
		pods      []Pod
		want      []recommender.Amount
	}{
		{"node of 8 needing 8.1 with holds of 3: raised as far as room goes", 8000,
			// reserve 2000. Bases first: a 4100, b 1000, c 1000; then towards 4100, 3000, 1000 with the 1900 left.
			[]Pod{never("a", 4100, 4100, 1000), never("b", 1000, 3000, 1000), never("c", 1000, 1000, 1000)},
			[]recommender.Amount{4100, 2900, 1000}},
		{"bases in proportion to what they lack", 3000,
			[]Pod{never("a", 2000, 2000, 1000), never("b", 4000, 4000, 1000)}, []recommender.Amount{1250, 1750}},
		{"who holds more than its share gives the room", 3000,
			[]Pod{never("a", 1000, 1000, 2000), never("b", 4000, 4000, 1000)}, []recommender.Amount{1000, 2000}},
		{"a frozen pod counts with what it holds", 4000,
			[]Pod{never("a", 1000, 1000, 2000, frozen), never("b", 4000, 4000, 1000)}, []recommender.Amount{1000, 2000}},
		{"where there is no room nobody is raised", 1500,
			[]Pod{never("a", 2000, 2000, 1000), never("b", 4000, 4000, 1000)}, []recommender.Amount{1000, 1000}},
		{"an init request is a base", 3000,
			// a holds 1500 as the scheduler counts; 500 are left for b's 2000.
			[]Pod{never("a", 500, 2000, 500, initCPU(1500)), never("b", 3000, 3000, 1000)}, []recommender.Amount{1500, 1500}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := of(tc.available, tc.pods...)
			assert.Equal(t, [2]bool{true, false}, got.Overcommitted)
			assert.Equal(t, tc.want, requestsOf(got, cpu))
		})
	}
	// Memory likewise, up to its peak.
	a, b := pod("a", 1, 1, remembering(100*mi, 300*mi), holdingMemory(50*mi), ranked(Never)), pod("b", 1, 1, remembering(100*mi, 100*mi), holdingMemory(100*mi), ranked(Never))
	got := Share(Amounts{plenty, 350 * mi}, []Pod{a, b})
	assert.Equal(t, []recommender.Amount{250 * mi, 100 * mi}, requestsOf(got, memory))
}

// Granted room that is not yet held stays hidden from the scheduler.
func TestAnOvercommittedNodeIsHeldFull(t *testing.T) {
	pods := []Pod{pod("a", 333, 1000, ranked(Never), holding(100)), pod("b", 333, 1000, ranked(Never), holding(100)), pod("c", 333, 1000, ranked(Never), holding(100))}
	var sum recommender.Amount
	for _, a := range settled(1000, pods...) {
		sum += a
	}
	assert.Equal(t, recommender.Amount(1000), sum)
}

func requestsOf(result Result, r recommender.Resource) (all []recommender.Amount) {
	for _, g := range result.Grants {
		all = append(all, g.Request[r])
	}
	return all
}

// Two Job pods have a fixed size (the caller subtracts them from the available amount); no pod is evicted for them.
func TestFrozenJobPods(t *testing.T) {
	pods := []Pod{pod("a", 500, 3500, holding(3500), frozen), pod("b", 500, 3500, holding(3500), frozen), pod("c", 2000, 2000, holding(500))}
	got := of(8000, pods...)
	assert.Empty(t, got.Evictions)
	next := settled(8000, pods...)
	assert.Equal(t, []recommender.Amount{3500, 3500, 1000}, next, "what the Jobs leave, c is given")
	holders := Holders(pods, got, Settle(Amounts{8000, plenty}, pods, got, noon))
	require.Len(t, holders, 2, "and it is known who keeps the rest")
	assert.Equal(t, Holder{Pod: 0, Name: "a", Resource: cpu, Above: 1500, Why: HeldFrozen}, holders[0])

	// The actual way: subtracted from the available amount.
	c := pod("c", 2000, 2000, holding(500), ranked(Never))
	assert.Equal(t, [2]bool{true, false}, of(1000, c).Overcommitted)
	assert.Equal(t, []recommender.Amount{1000}, settled(1000, c))
}

func TestDaemonSets(t *testing.T) {
	ds := func(base, peak, holds, createdWith recommender.Amount) Pod {
		p := pod("ds", base, peak, daemonSet, holding(holds))
		p.Containers[0].AtCreation[cpu] = createdWith
		return p
	}
	full := pod("a", 500, 1000, holding(1000))
	assert.Equal(t, []recommender.Amount{500, 1000}, requestsOf(of(1500, ds(500, 3000, 100, 800), full), cpu), "at most what it was born with, not what it holds: no ratchet")
	assert.Equal(t, []recommender.Amount{300, 1000}, requestsOf(of(1300, ds(500, 3000, 300, 300), full), cpu), "it pushes nobody out")
	got := of(1400, ds(500, 3000, 300, 300), full)
	assert.Equal(t, []recommender.Amount{400, 1000}, requestsOf(got, cpu), "what nobody needs raises it")
	assert.Equal(t, recommender.Amount(100), got.Grants[0].Spare)
	assert.Equal(t, []recommender.Amount{500, 1000}, requestsOf(of(9000, ds(500, 3000, 300, 300), full), cpu), "towards its base")

	assert.Equal(t, []recommender.Amount{500, 1000}, settled(9000, ds(500, 3000, 300, 300), full), "it is raised")
	assert.Equal(t, []recommender.Amount{300, 1200}, settled(1500, ds(500, 3000, 500, 300), pod("a", 1200, 1200, holding(1000))), "and gives way before anybody waits")
	assert.Equal(t, []recommender.Amount{300, 1000}, settled(1500, ds(500, 3000, 300, 300), pod("a", 500, 500, holding(1000), frozen), pod("b", 500, 500, holding(200)))[:2], "b's part comes first")

	assert.Equal(t, []recommender.Amount{300, 1200}, settled(1500, ds(500, 3000, 320, 300), pod("a", 1200, 1200, holding(1000))), "in its dead band as well")

	// 20 of it are enough for b, so a keeps the 50 that it holds above its share.
	assert.Equal(t, []recommender.Amount{300, 1000, 320}, settled(1620, ds(500, 3000, 320, 300), pod("a", 950, 950, holding(1000)), pod("b", 320, 320, holding(300))), "it is the first")

	two := []Pod{ds(500, 500, 100, 100), with(ds(300, 300, 100, 100), func(p *Pod) { p.Name = "ds2" }), full}
	// 600 are lacking, 300 are free: divided in proportion to the lack.
	assert.Equal(t, []recommender.Amount{300, 200, 1000}, requestsOf(of(1500, two...), cpu))

	m := pod("ds", 1, 1, remembering(100*mi, 300*mi), daemonSet, holdingMemory(200*mi))
	m.Containers[0].AtCreation[memory] = 200 * mi
	assert.Equal(t, 200*mi, of(5000, m).Grants[0].Request[memory], "its memory is not raised")
}

// Needs are 1000, unless a case sets another value.
func TestRaisesHaveADeadBand(t *testing.T) {
	type a = []recommender.Amount
	holdsMore := pod("more", 1000, 1000, holding(1090))
	assert.Equal(t, a{1000, 1090}, settled(5000, pod("a", 1049, 1049, holding(1000)), holdsMore), "less than 5 % is left out")
	assert.Equal(t, a{1050, 1090}, settled(5000, pod("a", 1050, 1050, holding(1000)), holdsMore), "5 % is not")
	assert.Equal(t, a{1049}, settled(5000, pod("a", 1049, 1049, holding(1000))), "nor where what is held would be less than needed")
	assert.Equal(t, a{1030, 1000, 1010}, settled(5000,
		pod("a", 1030, 1030, holding(1000)), pod("b", 1010, 1010, holding(1000)), pod("c", 1000, 1000, holding(1010))),
		"the missing sum goes to the fewest pods")
	assert.Equal(t, a{1030, 1020, 1010}, settled(5000,
		pod("a", 1030, 1030, holding(1000)), pod("b", 1020, 1020, holding(1000)), pod("c", 1000, 1000, holding(1010))),
		"but all of it is given")

	m := func(peak, holds recommender.Amount) Pod {
		return pod("a", 1, 1, holding(1), remembering(0, peak*mi), holdingMemory(holds*mi))
	}
	spare := pod("spare", 1, 1, holding(1), remembering(0, 100*mi), holdingMemory(109*mi))
	memoryOf := func(p Pod) recommender.Amount {
		room := Amounts{plenty, plenty}
		return Settle(room, []Pod{p, spare}, Share(room, []Pod{p, spare}), noon)[0].Request[memory] / mi
	}
	assert.Equal(t, recommender.Amount(400), memoryOf(m(407, 400)), "of memory 2 %")
	assert.Equal(t, recommender.Amount(408), memoryOf(m(408, 400)))
}

// A pod that is resized anyway gets its small raises too: there is one resize per pod.
func TestChangedPodsGetSmallRaises(t *testing.T) {
	p := Pod{Name: "a", Containers: []Container{
		{Name: "x", Current: Amounts{1000, mi}, Of: [2]Demand{{Base: 1010, Peak: 1010}, {Base: mi, Peak: mi}}},
		{Name: "y", Current: Amounts{1000, mi}, Of: [2]Demand{{Base: 500, Peak: 500}, {Base: mi, Peak: mi}}},
	}}
	assert.Equal(t, []recommender.Amount{1010, 500}, settled(5000, p))
}

// Lowering stops before it would show the scheduler room that is granted to a frozen pod.
func TestLoweringStopsAtGrantedRoom(t *testing.T) {
	type a = []recommender.Amount
	owed := pod("f", 1000, 1000, holding(400), frozen)
	assert.Equal(t, a{400, 1600}, settled(5000, owed, pod("p", 1000, 1000, holding(2000))))
	assert.Equal(t, a{400, 1600, 1000}, settled(5000, owed, pod("p", 1000, 1000, holding(2000)), pod("q", 1000, 1000, holding(1500))),
		"with the fewest pods: whoever is lowered most keeps it")
	assert.Equal(t, a{400, 1660}, settled(5000, owed, pod("p", 1000, 1000, holding(1660))), "and what is left of a lowering has the dead band too")
	assert.Equal(t, a{400, 1600}, settled(2000, owed, pod("p", 1000, 1000, holding(1660))), "where it has room")
}

// Lowering a pod to make room for memory must not undo the division of CPU.
func TestBothResourcesAreReleasedBeforeEitherIsRationed(t *testing.T) {
	// p is within the dead band of memory, and at first is held below its CPU share; q cannot be lowered yet.
	p := pod("p", 300, 300, holding(100), remembering(0, 95*mi), holdingMemory(100*mi))
	q := pod("q", 300, 300, holding(500), loweredAgo(time.Minute), remembering(0, 100*mi), holdingMemory(95*mi))
	room := Amounts{700, 195 * mi}
	next := Settle(room, []Pod{p, q}, Share(room, []Pod{p, q}), noon)
	assert.Equal(t, Amounts{200, 95 * mi}, next[0].Request)
	assert.Equal(t, Amounts{500, 100 * mi}, next[1].Request)
}

// A resource whose change restarts the container is sized only at admission. It counts with its measured demand, and no
// other pod is evicted for it.
func TestContainersThatWouldRestartKeepTheirRequests(t *testing.T) {
	type a = []recommender.Amount
	assert.Equal(t, a{100}, settled(5000, pod("a", 1000, 1000, holding(100), restarts(cpu))))
	assert.Equal(t, a{1000}, settled(5000, pod("a", 100, 100, holding(1000), restarts(cpu))))
	p := pod("a", 1, 1, remembering(0, 300*mi), holdingMemory(100*mi), restarts(memory))
	p.Containers[0].CurrentLimit, p.Containers[0].Max7d = 200*mi, 300*mi
	room := Amounts{plenty, plenty}
	next := Settle(room, []Pod{p}, Share(room, []Pod{p}), noon)[0]
	assert.Equal(t, Amounts{1, 100 * mi}, next.Request, "the other resource is changed all the same")
	assert.Equal(t, 200*mi, next.MemoryLimit)
	pods := []Pod{pod("a", 3000, 3000, holding(3000)), pod("b", 3000, 3000, holding(2000), restarts(cpu), ranked(Never))}
	assert.Empty(t, of(5000, pods...).Evictions)
	pods = []Pod{pod("a", 3000, 3000, holding(1000)), pod("b", 1000, 1000, holding(4000), restarts(cpu))}
	assert.Empty(t, of(5000, pods...).Evictions)
	assert.Equal(t, a{1000, 4000}, settled(5000, pods...))
}

// A pod keeps a minAllowed above its demand if it has it, and never evicts another pod for it.
func TestMinAllowedEvictsNoPod(t *testing.T) {
	type a = []recommender.Amount
	victims := []Pod{pod("shop/v1", 1500, 2500, holding(2500)), pod("shop/v2", 1500, 2500, holding(2500))}
	for _, ranking := range []Ranking{Never, Low} {
		evil := pod("evil/idle", 10, 10, least(6000), holding(3000), ranked(ranking))
		got := of(8000, append(victims, evil)...)
		assert.Empty(t, got.Evictions)
		assert.Equal(t, [2]bool{}, got.Overcommitted)
		assert.Equal(t, a{2000, 2000, 10}, requestsOf(got, cpu))
	}
	assert.Equal(t, a{2000, 2000, 4000}, settled(8000, append(victims, pod("evil/idle", 10, 10, least(6000), holding(3000)))...), "it is given what nobody needs")
	assert.Equal(t, a{1000}, settled(8000, pod("a", 100, 100, least(1000), holding(2000))), "and is not lowered below it")
	assert.Equal(t, a{1000}, settled(8000, pod("a", 100, 100, least(1000), holding(100))))

	assert.Equal(t, a{400, 500}, settled(1500, pod("f", 1000, 1000, holding(400), frozen), pod("a", 100, 100, least(1000), holding(100))),
		"what is owed to somebody is not given away")

	pods := []Pod{pod("a", 3000, 3000, holding(1000)), pod("b", 10, 10, least(4000), holding(4000))}
	got := of(5000, pods...)
	assert.Empty(t, got.Evictions)
	next := Settle(Amounts{5000, plenty}, pods, got, noon)
	assert.Equal(t, recommender.Amount(1000), next[0].Request[cpu])
	assert.Equal(t, []Holder{{Pod: 1, Name: "b", Resource: cpu, Above: 3990, Why: HeldLeast}}, Holders(pods, got, next))
	pods[0].Containers[0].Current[cpu] = 3000
	assert.Empty(t, Holders(pods, got, Settle(Amounts{7000, plenty}, pods, got, noon)), "where nobody lacks his base nobody is named")
}

// One base of twelve rises by 2 %: the pods that need it are resized, and one more for the millicore lost to rounding.
func TestASmallChangeResizesFew(t *testing.T) {
	pods := make([]Pod, 12)
	for i := range pods {
		pods[i] = pod(string(rune('a'+i)), 1000, 2000, holding(1083))
		if i < 4 { // 12 × 1083 and the 4 lost to rounding
			pods[i].Containers[0].Current[cpu]++
		}
	}
	pods[7].Containers[0].Of[cpu].Base = 1020
	resized, sum := 0, recommender.Amount(0)
	for i, to := range settled(20_000, pods...) {
		sum += to
		if to != pods[i].Containers[0].Current[cpu] {
			resized++
		}
	}
	assert.LessOrEqual(t, resized, 3)
	assert.Equal(t, recommender.Amount(13_020), sum)
}

// On an overcommitted node the last bytes of memory do not move between pods at each reconcile.
func TestLessThanAMiBIsWorthNoResize(t *testing.T) {
	pods := []Pod{
		pod("a", 1, 1, ranked(Never), holding(1), remembering(10*mi, 40*mi), holdingMemory(10*mi)),
		pod("b", 1, 1, ranked(Never), holding(1), remembering(10*mi, 90*mi), holdingMemory(10*mi)),
	}
	room := Amounts{plenty, 20*mi + mi/5}
	next := Settle(room, pods, Share(room, pods), noon)
	assert.Equal(t, 10*mi, next[0].Request[memory])
	assert.Equal(t, 10*mi, next[1].Request[memory])
}

// A pod keeps its policy's minimum if it has it, even without room to raise it again.
func TestMinAllowedIsNotLowered(t *testing.T) {
	pods := []Pod{pod("a", 100, 100, least(1000), holding(1000)), pod("b", 1000, 1000, holding(500))}
	assert.Equal(t, []recommender.Amount{1000, 500}, settled(1500, pods...))
	pods[0].Ranking, pods[1] = Never, pod("b", 1600, 1600, holding(500), ranked(Never))
	assert.Equal(t, []recommender.Amount{1000, 500}, settled(1500, pods...), "nor where the node is overcommitted")
}
