package node_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	. "attune.io/attune/recommender/node"
)

type amounts = map[string][]recommender.Amount

func TestGolden(t *testing.T) {
	abc := func(options ...[]func(*Pod)) []Pod {
		pods := []Pod{pod("a", 1000, 3000), pod("b", 1000, 2000), pod("c", 1000, 2000)}
		for i, list := range options {
			for _, option := range list {
				option(&pods[i])
			}
		}
		return pods
	}
	var ten []Pod
	for i := range 10 {
		ten = append(ten, pod(fmt.Sprintf("p%d", i), 100, 500))
	}
	tenth := func(each recommender.Amount) amounts {
		all := amounts{}
		for _, p := range ten {
			all[p.Name] = []recommender.Amount{each}
		}
		return all
	}
	nineOfTen := tenth(144)
	nineOfTen["p0"] = nil
	sidecar := Pod{Name: "a", Containers: []Container{container("app", 1000, 2000), container("mesh", 100, 600)}}

	for _, tc := range []struct {
		name          string
		available     recommender.Amount
		pods          []Pod
		want          amounts
		evictions     []string
		overcommitted bool
	}{
		{name: "it fits, and equality does", available: 5000, pods: abc(),
			want: amounts{"a": {2000}, "b": {1500}, "c": {1500}}},
		{name: "the largest spike goes", available: 4990, pods: abc(),
			want: amounts{"a": nil, "b": {1500}, "c": {1500}}, evictions: []string{"a"}},
		{name: "a millicore short is short", available: 4999, pods: abc(),
			want: amounts{"a": nil, "b": {1500}, "c": {1500}}, evictions: []string{"a"}},
		{name: "Low goes before Medium", available: 4990, pods: abc([]func(*Pod){ranked(Medium)}, nil, []func(*Pod){ranked(Medium)}),
			want: amounts{"a": {2333}, "b": nil, "c": {1666}}, evictions: []string{"b"}},
		{name: "ten fit", available: 1400, pods: ten, want: tenth(140)},
		{name: "nine of ten fit", available: 1390, pods: ten, want: nineOfTen, evictions: []string{"p0"}},
		{name: "two nginx and a busybox", available: 8000,
			pods: []Pod{pod("nginx-1", 250, 800), pod("nginx-2", 250, 800), pod("busybox", 80, 150)},
			want: amounts{"nginx-1": {508}, "nginx-2": {508}, "busybox": {112}}},
		{name: "no spikes, no division by zero", available: 1500, pods: []Pod{pod("a", 1000, 1000), pod("b", 500, 500)},
			want: amounts{"a": {1000}, "b": {500}}},
		{name: "an empty node", available: 1000},
		{name: "a peak below the base is the base", available: 1000, pods: []Pod{pod("a", 500, 100)}, want: amounts{"a": {500}}},

		{name: "replicas spike together", available: 2100, pods: []Pod{pod("a", 250, 800, group("web")), pod("b", 250, 800, group("web")), pod("c", 500, 600)},
			want: amounts{"a": {754}, "b": {754}, "c": {591}}},
		{name: "and do not fit where independent ones do", available: 2099, pods: []Pod{pod("a", 250, 800, group("web")), pod("b", 250, 800, group("web")), pod("c", 500, 600)},
			want: amounts{"a": nil, "b": {715}, "c": {584}}, evictions: []string{"a"}},
		{name: "containers of a pod spike together", available: 2600, pods: []Pod{sidecar},
			want: amounts{"a": {2000, 600}}},
		{name: "and no less does", available: 2599, pods: []Pod{sidecar}, want: amounts{"a": nil}, evictions: []string{"a"}},

		{name: "a DaemonSet asks for its base alone", available: 1500, pods: []Pod{pod("ds", 500, 3000, daemonSet, createdWith(800)), pod("a", 500, 1000)},
			want: amounts{"ds": {500}, "a": {1000}}},
		{name: "and is raised to it by what nobody needs", available: 1500, pods: []Pod{pod("ds", 500, 3000, daemonSet, createdWith(300)), pod("a", 500, 1000)},
			want: amounts{"ds": {500}, "a": {1000}}},
		{name: "nobody goes for its base", available: 1300, pods: []Pod{pod("ds", 500, 3000, daemonSet, createdWith(300)), pod("a", 500, 1000)},
			want: amounts{"ds": {300}, "a": {1000}}},
		{name: "one whose birth is not known asks like others", available: 2000, pods: []Pod{pod("ds", 500, 1500, daemonSet), pod("a", 500, 1000)},
			want: amounts{"ds": {1166}, "a": {833}}},
		{name: "and stays", available: 1999, pods: []Pod{pod("ds", 500, 1500, daemonSet), pod("a", 500, 1000)},
			want: amounts{"ds": {1500}, "a": nil}, evictions: []string{"a"}},

		{name: "an init request is a base", available: 1500, pods: []Pod{pod("a", 100, 400, initCPU(1000)), pod("b", 100, 500)},
			want: amounts{"a": {400}, "b": {500}}},
		{name: "inside it containers rise for nothing", available: 1800,
			pods: []Pod{pod("a", 100, 1300, initCPU(1000)), pod("b", 100, 800)},
			// a: base' 1000, spike' 300; b: spike 700, which is the reserve: a rises by 700 × 300/1000.
			want: amounts{"a": {1210}, "b": {590}}},
		{name: "in proportion to their spikes", available: 2000,
			pods: []Pod{
				{Name: "a", InitRequest: Amounts{1000}, Containers: []Container{container("x", 100, 900), container("y", 100, 500)}},
				pod("b", 100, 1000),
			},
			// a climbs from 200 to 1000 within its init request, then by 900 × 400/1300 of the reserve: 1076.9 of 1200
			// in total.
			want: amounts{"a": {817, 458}, "b": {723}}},

		{name: "Never is never", available: 1000, pods: []Pod{pod("a", 600, 900, ranked(Never)), pod("b", 600, 700, ranked(High))},
			want: amounts{"a": {900}, "b": nil}, evictions: []string{"b"}},
		{name: "the protected alone are too many: nobody goes in vain", available: 1000,
			pods: []Pod{pod("a", 600, 900, ranked(Never), holding(500)), pod("b", 600, 700, daemonSet), pod("c", 100, 200, holding(90))},
			// 590 are held; of the remaining 410, a has 100/710, c 10/710, and b, which holds nothing, 600/710.
			want: amounts{"a": {557}, "b": {346}, "c": {95}}, overcommitted: true},
		{name: "nobody holds more than he is granted", available: 1000,
			pods: []Pod{pod("a", 600, 900, ranked(Never), holding(5000)), pod("b", 600, 700, ranked(Never))},
			want: amounts{"a": {825}, "b": {175}}, overcommitted: true},
		{name: "who still fits is taken back", available: 3000,
			// a has the larger spike and is chosen first, then b; without b there is room for a.
			pods: []Pod{pod("a", 100, 400), pod("b", 3000, 3100), pod("c", 500, 600, ranked(Never))},
			want: amounts{"a": {325}, "b": nil, "c": {575}}, evictions: []string{"b"}},
		{name: "ties go by name", available: 100, pods: []Pod{pod("z/a", 100, 100), pod("b/z", 100, 100)},
			want: amounts{"b/z": nil, "z/a": {100}}, evictions: []string{"b/z"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := Share(Amounts{tc.available, plenty}, tc.pods)
			if len(tc.want) > 0 {
				assert.Equal(t, tc.want, cpuByPod(got, tc.pods))
			}
			assert.Equal(t, tc.evictions, evicted(got))
			assert.Equal(t, [2]bool{tc.overcommitted, false}, got.Overcommitted)
		})
	}
}

