package node_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	. "attune.io/attune/recommender/node"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func loweredAgo(d time.Duration) func(*Pod) {
	return func(p *Pod) { p.LastLowered = noon.Add(-d) }
}

func resizedAgo(d time.Duration) func(*Pod) {
	return func(p *Pod) { p.LastResized = noon.Add(-d) }
}

// settled is the CPU that the pods hold next.
func settled(available recommender.Amount, pods ...Pod) []recommender.Amount {
	room := Amounts{available, plenty}
	var next []recommender.Amount
	for _, g := range Settle(room, pods, Share(room, pods), noon) {
		next = append(next, g.Request[cpu])
	}
	return next
}

func TestSettle(t *testing.T) {
	type a = []recommender.Amount
	for _, tc := range []struct {
		name      string
		available recommender.Amount
		pods      []Pod
		want      a
	}{
		{"a raise is made at once, however small and however lately it was lowered", 2000,
			[]Pod{pod("a", 1000, 1000, holding(999), loweredAgo(time.Second))}, a{1000}},
		{"a lowering within the dead band is not", 2000, []Pod{pod("a", 901, 901, holding(1000))}, a{1000}},
		{"from the dead band on it is", 2000, []Pod{pod("a", 900, 900, holding(1000))}, a{900}},
		{"but not within 15 minutes", 2000, []Pod{pod("a", 500, 500, holding(1000), loweredAgo(LoweredEvery-time.Second))}, a{1000}},
		{"again after them", 2000, []Pod{pod("a", 500, 500, holding(1000), loweredAgo(LoweredEvery))}, a{500}},
		{"who was resized a while ago and holds its base is not lowered", 2000, []Pod{pod("a", 500, 500, holding(1000), resizedAgo(Rest-time.Second))}, a{1000}},
		{"then it is", 2000, []Pod{pod("a", 500, 500, holding(1000), resizedAgo(Rest))}, a{500}},
		{"nor raised to its share, where enough is held without it", 2000,
			[]Pod{pod("a", 500, 1000, holding(600), resizedAgo(time.Minute)), pod("b", 500, 500, holding(900), loweredAgo(time.Minute))}, a{600, 900}},
		{"times that a clock has noted which was ahead bind nobody", 2000,
			[]Pod{pod("a", 500, 500, holding(1000), loweredAgo(-time.Hour), resizedAgo(-time.Hour))}, a{500}},
		{"who holds less than its base is raised to its share", 2000, []Pod{pod("a", 500, 1000, holding(400), resizedAgo(time.Minute))}, a{1000}},
		{"who rests gives way to who lacks its base", 2000,
			[]Pod{pod("a", 500, 500, holding(1500), resizedAgo(20*time.Minute)), pod("b", 800, 800, holding(500))}, a{500, 800}},
		{"what is missing is given to those that do not rest", 2000,
			[]Pod{pod("a", 100, 600, holding(340), resizedAgo(time.Minute)), pod("b", 100, 600, holding(340)), pod("c", 100, 100, holding(110), loweredAgo(time.Minute))}, a{340, 350, 110}},
		{"what is not known is given", 2000, []Pod{pod("a", 500, 500)}, a{500}},
		{"a pod is lowered as a whole", 5000, []Pod{{Name: "a", Containers: []Container{
			{Name: "x", Current: Amounts{1000, mi}, Of: [2]Demand{{Base: 500, Peak: 500}, {Base: mi, Peak: mi}}},
			{Name: "y", Current: Amounts{1000, mi}, Of: [2]Demand{{Base: 950, Peak: 950}, {Base: mi, Peak: mi}}},
		}}}, a{500, 950}},
		{"the dead band gives way to a raise, where most is held", 2000,
			[]Pod{pod("a", 950, 950, holding(1000)), pod("b", 390, 390, holding(400)), pod("c", 640, 640, holding(600))}, a{950, 400, 640}},
		{"but not a moment after a lowering: then raises share the room", 2000,
			[]Pod{pod("a", 900, 900, holding(1500), loweredAgo(time.Minute)), pod("b", 400, 400, holding(200)), pod("c", 300, 300, holding(200))}, a{1500, 266, 233}},
		{"what rounding leaves over stays with them", 1000,
			[]Pod{pod("a", 100, 200, holding(200)), pod("b", 100, 200, holding(200)), pod("c", 100, 200, holding(200))}, a{134, 133, 133}},
		{"and only as much as is missing", 1000,
			[]Pod{pod("a", 100, 200, holding(133)), pod("b", 100, 200, holding(134)), pod("c", 100, 200, holding(200))}, a{133, 134, 133}},
		{"who is to go keeps what it holds, and has the room until then", 1000,
			[]Pod{pod("a", 500, 700, holding(700)), pod("b", 400, 500, holding(300), ranked(High))}, a{700, 300}},
		{"an overcommitted node lowers and raises nobody", 500,
			[]Pod{pod("a", 400, 600, holding(450), ranked(Never)), pod("b", 200, 300, holding(100), ranked(Never)), pod("c", 100, 100, holding(300), ranked(Never))}, a{450, 100, 100}},
	} {
		t.Run(tc.name, func(t *testing.T) { assert.Equal(t, tc.want, settled(tc.available, tc.pods...)) })
	}
}

