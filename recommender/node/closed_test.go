package node_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/recommender"
	. "attune.io/attune/recommender/node"
)

const (
	look  = 5 * time.Minute
	watch = 5*time.Minute + 20*time.Second
)

// loop is a cluster whose nodes are reconciled every 5 minutes, and whose pods are resized accordingly. A resized pod
// is observed for a while, and at random times some pods are blocked for other reasons.
type loop struct {
	t     *testing.T
	rng   *rand.Rand
	now   time.Time
	nodes []loopNode
	// last is when a pod was last created, deleted or unblocked, changed when a pod was last resized.
	last, changed time.Time
	createdWith   int
	grown         bool
	resizes       int
	evictions     int
	// falseEvictions counts evictions on nodes where all pods would have fitted.
	falseEvictions, overcommitted int
}

type loopNode struct {
	available Amounts
	pods      []loopPod
}

type loopPod struct {
	Pod
	watched time.Time
	held    []span
}

type span struct{ from, until time.Time }

func newLoop(t *testing.T, seed uint64) *loop {
	l := &loop{t: t, rng: rand.New(rand.NewPCG(seed, 77)), now: noon, last: noon}
	evicts := l.rng.IntN(2) == 0
	for range 1 + l.rng.IntN(3) {
		l.nodes = append(l.nodes, loopNode{available: Amounts{recommender.Amount(1000 + l.rng.Int64N(15000)), recommender.Amount(2000+l.rng.Int64N(30_000)) * mi}})
	}
	// Created pods take the free room until nodes are full.
	for range 30 {
		for range l.rng.IntN(10) {
			l.admit(evicts)
		}
		l.tick()
	}
	// In some clusters admitted pods need more than at admission.
	if l.grown = l.rng.IntN(3) == 0; l.grown {
		l.each(func(p *loopPod) { l.demand(p, 1+l.rng.Float64()) })
	}
	return l
}

func (l *loop) each(visit func(*loopPod)) {
	for n := range l.nodes {
		for i := range l.nodes[n].pods {
			visit(&l.nodes[n].pods[i])
		}
	}
}

// demand multiplies a pod's demand by a factor.
func (l *loop) demand(p *loopPod, factor float64) {
	for j := range p.Containers {
		for r, d := range p.Containers[j].Of {
			base, peak := 1+recommender.Amount(float64(d.Base)*factor), 1+recommender.Amount(float64(d.Peak)*factor)
			if r == int(memory) {
				base, peak = memory.Whole(base+16*mi), memory.Whole(peak+16*mi)
			}
			p.Containers[j].Of[r] = Demand{base, max(base, peak)}
		}
	}
}

// admit gives a pod its day's peak and the first place with room.
func (l *loop) admit(evicts bool) {
	rng := l.rng
	l.createdWith++
	p := Pod{Name: fmt.Sprintf("shop/pod-%04d", l.createdWith), Ranking: Never, DaemonSet: rng.IntN(10) == 0}
	if evicts {
		p.Ranking = Ranking(rng.IntN(4))
	}
	if rng.IntN(2) == 0 {
		p.Group = fmt.Sprintf("shop/group-%d", rng.IntN(8))
	}
	scale := []int64{20, 200, 1000}[rng.IntN(3)]
	if rng.IntN(6) == 0 {
		p.InitRequest = Amounts{recommender.Amount(rng.Int64N(2 * scale)), recommender.Amount(rng.Int64N(2*scale)) * mi}
	}
	for i := range 1 + rng.IntN(2) {
		c := Container{Name: fmt.Sprintf("c%d", i)}
		for r, unit := range [2]recommender.Amount{1, mi} {
			base := recommender.Amount(1 + rng.Int64N(scale))
			peak := base + recommender.Amount(rng.Int64N(3*scale))
			c.Of[r] = Demand{base * unit, peak * unit}
			c.Day[r] = c.Of[r].Peak
			c.Restarts[r] = rng.IntN(30) == 0
			if rng.IntN(15) == 0 {
				c.Least[r] = (base + peak) * unit
			}
		}
		c.Max7d = c.Of[memory].Peak
		seed := SeedOf(&c)
		c.Current, c.AtCreation, c.CurrentLimit = seed.Request, seed.Request, seed.MemoryLimit
		p.Containers = append(p.Containers, c)
	}
	for n := range l.nodes {
		node := &l.nodes[n]
		if node.sum(cpu)+held(&p, cpu) <= node.available[cpu] && node.sum(memory)+held(&p, memory) <= node.available[memory] {
			node.pods = append(node.pods, loopPod{Pod: p, held: l.holds()})
			l.went()
			return
		}
	}
}

// holds are times within the first hours in which a pod is paused, rolls out or cools down.
func (l *loop) holds() (all []span) {
	for range max(0, l.rng.IntN(5)-2) {
		from := l.now.Add(time.Duration(l.rng.IntN(240)) * time.Minute)
		until := from.Add(time.Duration(1+l.rng.IntN(120)) * time.Minute)
		all = append(all, span{from, until})
		if until.After(l.last) {
			l.last = until
		}
	}
	return all
}

func (n *loopNode) sum(r recommender.Resource) (sum recommender.Amount) {
	for i := range n.pods {
		sum += held(&n.pods[i].Pod, r)
	}
	return sum
}

func (p *loopPod) frozen(now time.Time) bool {
	return now.Before(p.watched) || Paced(p.LastResized, now) || slices.ContainsFunc(p.held, func(s span) bool { return !now.Before(s.from) && now.Before(s.until) })
}

func (l *loop) tick() {
	l.now = l.now.Add(look)
	for n := range l.nodes {
		l.look(&l.nodes[n])
	}
}

