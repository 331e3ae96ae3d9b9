package targets

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// sharer computes the targets of strategy Node, under which each node shares its spike headroom among its pods. The
// calculation is in recommender/node, the explanation in docs/node-strategy.md.
type sharer struct{ View }

// share converts a container's target into a target of strategy Node. It consists of the size of a new pod (the
// highest usage of a day, or of 7 days for a Guaranteed pod, because no node is known yet), and the demand for the node's sharing later. A blocked
// resource has no demand.
func (v sharer) share(c *corev1.Container, floors [2]recommender.Floor, t v1alpha1.ContainerTarget) v1alpha1.ContainerTarget {
	shared := v.demand(c.Name, floors, t)
	shared.MemoryLimitMost = podview.ToPointer(recommender.Memory, v.limitMost(c, shared))
	t.Demand = &shared
	seed := v.seed(c.Name, floors, t)
	t.Target = podview.ToResources(recommender.Size{
		recommender.CPU:    {Request: seed.Request[recommender.CPU]},
		recommender.Memory: {Request: seed.Request[recommender.Memory], Limit: seed.MemoryLimit},
	})
	t.MemoryLimitFloor = podview.ToPointer(recommender.Memory, seed.MemoryLimitFloor)
	t.Steps = v.steps(shared, seed)
	return t
}

// seed returns the size of a new pod of the target's demand. A Guaranteed pod gets the peak of 7 days instead of that of
// a day: its limit equals its request, and its node never resizes it.
func (v sharer) seed(container string, floors [2]recommender.Floor, t v1alpha1.ContainerTarget) node.Seed {
	seed := node.SeedOf(containerOf(container, *t.Demand))
	if !v.guaranteed() {
		return seed
	}
	for _, r := range recommender.Resources {
		usage, known := node.Max7d(v.History.Highest(container, r), v.Now)
		if !known || seed.Request[r] == 0 {
			continue
		}
		most := v.Settings.For(container).Of[r].MaxAllowed
		week := (node.Demand{Peak: usage.RoundUp()}).Within(r, floors[r].Amount, most).Peak
		seed.Request[r] = damped(r, v.storedTarget(container)[r].Request, max(seed.Request[r], week))
	}
	if seed.MemoryLimit > 0 {
		seed.MemoryLimit = max(seed.MemoryLimit, seed.Request[recommender.Memory])
	}
	return seed
}

// storedTarget returns the stored target of a container; zero: none is stored.
func (v sharer) storedTarget(container string) recommender.Size {
	return podview.FromResources(podview.First(v.Stored.Containers, func(t v1alpha1.ContainerTarget) bool { return t.Name == container }).Target)
}

// demand returns the demand of the container: measured usage and learned floors, capped at the maximum allowed. With
// memory.controlledValues RequestsOnly it has no maximum of 7 days, so that no memory limit is computed from it.
// minAllowed and the template's request are not measured, so they are not demand: otherwise a user could claim a
// node's room by writing a number. The base of other replicas does not apply to this pod; its node measures it.
func (v sharer) demand(container string, floors [2]recommender.Floor, t v1alpha1.ContainerTarget) v1alpha1.ContainerDemand {
	const cpu, memory = recommender.CPU, recommender.Memory
	settings, learned := v.Settings.For(container), resize.RequestFloorsOf(v.Status.Floors, container, v.OriginalOf(container)[recommender.Memory].Limit, v.Now)
	var least, most recommender.Size
	var peaks, days, max7d [2]recommender.Amount
	for _, r := range recommender.Resources {
		most[r].Request = settings.Of[r].MaxAllowed
		least[r].Request = max(settings.Of[r].MinAllowed, floors[r].Amount)
		if barred(t.Holds, r) {
			continue
		}
		of := v.History.Highest(container, r)
		within := func(usage recommender.Usage, known bool) recommender.Amount {
			d, ok := (node.Forecast{Peak: usage, PeakKnown: known}).Demand()
			if !ok {
				return 0
			}
			return d.Within(r, learned[r].Amount, most[r].Request).Peak
		}
		peaks[r], days[r] = within(node.Peak(of, v.Now)), within(node.Day(of, v.Now))
		if usage, known := node.Max7d(of, v.Now); known {
			max7d[r] = r.Whole(usage.RoundUp())
		}
	}
	// A container may need the memory of a day ago again, and memory in use cannot be taken away.
	if days[memory] > 0 {
		peaks[memory] = days[memory]
	}
	killed := resize.OOMFloorOf(v.Status.Floors, container, v.Now)
	if !settings.Of[memory].LimitsFollow { // without these two, no memory limit is computed: RequestsOnly leaves it alone
		max7d[memory], killed = 0, 0
	}
	before := v.storedDemand(container)
	return v1alpha1.ContainerDemand{
		CPUPeak:             podview.ToPointer(cpu, damped(cpu, before.Of[cpu].Peak, peaks[cpu])),
		CPUDay:              podview.ToPointer(cpu, damped(cpu, before.Day[cpu], days[cpu])),
		MemoryPeak:          podview.ToPointer(memory, damped(memory, before.Of[memory].Peak, peaks[memory])),
		MemoryMax7d:         podview.ToPointer(memory, damped(memory, before.Max7d, max7d[memory])),
		MemoryOOM:           podview.ToPointer(memory, killed),
		Least:               podview.ToResources(least),
		Most:                podview.ToResources(most),
		AllowMemoryDecrease: settings.Of[memory].AllowDecrease,
	}
}

