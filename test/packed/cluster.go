package packed

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

const cpu = recommender.CPU

// watch is how long a resize is watched, with what it takes to be seen, and look how often each node is looked at.
const (
	watch = 5*time.Minute + 20*time.Second
	look  = 5 * time.Minute
	// memory is plenty: what is played is CPU.
	memory = 64 << 20
)

// Play says how a cluster is played.
type Play struct {
	// Warm is how much of the trace is history before the first pod comes, Arrive how long pods come, Settle how long
	// after that nothing is counted, and Measure how long it is counted.
	Warm, Arrive, Settle, Measure time.Duration
	// NodeCPU of each node, and MostPods on one.
	NodeCPU  recommender.Amount
	MostPods int
	// Evict: pods that do not fit go to another node.
	Evict bool
	Seed  uint64
}

// pod of the cluster.
type pod struct {
	*series
	request recommender.Amount
	born    int
	// watched until a time; lowered and resized last at a time.
	watched, lowered, resized time.Time
	resizes                   []time.Time
}

// machine is a node.
type machine struct {
	available recommender.Amount
	pods      []*pod
	phase     int
}

func (m *machine) held() (sum recommender.Amount) {
	for _, p := range m.pods {
		sum += p.request
	}
	return sum
}

// cluster as it is at a minute.
type cluster struct {
	play     Play
	usage    *Usage
	strategy Strategy
	minute   int
	now      time.Time
	machines []*machine
	sharer   node.Sharer
	counting bool
	found    Found
}

// begin of every trace's time.
var begin = time.Unix(0, 0).UTC()

// Run a strategy.
func Run(u *Usage, p Play, s Strategy) Found {
	c := &cluster{play: p, usage: u, strategy: s, found: Found{Strategy: s.Name}}
	c.goTo(int(p.Warm.Minutes()))
	order := rand.New(rand.NewPCG(p.Seed, 7)).Perm(len(u.pods))
	arrive := max(1, int(p.Arrive.Minutes()))
	placed := 0
	for m := range arrive {
		for ; placed*arrive < len(order)*(m+1) && placed < len(order); placed++ {
			c.place(&pod{series: u.pods[order[placed]]})
		}
		c.tick()
	}
	for range int(p.Settle.Minutes()) {
		c.tick()
	}
	c.counting = true
	for range int(p.Measure.Minutes()) {
		c.tick()
		c.count()
	}
	return c.sum()
}

func (c *cluster) goTo(minute int) {
	c.minute, c.now = minute, begin.Add(time.Duration(minute)*time.Minute)
}

// tick is a minute: the nodes whose turn it is are looked at, and those of which a watch is over.
func (c *cluster) tick() {
	c.goTo(c.minute + 1)
	for _, m := range c.machines {
		c.strategy.tick(c, m)
	}
}

// due: the machine is looked at in this minute.
func (c *cluster) due(m *machine) bool {
	if (c.minute+m.phase)%int(look.Minutes()) == 0 {
		return true
	}
	return slices.ContainsFunc(m.pods, func(p *pod) bool {
		return !p.watched.After(c.now) && p.watched.After(c.now.Add(-time.Minute)) || p.born == c.minute-1
	})
}

// place a newcomer on the first node that has room for it, or on a new one.
func (c *cluster) place(p *pod) {
	p.request, p.born = c.strategy.birth(c, p.series), c.minute
	p.watched, p.lowered, p.resized = time.Time{}, time.Time{}, time.Time{}
	i := slices.IndexFunc(c.machines, func(m *machine) bool {
		return len(m.pods) < c.play.MostPods && m.held()+p.request <= m.available
	})
	if i < 0 {
		i = len(c.machines)
		c.machines = append(c.machines, &machine{available: max(c.play.NodeCPU, p.request), phase: i})
	}
	m := c.machines[i]
	m.pods = append(m.pods, p)
	slices.SortFunc(m.pods, func(a, b *pod) int { return cmp.Compare(a.name, b.name) })
}

// resize a pod, and watch it.
func (c *cluster) resize(p *pod, to recommender.Amount) {
	if to < p.request {
		p.lowered = c.now
	}
	p.request, p.watched, p.resized = to, c.now.Add(watch), c.now
	if c.counting {
		p.resizes = append(p.resizes, c.now)
	}
}

// share is a look of the strategy Node.
func (c *cluster) share(m *machine) {
	if !c.due(m) {
		return
	}
	pods := make([]node.Pod, len(m.pods))
	for i, p := range m.pods {
		pods[i] = c.demand(p)
	}
	available := node.Amounts{m.available, 1 << 50}
	result := c.sharer.Share(available, pods)
	next := node.Settle(available, pods, result, c.now)
	evicted := map[int]bool{}
	for _, v := range result.Evictions {
		evicted[v.Pod] = true
	}
	short := result.Overcommitted[cpu] || len(evicted) > 0
	var moves []move
	for i, p := range m.pods {
		if to := next[i].Request[cpu]; !evicted[i] && !pods[i].Frozen && to != p.request {
			moves = append(moves, move{p, to})
		}
	}
	c.move(m, moves)
	if !short {
		return
	}
	c.found.short(c.counting, len(evicted), c.wouldFit(available, pods))
	for i, p := range slices.Clone(m.pods) {
		if evicted[i] {
			m.pods = slices.DeleteFunc(m.pods, func(o *pod) bool { return o == p })
			defer c.place(p)
		}
	}
}

// wouldFit: everybody would, if all could be changed.
func (c *cluster) wouldFit(available node.Amounts, pods []node.Pod) bool {
	for i := range pods {
		pods[i].Frozen, pods[i].Ranking = false, node.Never
	}
	return !new(node.Sharer).Share(available, pods).Overcommitted[cpu]
}