func TestGoldenMemory(t *testing.T) {
	share := func(available recommender.Amount, pods ...Pod) Result { return Share(Amounts{plenty, available}, pods) }
	requests := func(result Result) (all []recommender.Amount) {
		for _, g := range result.Grants {
			all = append(all, g.Request[memory])
		}
		return all
	}
	a, b := pod("a", 0, 0, remembering(100*mi, 300*mi)), pod("b", 0, 0, remembering(100*mi, 200*mi))

	got := share(500*mi, a, b)
	assert.Equal(t, []recommender.Amount{300 * mi, 200 * mi}, requests(got), "it is not shared, and equality fits")
	assert.Empty(t, got.Evictions)

	got = share(500*mi-1, a, b)
	assert.Equal(t, []string{"a"}, evicted(got))
	assert.Equal(t, []recommender.Amount{0, 200 * mi}, requests(got))
	require.Len(t, got.Evictions, 1)
	assert.Equal(t, "memory does not fit: with this pod, the remaining pods need 500Mi, and 524287999 is available; ranking Low, own spike 200Mi", got.Evictions[0].Reason())

	a.Ranking, b.Ranking = Never, Never
	a.Containers[0].Current[memory], b.Containers[0].Current[memory] = 150*mi, 250*mi
	got = share(400*mi, a, b)
	assert.Equal(t, [2]bool{false, true}, got.Overcommitted)
	assert.Equal(t, []recommender.Amount{200 * mi, 200 * mi}, requests(got), "up to its peak")

	got = share(500*mi, pod("a", 0, 0, remembering(100*mi, 300*mi), func(p *Pod) { p.InitRequest[memory] = 400 * mi }), b)
	assert.Equal(t, []string{"a"}, evicted(got), "the scheduler keeps the init request")

	ds := pod("ds", 0, 0, remembering(100*mi, 300*mi), daemonSet, func(p *Pod) { p.Containers[0].AtCreation[memory] = 250 * mi })
	assert.Equal(t, []recommender.Amount{250 * mi, 200 * mi}, requests(share(450*mi, ds, pod("b", 0, 0, remembering(100*mi, 200*mi)))),
		"a DaemonSet is never raised, and not lowered below what it needs at times")
}

