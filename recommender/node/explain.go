package node

import (
	"cmp"
	"fmt"

	"attune.io/attune/recommender"
)

// Names of the steps of an explanation, in order. Steps that change nothing are omitted, except base, share and peak.
const (
	StepBase          = "base"          // CPU: its base demand
	StepInit          = "init"          // CPU: the raise that its pod's init request already covers
	StepShare         = "share"         // CPU: its part of the reserve
	StepRoom          = "room"          // CPU: spare room, for a DaemonSet
	StepPeak          = "peak"          // memory: its peak demand
	StepLimit         = "limit"         // memory: its limit
	StepOvercommitted = "overcommitted" // either: its part of the available room, because the pods do not fit
)

// Explain returns the steps by which the last Share computed the grant of a container. It returns nil for a pod that is
// to be evicted. Explain computes the steps when called, so Share has no extra cost.
func (s *Sharer) Explain(pod, container int) []recommender.Step {
	d := &s.demands.pods[pod]
	if d.evicted {
		return nil
	}
	x := explanation{
		s: s, p: &s.pods[pod], d: d, c: &s.pods[pod].Containers[container],
		grant: s.result.Grants[d.first+container], spike: s.demands.containerSpikes[d.first+container],
	}
	x.cpu()
	x.memory()
	return x.steps
}

// explanation of one container's grant.
type explanation struct {
	s     *Sharer
	p     *Pod
	d     *podDemand
	c     *Container
	grant Grant
	// spike of the container's CPU.
	spike recommender.Amount

	steps []recommender.Step
	last  recommender.Amount
}

func (x *explanation) add(r recommender.Resource, name string, after recommender.Amount, reason string, args ...any) {
	x.steps = append(x.steps, recommender.Step{
		Resource: r, Name: name, Before: x.last, After: after, Reason: fmt.Sprintf(reason, args...),
	})
	x.last = after
}

func (x *explanation) cpu() {
	const cpu = recommender.CPU
	base := x.s.demands.of(x.p, x.c, cpu).Base
	x.add(cpu, StepBase, base, "%s", x.whyEntered(cpu, "base demand", "base demand only"))
	if x.d.paid > 0 && x.spike > 0 {
		up, _ := x.d.paidRaise().part(x.spike)
		x.add(cpu, StepInit, base+up, "the scheduler reserves %s for the pod's init container: %s more than the pod's base demand",
			text(cpu, x.p.InitRequest[cpu]), text(cpu, x.d.paid))
	}
	x.share(base)
	x.overcommitted(cpu)
	if spare := x.grant.Spare; spare > 0 {
		x.add(cpu, StepRoom, x.last+spare, "room that no other pod needs raises it towards its base demand, %s; attune lowers it first when other pods need the room",
			text(cpu, x.c.Of[cpu].Base))
	}
}

func (x *explanation) share(base recommender.Amount) {
	const cpu = recommender.CPU
	if x.spike == 0 || x.d.spike[cpu] == 0 {
		x.add(cpu, StepShare, x.last, "no share needed: it already has its peak demand")
		return
	}
	up, _ := x.s.demands.raise(x.d).part(x.spike)
	x.add(cpu, StepShare, base+up, "the node reserves %s for spikes: the spike of %s, the largest of %d independent groups; %s",
		text(cpu, x.s.demands.reserve), x.largestGroup(), x.groupsThatStay(), x.whyPart())
}

// whyPart explains how the part of the reserve was computed.
func (x *explanation) whyPart() string {
	const cpu = recommender.CPU
	if x.d.spike[cpu] == x.spike {
		return fmt.Sprintf("its spike is %s of %s in total", text(cpu, x.spike), text(cpu, x.s.demands.spikes))
	}
	return fmt.Sprintf("its pod's spike is %s of %s in total, and its own spike is %s of the pod's %s",
		text(cpu, x.d.spike[cpu]), text(cpu, x.s.demands.spikes), text(cpu, x.spike), text(cpu, x.d.ownSpikes))
}

func (x *explanation) memory() {
	const memory = recommender.Memory
	x.last = 0
	x.add(memory, StepPeak, x.s.demands.of(x.p, x.c, memory).Peak, "%s",
		x.whyEntered(memory, "peak demand: memory is not shared", "peak demand, because memory is not shared"))
	x.overcommitted(memory)
	if limit := x.grant.MemoryLimit; limit > 0 {
		x.last = x.c.CurrentLimit
		x.add(memory, StepLimit, limit, "%s", x.c.WhyMemoryLimit())
	}
}

func (x *explanation) overcommitted(r recommender.Resource) {
	if x.s.result.Overcommitted[r] && x.last > x.grant.Request[r] {
		x.add(r, StepOvercommitted, x.grant.Request[r], "the pods need %s of the node's %s, and no pod can be evicted now. It keeps what it has of its share and gets a part of the free room, base demands first",
			recommender.Format(r, x.s.demands.need(r)), recommender.Format(r, x.s.available[r]))
	}
}

// whyEntered explains the demand with which a container is counted. A DaemonSet's demand is bounded by the requests it
// was created with.
func (x *explanation) whyEntered(r recommender.Resource, others, daemonSet string) string {
	if !x.p.DaemonSet || x.c.AtCreation[r] <= 0 {
		return others
	}
	return fmt.Sprintf("DaemonSet: %s. No pod is evicted for more than %s, its request at creation", daemonSet, text(r, x.c.AtCreation[r]))
}

// largestGroup names the group whose spike is the reserve. Of equal groups it returns the first by name.
func (x *explanation) largestGroup() string {
	name, d := "", &x.s.demands
	for i := range x.s.pods {
		if d.pods[i].evicted || d.groups.spikes[d.pods[i].group] != d.reserve {
			continue
		}
		if own := cmp.Or(x.s.pods[i].Group, x.s.pods[i].Name); name == "" || own < name {
			name = own
		}
	}
	return name
}

func (x *explanation) groupsThatStay() int {
	stay := map[int32]bool{}
	for _, d := range x.s.demands.pods {
		if !d.evicted {
			stay[d.group] = true
		}
	}
	return len(stay)
}

// Reason returns one sentence that says why the pod is to be evicted. Amounts that do not fit are exact, because a
// single byte may be missing.
func (v Eviction) Reason() string {
	return fmt.Sprintf("%s does not fit: with this pod, the remaining pods need %s, and %s is available; ranking %s, own spike %s",
		names[v.Resource], recommender.Format(v.Resource, v.Needed), recommender.Format(v.Resource, v.Available), v.Ranking, text(v.Resource, v.Spike))
}

var names = [2]string{recommender.CPU: "CPU", recommender.Memory: "memory"}

func text(r recommender.Resource, a recommender.Amount) string { return recommender.Readable(r, a) }
