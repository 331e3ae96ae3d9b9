package resize

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// RevertPlan puts a pod back to its record's prior size. It touches only amounts that the record set, and only on
// the pod with the record's uid. What would do harm stays as it is:
//   - a memory limit that the running container already has is not lowered;
//   - memory is not lowered after an OOM kill, nor CPU after throttling;
//   - a limit that the resize added stays, since Kubernetes removes none, and is raised where it did the harm;
//   - no memory limit is lowered where the API server allows that for none (before 1.34).
//
// A refusal means that nothing is left to put back. The second turn of the loop also lowers the memory request:
// without it the pod's class could change, which the API server refuses.
func RevertPlan(pod *corev1.Pod, record v1alpha1.ResizeRecord, caps Capabilities) (Plan, *Refusal) {
	if pod == nil || pod.UID != record.PodUID {
		return Plan{}, refuse(ReasonReplaced, "the pod is gone; another one starts with what its template or seed says")
	}
	plan := planOf(pod)
	for _, memoryRequestBack := range []bool{false, true} {
		plan.Moves = revertMoves(pod, record, caps, memoryRequestBack)
		if plan.Empty() {
			return plan, refuse(ReasonNothingBack, "no amount is left that would do good if it were put back")
		}
		if podview.QOSClass(plan.Apply(pod)) == podview.ClassOf(pod) {
			plan.Restarts = restartsAny(pod, plan)
			return plan, nil
		}
	}
	plan.Moves = nil
	return plan, refuse(ReasonQOSClass, "putting back only what may be put back would change the pod's class")
}

// idleReverts returns the harms after which a revert would change nothing, so that none is begun for them.
func idleReverts(pod *corev1.Pod, record v1alpha1.ResizeRecord, caps Capabilities) map[Harm]bool {
	idle := map[Harm]bool{}
	for _, h := range []Harm{HarmOOM, HarmThrottle, HarmRestart, HarmNotReady, HarmSLO} {
		record.Reason = string(h)
		if len(revertMoves(pod, record, caps, false)) == 0 {
			idle[h] = true
		}
	}
	return idle
}

// revertMoves returns the moves of a revert. Each filter narrows what the one before left, and withAddedLimits
// comes first because the others then see the final limits.
func revertMoves(pod *corev1.Pod, record v1alpha1.ResizeRecord, caps Capabilities, memoryRequestBack bool) []Move {
	changes := map[string]Change{}
	for _, c := range Changes(record) {
		changes[c.Container] = c
	}
	live, statuses := podview.ByName(podview.Read(pod)), podview.Statuses(pod)
	var moves []Move
	for _, c := range podview.Resizable(pod) {
		changed, ok := changes[c.Name]
		if !ok {
			continue
		}
		spec := podview.ReadSpec(c.Resources)
		to := withAddedLimits(filled(changed.Prior, spec), changed, record.Reason)
		status := statuses[c.Name]
		if running := status != nil && status.State.Running != nil; running {
			to = keepMemoryLimit(to, spec, live[c.Name].Size)
		}
		to = withoutForbiddenDecrease(c, spec, to, caps)
		to = keepWhatHelps(to, spec, record.Reason)
		if memoryRequestBack {
			to[recommender.Memory].Request = min(to[recommender.Memory].Request, filled(changed.Prior, spec)[recommender.Memory].Request)
		}
		moves = appendMove(moves, Move{Container: c.Name, Sidecar: podview.IsSidecar(pod, c), From: spec, To: to})
	}
	return moves
}

// withAddedLimits raises limits that the resize added and nothing removes: up to the request that comes back, and
// above the amount that did the harm.
func withAddedLimits(to recommender.Size, c Change, harm string) recommender.Size {
	for _, r := range recommender.Resources {
		if c.Prior[r].Limit > 0 || to[r].Limit == 0 {
			continue
		}
		to[r].Limit = max(to[r].Limit, to[r].Request)
		switch {
		case r == recommender.Memory && Harm(harm) == HarmOOM:
			to[r].Limit = max(to[r].Limit, recommender.OOMFloor(c.Desired[r].Limit))
		case r == recommender.Memory && harm == ReasonActuation:
			to[r].Limit = max(to[r].Limit, 2*c.Desired[r].Limit)
		case r == recommender.CPU && Harm(harm) == HarmThrottle:
			to[r].Limit = max(to[r].Limit, recommender.ThrottleFloor(c.Desired[r].Limit))
		}
	}
	return to
}

// keepMemoryLimit does not lower a memory limit that the container already has: growth needs no revert, and the
// process may use it. A limit that was never allocated, so that the container still has at most the prior one, is
// put back exactly.
func keepMemoryLimit(to, spec, live recommender.Size) recommender.Size {
	m := Move{From: spec, To: to}
	if has := live[recommender.Memory].Limit; !lowersMemoryLimit(m) || has != 0 && has <= to[recommender.Memory].Limit {
		return to
	}
	return withoutMemoryLimitDecrease(m)
}

// withoutForbiddenDecrease keeps a memory limit that the API server does not lower in place, even one that was
// never allocated: the API server would refuse the whole patch for it.
func withoutForbiddenDecrease(c *corev1.Container, spec, to recommender.Size, caps Capabilities) recommender.Size {
	m := Move{From: spec, To: to}
	if !lowersMemoryLimit(m) || caps.ServerMinor >= MinorMemoryLimitDecrease || restartPolicyFor(c, corev1.ResourceMemory) == corev1.RestartContainer {
		return to
	}
	return withoutMemoryLimitDecrease(m)
}

// limitStays reports whether a container's memory limit is above its prior one and the API server does not allow
// that it is lowered.
func limitStays(pod *corev1.Pod, changes []Change, caps Capabilities) bool {
	specs := podview.Specs(pod)
	return caps.ServerMinor < MinorMemoryLimitDecrease && slices.ContainsFunc(changes, func(c Change) bool {
		return lowersMemoryLimit(Move{From: specs[c.Container], To: c.Prior})
	})
}

// keepWhatHelps does not lower the resource whose shortage did the harm.
func keepWhatHelps(to, spec recommender.Size, harm string) recommender.Size {
	switch Harm(harm) {
	case HarmOOM:
		to[recommender.Memory] = greater(to[recommender.Memory], spec[recommender.Memory])
	case HarmThrottle:
		to[recommender.CPU] = greater(to[recommender.CPU], spec[recommender.CPU])
	}
	return to
}

// greater takes the greater request and the greater limit.
func greater(a, b recommender.Allocation) recommender.Allocation {
	return recommender.Allocation{Request: max(a.Request, b.Request), Limit: max(a.Limit, b.Limit)}
}

// restartsAny reports whether the plan restarts a container of the pod.
func restartsAny(pod *corev1.Pod, p Plan) bool {
	moves := map[string]Move{}
	for _, m := range p.Moves {
		moves[m.Container] = m
	}
	for _, c := range podview.Resizable(pod) {
		if m, ok := moves[c.Name]; ok && m.RestartsContainer(c) {
			return true
		}
	}
	return false
}
