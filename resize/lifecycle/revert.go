package lifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// RevertPlan plans to restore a pod to its record's prior size. It changes only amounts that the record set, and only
// on the pod with the record's uid. Amounts whose decrease would be harmful stay:
//   - A memory limit that the running container already has is not lowered.
//   - Memory is not lowered after an OOM kill, nor CPU after throttling.
//   - A limit that the resize added stays, since Kubernetes removes none, and is raised if it caused the regression.
//   - No memory limit is lowered if the API server does not support that (before 1.34).
//
// A refusal means that no amount is left to restore. The second iteration of the loop also lowers the memory request:
// without it the pod's class could change, which the API server refuses.
func RevertPlan(pod *corev1.Pod, record v1alpha1.ResizeRecord, caps resize.Capabilities) (resize.Plan, *resize.Refusal) {
	if pod == nil || pod.UID != record.PodUID {
		return resize.Plan{}, resize.Refuse(resize.ReasonReplaced, "the pod is deleted; a new pod starts with the resources of its template or seed")
	}
	plan := resize.PlanOf(pod)
	for _, memoryRequestBack := range []bool{false, true} {
		plan.Moves = revertMoves(pod, record, caps, memoryRequestBack)
		if plan.Empty() {
			return plan, resize.Refuse(resize.ReasonNothingBack, "no amount is left whose restore would help")
		}
		if podview.QOSClass(plan.Apply(pod)) == podview.ClassOf(pod) {
			plan.Restarts = resize.RestartsAny(pod, plan)
			return plan, nil
		}
	}
	plan.Moves = nil
	return plan, resize.Refuse(resize.ReasonQOSClass, "restoring only the safe amounts would change the pod's QoS class")
}

// idleReverts returns the regressions (shortage) after which a revert would change nothing, so that none is started for
// them.
func idleReverts(pod *corev1.Pod, record v1alpha1.ResizeRecord, caps resize.Capabilities) map[resize.Harm]bool {
	idle := map[resize.Harm]bool{}
	for _, h := range []resize.Harm{resize.HarmOOM, resize.HarmThrottle, ""} {
		record.Reason = string(h)
		if len(revertMoves(pod, record, caps, false)) == 0 {
			idle[h] = true
		}
	}
	return idle
}

// shortage returns the regression if it shows which resource was too small, otherwise "". A revert does not lower that
// resource, and is the same after all other regressions.
func shortage(h resize.Harm) resize.Harm {
	if h == resize.HarmOOM || h == resize.HarmThrottle {
		return h
	}
	return ""
}

// revertMoves returns the moves of a revert. Each filter narrows the result of the previous one. withAddedLimits comes
// first because the others need the final limits.
func revertMoves(pod *corev1.Pod, record v1alpha1.ResizeRecord, caps resize.Capabilities, memoryRequestBack bool) []resize.Move {
	changes := map[string]resize.Change{}
	for _, c := range resize.Changes(record) {
		changes[c.Container] = c
	}
	live, statuses := podview.ByName(podview.Read(pod)), podview.Statuses(pod)
	var moves []resize.Move
	for _, c := range podview.Resizable(pod) {
		changed, ok := changes[c.Name]
		if !ok {
			continue
		}
		spec := podview.ReadSpec(c.Resources)
		to := withAddedLimits(podview.Fill(changed.Prior, spec), changed, record.Reason)
		status := statuses[c.Name]
		if running := status != nil && status.State.Running != nil; running {
			to = keepMemoryLimit(to, spec, live[c.Name].Size)
		}
		to = withoutForbiddenDecrease(c, spec, to, caps)
		to = keepScarceResource(to, spec, record.Reason)
		if memoryRequestBack {
			to[recommender.Memory].Request = min(to[recommender.Memory].Request, podview.Fill(changed.Prior, spec)[recommender.Memory].Request)
		}
		moves = resize.AppendMove(moves, resize.Move{Container: c.Name, Sidecar: podview.IsSidecar(pod, c), From: spec, To: to})
	}
	return moves
}

// withAddedLimits raises limits that the resize added and no resize can remove: to the restored request, and above the
// amount that caused the regression.
func withAddedLimits(to recommender.Size, c resize.Change, harm string) recommender.Size {
	for _, r := range recommender.Resources {
		if c.Prior[r].Limit > 0 || to[r].Limit == 0 {
			continue
		}
		to[r].Limit = max(to[r].Limit, to[r].Request)
		switch {
		case r == recommender.Memory && resize.Harm(harm) == resize.HarmOOM:
			to[r].Limit = max(to[r].Limit, recommender.OOMFloor(c.Desired[r].Limit))
		case r == recommender.Memory && harm == resize.ReasonActuation:
			to[r].Limit = max(to[r].Limit, 2*c.Desired[r].Limit)
		case r == recommender.CPU && resize.Harm(harm) == resize.HarmThrottle:
			to[r].Limit = max(to[r].Limit, recommender.ThrottleFloor(c.Desired[r].Limit))
		}
	}
	return to
}

// keepMemoryLimit does not lower a memory limit that the container already has: growth needs no revert, and the process
// may use it. A limit that was never allocated is restored exactly: the container still has at most the prior one.
func keepMemoryLimit(to, spec, live recommender.Size) recommender.Size {
	m := resize.Move{From: spec, To: to}
	if has := live[recommender.Memory].Limit; !m.LowersMemoryLimit() || has != 0 && has <= to[recommender.Memory].Limit {
		return to
	}
	return resize.WithoutMemoryLimitDecrease(m)
}

// withoutForbiddenDecrease keeps a memory limit that the API server does not lower in place, even if it was never
// allocated: the API server would refuse the whole patch for it.
func withoutForbiddenDecrease(c *corev1.Container, spec, to recommender.Size, caps resize.Capabilities) recommender.Size {
	m := resize.Move{From: spec, To: to}
	if !m.LowersMemoryLimit() || caps.ServerMinor >= resize.MinorMemoryLimitDecrease || podview.RestartPolicyFor(c, corev1.ResourceMemory) == corev1.RestartContainer {
		return to
	}
	return resize.WithoutMemoryLimitDecrease(m)
}

// limitStays reports whether a container's memory limit is above its prior one and the API server does not support
// lowering it.
func limitStays(pod *corev1.Pod, changes []resize.Change, caps resize.Capabilities) bool {
	specs := podview.Specs(pod)
	return caps.ServerMinor < resize.MinorMemoryLimitDecrease && slices.ContainsFunc(changes, func(c resize.Change) bool {
		return (resize.Move{From: specs[c.Container], To: c.Prior}).LowersMemoryLimit()
	})
}

// keepScarceResource does not lower the resource whose shortage caused the regression.
func keepScarceResource(to, spec recommender.Size, harm string) recommender.Size {
	switch resize.Harm(harm) {
	case resize.HarmOOM:
		to[recommender.Memory] = podview.Greater(to[recommender.Memory], spec[recommender.Memory])
	case resize.HarmThrottle:
		to[recommender.CPU] = podview.Greater(to[recommender.CPU], spec[recommender.CPU])
	}
	return to
}
