package node

import (
	"slices"

	"attune.io/attune/recommender"
)

// mostSum is the largest sum of amounts: sums of sums stay within 63 bits.
const mostSum recommender.Amount = 1 << 61

// greatestOf is the largest amount that keeps the sum within mostSum, if every pod and container has it.
func greatestOf(pods []Pod) recommender.Amount {
	count := len(pods)
	for i := range pods {
		count += len(pods[i].Containers)
	}
	return min(recommender.MaxAmount, mostSum/recommender.Amount(max(1, count)))
}

func bounded(a, most recommender.Amount) recommender.Amount { return min(max(a, 0), most) }

// lack marks the resources that do not fit.
type lack = [2]bool

// need is the total need of the pods that stay.
func (d *demands) need(r recommender.Resource) recommender.Amount {
	if r == recommender.CPU {
		return d.needed[r] + d.reserve
	}
	return d.needed[r]
}

// lacking marks the resources whose need is above the available amount; an equal need fits.
func (d *demands) lacking(available Amounts) lack {
	return lack{d.need(recommender.CPU) > available[recommender.CPU], d.need(recommender.Memory) > available[recommender.Memory]}
}

// podDemand is a pod's demand as counted in the sums.
type podDemand struct {
	// first is the index of the pod's first container among all pods' containers.
	first   int
	group   int32
	evicted bool
	// base is base', the greater of the containers' bases and the init request. spike is spike', the pod's part of its
	// group's spike: base' + spike' is the greater of the containers' peaks and the init request.
	base, spike Amounts
	// ownSpikes is the sum of the containers' CPU spikes. paid is the part of it that the init request covers:
	// ownSpikes = paid + spike'.
	ownSpikes, paid recommender.Amount
}

// groups has the spike of each group of pods, in millicores. A pod without a group is a group of its own.
type groups struct {
	spikes []recommender.Amount
	number map[string]int32
}

func (g *groups) reset() {
	g.spikes = g.spikes[:0]
	if g.number == nil {
		g.number = map[string]int32{}
	}
	clear(g.number)
}

// of returns the number of the pod's group.
func (g *groups) of(p *Pod) int32 {
	next := int32(len(g.spikes))
	if p.Group != "" {
		if known, ok := g.number[p.Group]; ok {
			return known
		}
		g.number[p.Group] = next
	}
	g.spikes = append(g.spikes, 0)
	return next
}

// largest spike of a group, or 0.
func (g *groups) largest() recommender.Amount {
	if len(g.spikes) == 0 {
		return 0
	}
	return slices.Max(g.spikes)
}

// demands has the counted demands of all pods of a node, and the sums of the pods that stay, in millicores and bytes.
// Sums of whole amounts do not depend on the order of the pods.
type demands struct {
	// needed is Σ base' of CPU, without the reserve, and Σ peak of memory.
	needed Amounts
	// spikes is Σ spike' of CPU. reserve is the largest group's part of it: 0 ≤ reserve ≤ spikes.
	spikes, reserve recommender.Amount
	// greatest bounds each amount.
	greatest recommender.Amount
	// capped: each container counts with at most the amount that it can have now.
	capped bool
	// constrained: some container may be unable to get its full demand now.
	constrained bool
	// uncounted is the sum of the DaemonSets' CPU bases above their counted bases.
	uncounted recommender.Amount
	pods      []podDemand
	// containerSpikes has the CPU spike of each container, in the order of the pods.
	containerSpikes []recommender.Amount
	groups          groups
}

// countAll counts every pod, whether it may be changed or not.
func (d *demands) countAll(pods []Pod, capped bool) {
	d.capped, d.constrained = capped, false
	d.pods, d.containerSpikes = d.pods[:0], d.containerSpikes[:0]
	d.groups.reset()
	d.needed, d.spikes, d.uncounted = Amounts{}, 0, 0
	for i := range pods {
		d.pods = append(d.pods, podDemand{first: len(d.containerSpikes), group: d.groups.of(&pods[i])})
		d.enter(&pods[i], &d.pods[i])
		d.count(&d.pods[i], 1)
	}
	d.reserve = d.groups.largest()
}

// enter computes a pod's demand and its containers' spikes. It does not count them yet.
func (d *demands) enter(p *Pod, e *podDemand) {
	var base, spike Amounts
	for i := range p.Containers {
		c := &p.Containers[i]
		for _, r := range recommender.Resources {
			of := d.of(p, c, r)
			base[r] += of.Base
			spike[r] += of.Peak - of.Base
			if p.fixed(c, r) || c.Reach[r] > 0 {
				d.constrained = true
			}
			if r == recommender.CPU {
				d.containerSpikes = append(d.containerSpikes, of.Peak-of.Base)
				d.uncounted += d.notCounted(p, c)
			}
		}
	}
	for _, r := range recommender.Resources {
		e.base[r] = max(base[r], bounded(p.InitRequest[r], d.greatest))
		e.spike[r] = max(0, base[r]+spike[r]-e.base[r])
	}
	e.ownSpikes = spike[recommender.CPU]
	e.paid = e.ownSpikes - e.spike[recommender.CPU]
}

// of is the demand with which a container is counted.
func (d *demands) of(p *Pod, c *Container, r recommender.Resource) Demand {
	asked := p.demand(c, r, d.greatest)
	if !d.capped {
		return asked
	}
	most := c.attainable(asked.Peak, r)
	if p.fixed(c, r) {
		most = bounded(c.Current[r], d.greatest)
	}
	return Demand{min(asked.Base, most), min(asked.Peak, most)}
}

// notCounted is the part of a DaemonSet container's CPU base above its counted base.
func (d *demands) notCounted(p *Pod, c *Container) recommender.Amount {
	if !p.DaemonSet {
		return 0
	}
	return bounded(c.Of[recommender.CPU].Base, d.greatest) - p.demand(c, recommender.CPU, d.greatest).Base
}

// count adds a pod to the sums (times 1) or removes it (times −1). It does not update the reserve.
func (d *demands) count(e *podDemand, times recommender.Amount) {
	const cpu, memory = recommender.CPU, recommender.Memory
	d.needed[cpu] += times * e.base[cpu]
	d.needed[memory] += times * (e.base[memory] + e.spike[memory])
	d.spikes += times * e.spike[cpu]
	d.groups.spikes[e.group] += times * e.spike[cpu]
}