// A pod that waits for the room of an eviction is not resized for a small gain meanwhile. While that resize was
// observed, it would claim no more than it holds, and no pod would be evicted.
func TestPodsThatWaitForAnEvictionGetNoSmallRaises(t *testing.T) {
	heavy := pod("heavy", 20, 22, holding(20), holdingMemory(180*mi), remembering(0, 260*mi), ranked(High))
	heavy.Containers[0].CurrentLimit, heavy.Containers[0].Max7d = 360*mi, 295*mi
	low := pod("low", 10, 10, holding(10), holdingMemory(120*mi), remembering(0, 120*mi))
	room := Amounts{1000, 300 * mi}
	settle := func(pods ...Pod) ([]Grant, Result) {
		result := Share(room, pods)
		return Settle(room, pods, result, noon), result
	}
	next, result := settle(heavy, low)
	require.Len(t, result.Evictions, 1)
	assert.Equal(t, Grant{Request: Amounts{20, 180 * mi}, MemoryLimit: 360 * mi}, next[0], "neither its limit nor a little CPU")
	watched := heavy
	watched.Frozen = true
	_, result = settle(watched, low)
	assert.Empty(t, result.Evictions, "which is why")
	next, _ = settle(heavy)
	assert.Equal(t, Grant{Request: Amounts{22, 260 * mi}, MemoryLimit: 590 * mi}, next[0], "with the room")

	heavy.Containers[0].Current[memory] = 100 * mi
	next, result = settle(heavy, low)
	require.Len(t, result.Evictions, 1)
	assert.Equal(t, 180*mi, next[0].Request[memory], "much is given at once")
}

func TestSettleMemory(t *testing.T) {
	of := func(current, currentLimit, peak, max7d recommender.Amount) Grant {
		p := pod("a", 1, 1, remembering(0, peak*mi), holding(1), holdingMemory(current*mi))
		p.Containers[0].CurrentLimit, p.Containers[0].Max7d = currentLimit*mi, max7d*mi
		room := Amounts{plenty, plenty}
		g := Settle(room, []Pod{p}, Share(room, []Pod{p}), noon)[0]
		return Grant{Request: Amounts{0, g.Request[memory] / mi}, MemoryLimit: g.MemoryLimit / mi}
	}
	size := func(request, limit recommender.Amount) Grant {
		return Grant{Request: Amounts{0, request}, MemoryLimit: limit}
	}
	assert.Equal(t, size(200, 440), of(100, 300, 200, 220), "raised")
	assert.Equal(t, size(200, 440), of(200, 0, 200, 220), "a limit is set where there is none")
	assert.Equal(t, size(200, 460), of(200, 460, 200, 220), "a limit has a dead band too")
	assert.Equal(t, size(200, 440), of(200, 800, 200, 220))
	assert.Equal(t, size(100, 800), of(200, 800, 100, 0), "a limit that nothing is known for stays")
}

// world is a cluster whose pods are created and deleted while their demands stay the same.
type world struct {
	t           *testing.T
	rng         *rand.Rand
	now         time.Time
	nodes       []worldNode
	createdWith int
	// resizes and lowerings count over all pods.
	resizes, lowerings int
}

type worldNode struct {
	available Amounts
	pods      []Pod
}

// admit gives a pod its peak and a node, like a scheduler, or leaves it pending.
func (w *world) admit(p Pod) {
	var next []Grant
	for i := range p.Containers {
		seed := SeedOf(&p.Containers[i])
		next = append(next, Grant{Request: seed.Request, MemoryLimit: seed.MemoryLimit})
	}
	hold(&p, next)
	for n := range w.nodes {
		node := &w.nodes[n]
		if w.room(node, cpu) >= held(&p, cpu) && w.room(node, memory) >= held(&p, memory) {
			node.pods = append(node.pods, p)
			return
		}
	}
}

func hold(p *Pod, next []Grant) {
	p.Containers = slices.Clone(p.Containers)
	for i, g := range next {
		p.Containers[i].Current, p.Containers[i].CurrentLimit = g.Request, g.MemoryLimit
	}
}

