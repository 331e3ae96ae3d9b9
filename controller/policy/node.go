package policy

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// forNode turns a container's target into that of the strategy Node: its workload's peak, which a new pod
// is given before there is a node, and the demand that its node shares. A resource that is held has none.
func (in inputs) forNode(c *corev1.Container, floors [2]recommender.Floor, t v1alpha1.ContainerTarget) v1alpha1.ContainerTarget {
	shared := in.demand(c.Name, floors, t)
	t.Demand = &shared
	seed := node.SeedOf(containerOf(c.Name, shared))
	t.Target = resize.ToResources(recommender.Size{
		recommender.CPU:    {Request: seed.Request[recommender.CPU]},
		recommender.Memory: {Request: seed.Request[recommender.Memory], Limit: seed.MemoryLimit},
	})
	t.MemoryLimitFloor = quantity(recommender.Memory, seed.MemoryLimitFloor)
	t.Steps = nodeSteps(shared, seed)
	return t
}

// demand is what is known of the container's workload, within what is allowed. Other replicas' base says
// nothing of a pod's own, which its node knows.
func (in inputs) demand(container string, floors [2]recommender.Floor, t v1alpha1.ContainerTarget) v1alpha1.ContainerDemand {
	settings := in.settings.Recommender
	var least, most, peaks, highest [2]recommender.Amount
	for _, r := range recommender.Resources {
		most[r] = settings.Of[r].MaxAllowed
		least[r] = max(settings.Of[r].MinAllowed, floors[r].Amount)
		if barred(t.Holds, r) {
			continue
		}
		of := in.highest(container, r)
		peak, known := node.Peak(of, in.now)
		if d, ok := (node.Forecast{Peak: peak, PeakKnown: known}).Demand(); ok {
			peaks[r] = d.Within(r, least[r], most[r]).Peak
		}
		if usage, known := node.Max7d(of, in.now); known {
			highest[r] = r.Whole(usage.RoundUp())
		}
	}
	before := in.storedDemand(container)
	return v1alpha1.ContainerDemand{
		CPUPeak:             quantity(recommender.CPU, settled(recommender.CPU, before.Of[recommender.CPU].Peak, peaks[recommender.CPU])),
		MemoryPeak:          quantity(recommender.Memory, settled(recommender.Memory, before.Of[recommender.Memory].Peak, peaks[recommender.Memory])),
		MemoryMax7d:         quantity(recommender.Memory, settled(recommender.Memory, before.Max7d, highest[recommender.Memory])),
		MemoryOOM:           quantity(recommender.Memory, resize.FloorsOf(in.status.Floors, container, in.now)[recommender.Memory].Amount),
		Least:               requests(least),
		Most:                requests(most),
		AllowMemoryDecrease: settings.Of[recommender.Memory].AllowDecrease,
	}
}

// settled keeps a stored amount where the new one is a little lower, as steady does.
func settled(r recommender.Resource, before, now recommender.Amount) recommender.Amount {
	if r.Whole(before) == before && fellALittle(before, now) {
		return before
	}
	return now
}

func (in inputs) storedDemand(container string) node.Container {
	for _, t := range in.stored {
		if t.Name == container && t.Demand != nil {
			return *containerOf(container, *t.Demand)
		}
	}
	return node.Container{}
}

// containerOf is a container that has just been born: its base is its peak.
func containerOf(name string, d v1alpha1.ContainerDemand) *node.Container {
	size := resize.FromResources(v1alpha1.Resources{CPURequest: d.CPUPeak, MemoryRequest: d.MemoryPeak})
	most := resize.FromResources(v1alpha1.Resources{MemoryRequest: d.MemoryMax7d, MemoryLimit: d.MemoryOOM})[recommender.Memory]
	c := &node.Container{Name: name, Max7d: most.Request, OOM: most.Limit}
	for _, r := range recommender.Resources {
		c.Of[r] = node.Demand{Base: size[r].Request, Peak: size[r].Request}
	}
	return c
}

func requests(of [2]recommender.Amount) v1alpha1.Resources {
	return v1alpha1.Resources{
		CPURequest: quantity(recommender.CPU, of[recommender.CPU]), MemoryRequest: quantity(recommender.Memory, of[recommender.Memory]),
	}
}

// nodeSteps explain a new pod's size. What its node makes of it is explained where the node is known.
func nodeSteps(d v1alpha1.ContainerDemand, seed node.Seed) []v1alpha1.Step {
	var steps []v1alpha1.Step
	for _, r := range recommender.Resources {
		if seed.Request[r] > 0 {
			steps = append(steps, v1alpha1.Step{
				Resource: r.String(), Name: node.StepPeak, Before: "0", After: recommender.Format(r, seed.Request[r]),
				Reason: "the most that a replica used in the last hour, or in the coming hour on one of the last 7 days, within bounds and floors; what falls by no more than 2 % is kept",
			})
		}
	}
	if seed.MemoryLimit > 0 {
		c := containerOf("", d)
		steps = append(steps, v1alpha1.Step{
			Resource: recommender.Memory.String(), Name: node.StepLimit, Before: "0", After: recommender.Format(recommender.Memory, seed.MemoryLimit),
			Reason: "2 × the greater of the most in 7 days, " + recommender.Readable(recommender.Memory, c.Max7d) +
				", and what OOM kills taught, " + recommender.Readable(recommender.Memory, c.OOM) + "; at least the request",
		})
	}
	return steps
}

// evictionRanking of a workload's pods: Never where its policy does not switch evictions on.
func evictionRanking(s policy.Settings, w workload.Workload) v1alpha1.EvictionRanking {
	switch {
	case s.Strategy != v1alpha1.StrategyNode:
		return ""
	case !s.NodeEviction:
		return v1alpha1.RankingNever
	case s.EvictionRanking != "":
		return s.EvictionRanking
	}
	return v1alpha1.EvictionRanking(node.DefaultRanking(w.Kind == v1alpha1.KindStatefulSet, w.Replicas).String())
}

// nodeSeed is a container's seed under the strategy Node: its peak, and the memory limit as it is.
func nodeSeed(t v1alpha1.ContainerTarget) v1alpha1.ContainerSeed {
	s := v1alpha1.ContainerSeed{Name: t.Name, MemoryLimitFloor: t.MemoryLimitFloor, AllowMemoryDecrease: t.Demand.AllowMemoryDecrease}
	if !barred(t.Holds, recommender.CPU) {
		s.CPURequest = t.Target.CPURequest
	}
	if !barred(t.Holds, recommender.Memory) {
		s.MemoryRequest, s.MemoryLimit = t.Target.MemoryRequest, t.Target.MemoryLimit
	}
	return s
}