type move struct {
	*pod
	to recommender.Amount
}

// move pods: those that are lowered first, then those that are raised, as far as there is room.
func (c *cluster) move(m *machine, moves []move) {
	slices.SortStableFunc(moves, func(a, b move) int { return cmp.Compare(a.to-a.request, b.to-b.request) })
	for _, v := range moves {
		if v.to > v.request && m.held()-v.request+v.to > m.available {
			c.found.Refused++
			continue
		}
		c.resize(v.pod, v.to)
	}
}

// demand of a pod, as the operator knows it.
func (c *cluster) demand(p *pod) node.Pod {
	of := node.Container{Name: "app", Current: node.Amounts{p.request, memory}, Of: [2]node.Demand{{}, node.Unmeasured(memory)}}
	known := p.lately(c.minute, int(node.BaseCPUWindow.Minutes()))
	forecast := node.Forecast{Peak: c.peak(p.workload), PeakKnown: true}
	if len(known) > 0 && c.minute-p.born >= int(node.BaseCPUWindow.Minutes())/2 {
		forecast.Base, forecast.BaseKnown = recommender.Quantile(known, 0.75), true
	}
	of.Of[cpu] = node.Unmeasured(p.request)
	if d, ok := forecast.Demand(); ok && forecast.BaseKnown {
		of.Of[cpu] = d
	}
	ranking := node.Never
	if c.play.Evict {
		ranking = node.Low
	}
	return node.Pod{
		Name: p.name, Group: p.workload, Ranking: ranking, Frozen: p.watched.After(c.now) || node.Paced(p.resized, c.now), LastLowered: p.lowered, LastResized: p.resized,
		Containers: []node.Container{of},
	}
}

// span of a workload's usage, as the store answers it.
func (c *cluster) span(workload string) node.Span {
	return func(from, to time.Time) (recommender.Usage, bool) {
		first, last := int(from.Sub(begin).Minutes()), int(to.Sub(begin).Minutes())
		if last < 0 {
			return 0, false
		}
		return recommender.Usage(c.usage.over(workload, first, last) * 1000), true
	}
}

func (c *cluster) peak(workload string) recommender.Usage {
	peak, _ := node.Peak(c.span(workload), c.now)
	return peak
}

// Found is what came of it.
type Found struct {
	Strategy string
	// Reserved and Used are means, in cores.
	Reserved, Used float64
	Nodes, Pods    int
	// Overloaded is the part of node minutes in which more was used than the node has, Starved the minutes of pods there
	// that needed more than they request, Above the part of pod minutes above the request.
	Overloaded float64
	Starved    int
	Above      float64
	// Resizes of a pod in an hour, and the most that one pod had in an hour.
	Resizes float64
	Busiest int
	// Refused raises had no room. Short looks found that the pods do not fit; Evictions are pods that went, Needless those
	// of looks in which everybody would have fitted.
	Refused, Short, Evictions, Needless int

	minutes, overloaded, above, podMinutes int
}

func (f *Found) short(counting bool, evicted int, fits bool) {
	if !counting {
		return
	}
	f.Short++
	f.Evictions += evicted
	if fits {
		f.Needless += max(1, evicted)
	}
}

// count a minute.
func (c *cluster) count() {
	f := &c.found
	for _, m := range c.machines {
		total := 0.0
		for _, p := range m.pods {
			total += p.at(c.minute) * 1000
		}
		f.minutes++
		f.Used += total
		f.Reserved += float64(m.held())
		over := total > float64(m.available)
		if over {
			f.overloaded++
		}
		for _, p := range m.pods {
			f.podMinutes++
			if p.at(c.minute)*1000 > float64(p.request) {
				f.above++
				if over {
					f.Starved++
				}
			}
		}
	}
}

func (c *cluster) sum() Found {
	f := c.found
	minutes := c.play.Measure.Minutes()
	f.Reserved, f.Used = f.Reserved/minutes/1000, f.Used/minutes/1000
	f.Nodes = len(c.machines)
	f.Overloaded, f.Above = part(f.overloaded, f.minutes), part(f.above, f.podMinutes)
	resizes := 0
	for _, m := range c.machines {
		f.Pods += len(m.pods)
		for _, p := range m.pods {
			resizes += len(p.resizes)
			f.Busiest = max(f.Busiest, inAnHour(p.resizes))
		}
	}
	f.Resizes = float64(resizes) / float64(f.Pods) / c.play.Measure.Hours()
	return f
}

func part(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// inAnHour is the most of some times within an hour.
func inAnHour(times []time.Time) (most int) {
	for i, last := range times {
		n := 0
		for _, t := range times[:i+1] {
			if last.Sub(t) < time.Hour {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// String is a row of the table.
func (f Found) String() string {
	return fmt.Sprintf("| %-22s | %7.1f | %3d | %5.2f %% | %5d | %5.2f %% | %5.2f | %3d | %5d | %4d | %3d |",
		f.Strategy, f.Reserved, f.Nodes, f.Overloaded*100, f.Starved, f.Above*100, f.Resizes, f.Busiest, f.Short, f.Evictions, f.Needless)
}

// Header of the table.
const Header = "| strategy | reserved cores | nodes | overloaded node minutes | starved pod minutes | pod minutes above the request | resizes per pod and hour | busiest pod in an hour | looks that found too little | evictions | needless |\n|---|---|---|---|---|---|---|---|---|---|---|"

func whole(cores float64) recommender.Amount {
	return max(1, recommender.Amount(math.Ceil(cores*1000)))
}
