package node_test

import (
	"fmt"
	"math/rand/v2"

	"attune.io/attune/recommender"
	. "attune.io/attune/recommender/node"
)

const (
	cpu    = recommender.CPU
	memory = recommender.Memory
	mi     = recommender.Amount(1 << 20)
	plenty = recommender.Amount(1 << 40)
)

// Share is the result of a new Sharer.
func Share(available Amounts, pods []Pod) Result { return new(Sharer).Share(available, pods) }

// pod has one container, is alone in its group, and uses little memory.
func pod(name string, base, peak recommender.Amount, options ...func(*Pod)) Pod {
	p := Pod{Name: name, Containers: []Container{container("app", base, peak)}}
	for _, option := range options {
		option(&p)
	}
	return p
}

func container(name string, base, peak recommender.Amount) Container {
	return Container{Name: name, Of: [2]Demand{cpu: {Base: base, Peak: peak}, memory: {Base: mi, Peak: mi}}}
}

func ranked(r Ranking) func(*Pod)             { return func(p *Pod) { p.Ranking = r } }
func group(name string) func(*Pod)            { return func(p *Pod) { p.Group = name } }
func daemonSet(p *Pod)                        { p.DaemonSet = true }
func initCPU(a recommender.Amount) func(*Pod) { return func(p *Pod) { p.InitRequest[cpu] = a } }

// holding sets the current CPU requests, and the memory that the pod needs.
func holding(amounts ...recommender.Amount) func(*Pod) {
	return func(p *Pod) {
		for i, a := range amounts {
			p.Containers[i].Current = Amounts{a, p.Containers[i].Of[memory].Peak}
		}
	}
}

func remembering(base, peak recommender.Amount) func(*Pod) {
	return func(p *Pod) { p.Containers[0].Of[memory] = Demand{Base: base, Peak: peak} }
}

func holdingMemory(a recommender.Amount) func(*Pod) {
	return func(p *Pod) { p.Containers[0].Current[memory] = a }
}

// grantsOf returns a pod's part of the grants.
func grantsOf(result Result, pods []Pod, i int) []Grant {
	first := 0
	for j := range i {
		first += len(pods[j].Containers)
	}
	return result.Grants[first : first+len(pods[i].Containers)]
}

// cpuByPod is the CPU grant of each container, by pod; nil for evicted pods.
func cpuByPod(result Result, pods []Pod) map[string][]recommender.Amount {
	gone := map[string]bool{}
	for _, v := range result.Evictions {
		gone[v.Name] = true
	}
	grants := map[string][]recommender.Amount{}
	for i := range pods {
		if gone[pods[i].Name] {
			grants[pods[i].Name] = nil
			continue
		}
		for _, g := range grantsOf(result, pods, i) {
			grants[pods[i].Name] = append(grants[pods[i].Name], g.Request[cpu])
		}
	}
	return grants
}

func evicted(result Result) []string {
	var gone []string
	for _, v := range result.Evictions {
		gone = append(gone, v.Name)
	}
	return gone
}

// randomNode is a node near the point where its pods stop fitting. Amounts are small, so that rounding and equality are
// frequent.
func randomNode(rng *rand.Rand, most int) (Amounts, []Pod) {
	scale := []int64{10, 100, 2000}[rng.IntN(3)]
	amount := func() recommender.Amount { return recommender.Amount(rng.Int64N(scale)) }
	pods := make([]Pod, rng.IntN(most+1))
	var demand Amounts
	for i := range pods {
		pods[i] = randomPod(rng, fmt.Sprintf("shop/pod-%02d", i), amount)
		for _, c := range pods[i].Containers {
			demand[cpu] += (c.Of[cpu].Base + c.Of[cpu].Peak) / 2
			demand[memory] += c.Of[memory].Peak
		}
	}
	rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	var available Amounts
	for r := range available {
		available[r] = recommender.Amount(float64(demand[r])*(0.3+rng.Float64())) + amount()
	}
	return available, pods
}

func randomPod(rng *rand.Rand, name string, amount func() recommender.Amount) Pod {
	p := Pod{Name: name, Ranking: Ranking(rng.IntN(4)), DaemonSet: rng.IntN(8) == 0}
	if rng.IntN(3) == 0 {
		p.Group = fmt.Sprintf("group-%d", rng.IntN(3))
	}
	if rng.IntN(3) == 0 {
		p.InitRequest = Amounts{amount(), amount()}
	}
	for i := range 1 + rng.IntN(3) {
		c := Container{Name: fmt.Sprintf("c%d", i), Max7d: amount(), OOM: amount()}
		for _, r := range recommender.Resources {
			c.Of[r] = Demand{Base: amount(), Peak: amount()}
			if rng.IntN(3) > 0 {
				c.Current[r], c.AtCreation[r] = amount(), amount()
			}
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}

// freeze makes some pods and resources unchangeable, on every second node. It bounds others by Reach, and gives some
// pods more than they need.
func freeze(rng *rand.Rand, pods []Pod) {
	if rng.IntN(2) == 0 {
		return
	}
	for i := range pods {
		pods[i].Frozen = rng.IntN(4) == 0
		for j := range pods[i].Containers {
			c := &pods[i].Containers[j]
			for r := range c.Restarts {
				c.Restarts[r] = rng.IntN(10) == 0
				if rng.IntN(6) == 0 {
					c.Reach[r] = []recommender.Amount{c.Current[r], recommender.Resource(r).WholeDown(max(0, c.Of[r].Base))}[rng.IntN(2)]
				}
				if rng.IntN(6) == 0 {
					c.Least[r] = 1 + c.Of[r].Base + c.Of[r].Base/2
				}
			}
		}
	}
}