// held is the amount that the scheduler counts for a pod.
func held(p *Pod, r recommender.Resource) recommender.Amount {
	var sum recommender.Amount
	for _, c := range p.Containers {
		sum += c.Current[r]
	}
	return max(sum, p.InitRequest[r])
}

func (w *world) room(n *worldNode, r recommender.Resource) recommender.Amount {
	room := n.available[r]
	for i := range n.pods {
		room -= held(&n.pods[i], r)
	}
	return room
}

// tick advances five minutes: some pods are created and deleted, and every node is settled once.
func (w *world) tick() {
	w.now = w.now.Add(5 * time.Minute)
	for range w.rng.IntN(6) {
		scale := []int64{3, 30, 400}[w.rng.IntN(3)]
		w.createdWith++
		p := randomPod(w.rng, fmt.Sprintf("pod-%05d", w.createdWith), func() recommender.Amount {
			return 1 + recommender.Amount(w.rng.Int64N(scale))
		})
		inMi(&p)
		w.admit(p)
	}
	for n := range w.nodes {
		node := &w.nodes[n]
		if len(node.pods) > 0 && w.rng.IntN(3) == 0 {
			gone := w.rng.IntN(len(node.pods))
			node.pods = slices.Delete(node.pods, gone, gone+1)
		}
		w.settle(node)
	}
}

func (w *world) settle(n *worldNode) {
	got := Share(n.available, n.pods)
	require.Empty(w.t, got.Evictions, "%v %+v", n.available, n.pods)
	require.Equal(w.t, [2]bool{}, got.Overcommitted)
	next := Settle(n.available, n.pods, got, w.now)
	first := 0
	for i := range n.pods {
		p := &n.pods[i]
		mine, grants := next[first:first+len(p.Containers)], got.Grants[first:first+len(p.Containers)]
		first += len(p.Containers)
		w.check(p, mine, grants)
		if p.Lowers(mine) {
			require.GreaterOrEqual(w.t, w.now.Sub(p.LastLowered), LoweredEvery)
			p.LastLowered = w.now
			w.lowerings++
		}
		hold(p, mine)
	}
	for _, r := range recommender.Resources {
		room := w.room(n, r)
		must(w.t, room >= 0, "more is held than available")
		must(w.t, n.available[r]-room >= got.Needed[r], "less is held than needed: a newcomer may be one too many")
	}
}

func (w *world) check(p *Pod, next, grants []Grant) {
	changed := false
	for i, c := range p.Containers {
		for _, r := range recommender.Resources {
			most, share := grants[i].Request[r], grants[i].Request[r]
			if r == cpu {
				share -= grants[i].Spare
			}
			if grants[i].Rounded[r] {
				most++
			}
			must(w.t, next[i].Request[r] <= max(most, c.Current[r]), "raised above its grant")
			must(w.t, next[i].Request[r] >= min(share, c.Current[r]), "lowered below its grant")
			changed = changed || next[i].Request[r] != c.Current[r]
		}
		changed = changed || next[i].MemoryLimit != c.CurrentLimit
	}
	if changed {
		w.resizes++
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 99)), now: noon}
	for range 1 + w.rng.IntN(3) {
		scale := []int64{20, 300, 4000}[w.rng.IntN(3)]
		w.nodes = append(w.nodes, worldNode{available: Amounts{
			recommender.Amount(scale + w.rng.Int64N(scale)), recommender.Amount(scale+w.rng.Int64N(scale)) * mi,
		}})
	}
	return w
}

// The admission invariant: a pod that the scheduler admitted at its peak causes no eviction while demands stay the
// same, with the dead band and the 15 minutes between two lowerings.
func TestEqualDemandsEvictNoPod(t *testing.T) {
	lowerings := 0
	for seed := range uint64(100) {
		w := newWorld(t, seed)
		for range 60 {
			w.tick()
		}
		lowerings += w.lowerings
	}
	assert.Greater(t, lowerings, 1500)
}

// A cluster without created or deleted pods stops resizing.
func TestAnIdleClusterSettles(t *testing.T) {
	for seed := range uint64(50) {
		w := newWorld(t, seed)
		for range 40 {
			w.tick()
		}
		rest := func() {
			w.now = w.now.Add(5 * time.Minute)
			for n := range w.nodes {
				w.settle(&w.nodes[n])
			}
		}
		for range 2 * LoweredEvery / (5 * time.Minute) {
			rest()
		}
		before := w.resizes
		rest()
		require.Equal(t, before, w.resizes)
	}
}