func (l *loop) look(n *loopNode) {
	pods := make([]Pod, len(n.pods))
	for i := range n.pods {
		pods[i] = n.pods[i].Pod
		pods[i].Frozen = n.pods[i].frozen(l.now)
	}
	got := Share(n.available, pods)
	next := Settle(n.available, pods, got, l.now)
	l.judge(n.available, pods, got)
	before := Amounts{n.sum(cpu), n.sum(memory)}
	raised := [2]bool{}
	first := 0
	for i := range n.pods {
		p := &n.pods[i]
		mine := next[first : first+len(p.Containers)]
		first += len(mine)
		for r, up := range l.resize(p, mine, pods[i].Frozen) {
			raised[r] = raised[r] || up
		}
	}
	for _, r := range recommender.Resources {
		sum := n.sum(r)
		must(l.t, !raised[r] || sum <= n.available[r], "a raise without room")
		must(l.t, sum <= max(before[r], n.available[r]), "more is held")
		must(l.t, sum+[2]recommender.Amount{1, mi}[r] > min(got.Needed[r], n.available[r], before[r]), "room is shown that is owed")
	}
	for k := len(got.Evictions) - 1; k >= 0; k-- {
		name := got.Evictions[k].Name
		n.pods = slices.DeleteFunc(n.pods, func(p loopPod) bool { return p.Name == name })
		l.evictions++
		l.went()
	}
}

func (l *loop) count() (pods int) {
	l.each(func(*loopPod) { pods++ })
	return pods
}

// went records that a pod has gone: the hour starts again.
func (l *loop) went() {
	if l.now.After(l.last) {
		l.last = l.now
	}
}

// judge compares the result with the result for pods that can all be changed.
func (l *loop) judge(available Amounts, pods []Pod, got Result) {
	if len(got.Evictions) == 0 && got.Overcommitted == [2]bool{} {
		return
	}
	l.overcommitted++
	thawed := slices.Clone(pods)
	for i := range thawed {
		thawed[i].Frozen, thawed[i].Ranking = false, Never
		thawed[i].Containers = slices.Clone(thawed[i].Containers)
		for j := range thawed[i].Containers {
			thawed[i].Containers[j].Restarts = [2]bool{}
		}
	}
	if all := Share(available, thawed); all.Overcommitted == [2]bool{} {
		l.falseEvictions++
	}
}

// resize a pod, and return which resources were raised.
func (l *loop) resize(p *loopPod, next []Grant, frozen bool) (raised [2]bool) {
	changed := false
	if p.Lowers(next) {
		must(l.t, p.LastLowered.IsZero() || l.now.Sub(p.LastLowered) >= LoweredEvery, "lowered too soon")
		p.LastLowered = l.now
	}
	p.Containers = slices.Clone(p.Containers)
	for j := range next {
		c := &p.Containers[j]
		for r, to := range next[j].Request {
			raised[r] = raised[r] || to > c.Current[r]
			must(l.t, to > 0, "nothing is left")
			must(l.t, recommender.Resource(r).WholeDown(to) == to, "not whole")
			must(l.t, to == c.Current[r] || !c.Restarts[r], "a container is restarted")
		}
		must(l.t, next[j].MemoryLimit >= next[j].Request[memory], "a limit below the request")
		changed = changed || next[j].Request != c.Current || next[j].MemoryLimit != c.CurrentLimit
		c.Current, c.CurrentLimit = next[j].Request, next[j].MemoryLimit
	}
	if changed {
		must(l.t, !frozen, "a frozen pod is changed")
		must(l.t, !Paced(p.LastResized, l.now), "resized too soon")
		p.watched, p.LastResized = l.now.Add(watch), l.now
		l.changed = l.now
		l.resizes++
	}
	return raised
}

// At constant demand, the changeable pods stop changing an hour after the last pod was deleted or unblocked.
func TestConstantDemandsSettle(t *testing.T) {
	rest, overcommitted, evictions, resizes, pods := 0, 0, 0, 0, 0
	for seed := range uint64(100) {
		l := newLoop(t, seed)
		for l.now.Before(l.last.Add(4 * time.Hour)) {
			l.tick()
		}
		require.Zero(t, l.falseEvictions, "seed %d", seed)
		if !l.grown {
			require.Zero(t, l.overcommitted, "who was admitted at his peak makes nobody go: seed %d", seed)
		}
		pods += l.count()
		if !l.changed.After(l.last.Add(time.Hour)) {
			rest++
		} else {
			t.Logf("seed %d: still changing %v after the last thaw", seed, l.changed.Sub(l.last))
		}
		overcommitted, evictions, resizes = overcommitted+l.overcommitted, evictions+l.evictions, resizes+l.resizes
	}
	assert.Equal(t, 100, rest)
	t.Logf("%d pods, %d resizes, %d evictions, %d looks that did not fit", pods, resizes, evictions, overcommitted)
	assert.Greater(t, evictions, 10, "the clusters are too roomy")
	assert.Greater(t, overcommitted, 1000)
}

// For any demands, no pod is evicted from a node where all pods would have fitted, and no raise is made without room.
func TestChangingDemandsEvictNoPodNeedlessly(t *testing.T) {
	evictions, overcommitted := 0, 0
	for seed := range uint64(60) {
		l := newLoop(t, 1000+seed)
		for range 100 {
			l.each(func(p *loopPod) {
				if l.rng.IntN(6) == 0 {
					l.demand(p, 0.75+0.5*l.rng.Float64())
				}
			})
			if l.rng.IntN(3) == 0 {
				l.admit(true)
			}
			l.tick()
		}
		require.Zero(t, l.falseEvictions, "seed %d", seed)
		evictions, overcommitted = evictions+l.evictions, overcommitted+l.overcommitted
	}
	assert.Greater(t, evictions, 100)
	assert.Greater(t, overcommitted, 500)
}