// Memory is evicted for first, and a pod evicted for memory is not evicted again for CPU.
func TestMemoryGoesFirst(t *testing.T) {
	pods := []Pod{
		pod("lean", 900, 1000, remembering(10*mi, 20*mi)),
		pod("fat", 10, 20, remembering(10*mi, 900*mi)),
		pod("both", 500, 900, remembering(10*mi, 400*mi)),
	}
	got := Share(Amounts{1000, 500 * mi}, pods)
	assert.Equal(t, []string{"fat", "both"}, evicted(got))
	assert.Equal(t, memory, got.Evictions[0].Resource)
	assert.Equal(t, cpu, got.Evictions[1].Resource)
	assert.Equal(t, "CPU does not fit: with this pod, the remaining pods need 1800m, and 1 is available; ranking Low, own spike 400m", got.Evictions[1].Reason())
}

func TestMemoryLimit(t *testing.T) {
	assert.Equal(t, 440*mi, (&Container{Max7d: 220 * mi, OOM: 0}).MemoryLimit(220*mi))
	assert.Equal(t, 600*mi, (&Container{Max7d: 220 * mi, OOM: 300 * mi}).MemoryLimit(220*mi))
	assert.Equal(t, 500*mi, (&Container{Max7d: 220 * mi, OOM: 0}).MemoryLimit(500*mi), "never below the request")
	assert.Zero(t, (&Container{Max7d: 0, OOM: 0}).MemoryLimit(220*mi), "none where nothing is known")
	assert.Equal(t, 2*recommender.MaxAmount, (&Container{Max7d: 1 << 62, OOM: 1 << 62}).MemoryLimit(1))
	assert.Zero(t, (&Container{Max7d: -1, OOM: -5}).MemoryLimit(0))
	assert.Equal(t, 441*mi, (&Container{Max7d: 220*mi + 1, OOM: 0}).MemoryLimit(220*mi), "in whole MiB")
	assert.Equal(t, 400*mi, (&Container{Max7d: 220 * mi, LimitMost: 400 * mi}).MemoryLimit(220*mi), "the brake")
	assert.Equal(t, 420*mi, (&Container{Max7d: 220 * mi, LimitMost: 400 * mi}).MemoryLimit(420*mi), "never below the request")

	p := pod("a", 100, 100, remembering(100*mi, 220*mi))
	p.Containers[0].Max7d = 220 * mi
	assert.Equal(t, 440*mi, Share(Amounts{plenty, plenty}, []Pod{p}).Grants[0].MemoryLimit)
}

func TestRankings(t *testing.T) {
	assert.Equal(t, Medium, DefaultRanking(true, 5))
	assert.Equal(t, Medium, DefaultRanking(false, 1))
	assert.Equal(t, Low, DefaultRanking(false, 2))
	for _, r := range []Ranking{Low, Medium, High, Never} {
		got, ok := RankingOf(r.String())
		assert.True(t, ok)
		assert.Equal(t, r, got)
	}
	got, ok := RankingOf("low")
	assert.False(t, ok)
	assert.Equal(t, Never, got, "in doubt nobody goes")
}