// inMi converts a pod's bytes to MiB, because memory is divided in whole MiB.
func inMi(p *Pod) {
	p.InitRequest[memory] *= mi
	for j := range p.Containers {
		c := &p.Containers[j]
		for _, a := range []*recommender.Amount{&c.Current[memory], &c.AtCreation[memory], &c.Least[memory], &c.CurrentLimit, &c.Of[memory].Base, &c.Of[memory].Peak, &c.Max7d, &c.OOM} {
			*a *= mi
		}
	}
}

// settleRandomly is a random node whose pods have current requests, some of them frozen.
func settleRandomly(rng *rand.Rand) (Amounts, []Pod) {
	available, pods := randomNode(rng, 15)
	freeze(rng, pods)
	available[memory] *= mi
	for i := range pods {
		inMi(&pods[i])
		if rng.IntN(4) == 0 {
			pods[i].LastLowered = noon.Add(-time.Duration(rng.IntN(30)) * time.Minute)
		}
		if rng.IntN(4) == 0 {
			pods[i].LastResized = noon.Add(-time.Duration(rng.IntN(60)) * time.Minute)
		}
	}
	return available, pods
}

func TestSettleProperties(t *testing.T) {
	rng := rand.New(rand.NewPCG(31, 32))
	for range 20_000 {
		available, pods := settleRandomly(rng)
		got := Share(available, pods)
		next := Settle(available, pods, got, noon)
		var before, after Amounts
		first := 0
		for i := range pods {
			p := &pods[i]
			mine := next[first : first+len(p.Containers)]
			first += len(mine)
			checkSettled(t, p, mine)
			for _, r := range recommender.Resources {
				before[r] += held(p, r)
				after[r] += counted(p, mine, r)
			}
		}
		for _, r := range recommender.Resources {
			must(t, after[r] <= max(before[r], available[r]), "more is held than there is")
			must(t, after[r]+[2]recommender.Amount{1, mi}[r] > min(before[r], got.Needed[r], max(0, available[r])), "less is held than is needed")
		}
	}
}

func checkSettled(t *testing.T, p *Pod, next []Grant) {
	t.Helper()
	for j, g := range next {
		c := &p.Containers[j]
		for r, to := range g.Request {
			must(t, to >= 0 && (to > 0 || c.Current[r] == 0 || c.Of[r] == Demand{} || c.Of[r].Base == 0), "nothing is left")
			must(t, recommender.Resource(r).WholeDown(to) == to, "not whole")
			must(t, to == c.Current[r] || !p.Frozen && !c.Restarts[r], "changed what must not be")
			must(t, to >= min(c.Current[r], c.Least[r]), "below what is allowed")
		}
		must(t, g.MemoryLimit == 0 || g.MemoryLimit >= g.Request[memory] || g.MemoryLimit == c.CurrentLimit, "a limit below the request")
	}
	must(t, !p.Lowers(next) || p.LastLowered.IsZero() || noon.Sub(p.LastLowered) >= LoweredEvery, "lowered too soon")
}

func TestTheOrderOfPodsSettlesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(33, 34))
	for range 3000 {
		available, pods := settleRandomly(rng)
		sizes := func() map[string][]Grant {
			shared := Share(available, pods)
			shared.Grants = Settle(available, pods, shared, noon)
			by := map[string][]Grant{}
			for i := range pods {
				by[pods[i].Name] = slices.Clone(grantsOf(shared, pods, i))
			}
			return by
		}
		want := sizes()
		rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		require.Equal(t, want, sizes())
	}
}

// Absurd amounts change no pod and cause no panic.
func TestSettleAbsurdAmounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(35, 36))
	absurd := []recommender.Amount{0, 1, -1, math.MinInt64, math.MaxInt64, recommender.MaxAmount, 1 << 62, 1000}
	amount := func() recommender.Amount { return absurd[rng.IntN(len(absurd))] }
	for range 20_000 {
		available := Amounts{amount(), amount()}
		pods := make([]Pod, rng.IntN(6))
		for i := range pods {
			pods[i] = randomPod(rng, string(rune('a'+i)), amount)
		}
		freeze(rng, pods)
		got := Share(available, pods)
		next := Settle(available, pods, got, noon)
		Holders(pods, got, next)
		for i := range pods {
			for j, g := range grantsOf(Result{Grants: next}, pods, i) {
				c := pods[i].Containers[j]
				for r, to := range g.Request {
					must(t, to >= 0 || to == c.Current[r], "a negative amount")
				}
			}
		}
	}
}

func BenchmarkSettle(b *testing.B) {
	available, pods := fullNode(1, 0)
	shared := Share(available, pods)
	b.ReportAllocs()
	for b.Loop() {
		Settle(available, pods, shared, noon)
	}
}