// limitMost returns the memory limit above which the container is not raised without an OOM kill, in bytes; 0: no
// bound. If the template has no limit, it is twice the first limit that new pods got. Usage above the bound was
// measured in pods without a limit set by attune, so it raises the bound to twice that usage.
func (v sharer) limitMost(c *corev1.Container, demand v1alpha1.ContainerDemand) recommender.Amount {
	const memory = recommender.Memory
	learned := resize.FloorsOf(v.Status.Floors, c.Name, v.Now)[memory]
	if ceiling := recommender.MemoryCeiling(v.original(c)[memory], learned, v.Settings.For(c.Name).Of[memory].MinAllowed); ceiling > 0 {
		return ceiling
	}
	seed := podview.First(ptr.Deref(v.Stored.Seed, v1alpha1.Seed{}).Containers, func(s v1alpha1.ContainerSeed) bool { return s.Name == c.Name })
	most, given := v.storedDemand(c.Name).LimitMost, podview.FromPointer(memory, seed.MemoryLimit)
	max7d := podview.FromPointer(memory, demand.MemoryMax7d)
	switch {
	case most == 0 && given == 0:
		return 0
	case most == 0:
		most = 2 * given
	case max7d > most:
		most = 2 * max7d
	}
	return max(most, memory.Whole(learned.Taught))
}

// damped keeps a stored amount if the new one is a little lower, by the same rule as damp.
func damped(r recommender.Resource, before, now recommender.Amount) recommender.Amount {
	if r.Whole(before) == before && fellALittle(before, now) {
		return before
	}
	return now
}

// storedDemand returns the stored demand of a container; zero: none is stored.
func (v sharer) storedDemand(container string) node.Container {
	for _, t := range v.Stored.Containers {
		if t.Name == container && t.Demand != nil {
			return *containerOf(container, *t.Demand)
		}
	}
	return node.Container{}
}

// containerOf builds a newly created container from a stored demand: its base is not known, and its size is the peak
// of its day. The limits of the two Resources values below only carry CPUDay and MemoryOOM through the same
// conversion; they are not limits.
func containerOf(name string, d v1alpha1.ContainerDemand) *node.Container {
	const cpu, memory = recommender.CPU, recommender.Memory
	size := podview.FromResources(v1alpha1.Resources{CPURequest: d.CPUPeak, CPULimit: d.CPUDay, MemoryRequest: d.MemoryPeak})
	kept := podview.FromResources(v1alpha1.Resources{MemoryRequest: d.MemoryMax7d, MemoryLimit: d.MemoryOOM})[memory]
	least := podview.FromResources(d.Least)
	c := &node.Container{
		Name: name, Max7d: kept.Request, OOM: kept.Limit, LimitMost: podview.FromPointer(recommender.Memory, d.MemoryLimitMost),
		Day:   node.Amounts{size[cpu].Limit, size[memory].Request},
		Least: node.Amounts{least[cpu].Request, least[memory].Request},
	}
	for _, r := range recommender.Resources {
		c.Of[r].Peak = size[r].Request
	}
	return c
}

// steps explains the size of a new pod. kubectl attune node explains the shares that its node computes.
func (v sharer) steps(d v1alpha1.ContainerDemand, seed node.Seed) []v1alpha1.Step {
	var steps []v1alpha1.Step
	window := "24h"
	if v.guaranteed() {
		window = "7 days, because the pod is Guaranteed"
	}
	for _, r := range recommender.Resources {
		if seed.Request[r] > 0 {
			steps = append(steps, v1alpha1.Step{
				Resource: r.String(), Name: node.StepPeak, Before: "0", After: recommender.Format(r, seed.Request[r]),
				Reason: "the highest usage of a replica in the last " + window + ", within bounds and floors; decreases of 2 % or less are ignored",
			})
		}
	}
	if seed.MemoryLimit > 0 {
		c := containerOf("", d)
		steps = append(steps, v1alpha1.Step{
			Resource: recommender.Memory.String(), Name: node.StepLimit, Before: "0", After: recommender.Format(recommender.Memory, seed.MemoryLimit),
			Reason: c.WhyMemoryLimit(),
		})
	}
	return steps
}

// evictionRanking returns the ranking of a workload's pods (strategy Node): Never if the policy does not allow
// evictions, then the policy's own, then the default by kind and replicas.
func evictionRanking(s policy.Settings, w workload.Workload) v1alpha1.EvictionRanking {
	switch {
	case !s.NodeEviction:
		return v1alpha1.RankingNever
	case s.EvictionRanking != "":
		return s.EvictionRanking
	}
	// A kind that the operator's owner adds (scaledKinds) may keep state.
	stateful := w.Kind == v1alpha1.KindStatefulSet || workload.IsScaled(w.Kind)
	return v1alpha1.EvictionRanking(node.DefaultRanking(stateful, w.Replicas).String())
}

// nodeSeed returns a container's seed under strategy Node: the peak of its day, with the computed memory limit.
func nodeSeed(t v1alpha1.ContainerTarget) v1alpha1.ContainerSeed {
	s := v1alpha1.ContainerSeed{Name: t.Name, MemoryLimitFloor: t.MemoryLimitFloor, AllowMemoryDecrease: t.Demand.AllowMemoryDecrease}
	if !barred(t.Holds, recommender.CPU) {
		s.CPURequest = t.Target.CPURequest
	}
	if barred(t.Holds, recommender.Memory) {
		s.MemoryLimitFloor = nil
	} else {
		s.MemoryRequest, s.MemoryLimit = t.Target.MemoryRequest, t.Target.MemoryLimit
	}
	return s
}
