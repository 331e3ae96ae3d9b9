package resize

import (
	"sort"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// reachSteps is the number of equal parts into which the way back to the old size is divided.
const reachSteps = 64

// WithinReach returns the part of a restoring plan that the API server would accept now. A LimitRange, a quota or the
// node may have become too small for the old size; then each raise is cut to the accepted part, memory first. The
// refusal is the reason for the missing part; nil: nothing is missing. The CPU of a container that does not run waits
// until it runs.
func WithinReach(pod *corev1.Pod, plan Plan, in GateInput) (Plan, *Refusal) {
	plan, waits := onlyRunning(pod, plan)
	refusal := outOfReach(pod, plan, in)
	if refusal == nil {
		return plan, waits
	}
	bounded := withinContainerRanges(plan, in).reducedTo(func(m Move) recommender.Size { return m.To })
	if outOfReach(pod, bounded, in) == nil {
		return bounded, refusal
	}
	part := [2]recommender.Amount{}
	for _, r := range []recommender.Resource{recommender.Memory, recommender.CPU} {
		part[r] = farthest(func(steps recommender.Amount) bool {
			tried := part
			tried[r] = steps
			return outOfReach(pod, partOf(bounded, tried), in) == nil
		})
	}
	return partOf(bounded, part), refusal
}

// onlyRunning removes changes that need a running container, and returns the reason.
func onlyRunning(pod *corev1.Pod, plan Plan) (Plan, *Refusal) {
	s, known := situation{pod: pod, statuses: podview.Statuses(pod)}, len(plan.LeftOut)
	plan = narrowed(plan, func(m Move) (recommender.Size, *Refusal) {
		if refusal := notRunning(s, m); refusal != nil {
			return withoutCPU(m), refusal
		}
		return m.To, nil
	})
	if len(plan.LeftOut) == known {
		return plan, nil
	}
	return plan.reducedTo(func(m Move) recommender.Size { return m.To }), &plan.LeftOut[known]
}

// outOfReach returns the predicted reason why the API server would refuse a plan, or nil.
func outOfReach(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	if refusal := firstClosed(lastGates, reverts, pod, p, in); refusal != nil {
		return refusal
	}
	s := situation{pod: pod, caps: in.Node.Capabilities}
	if refusal := beyondNode(s, p); refusal != nil {
		return refusal
	}
	return qosChange(s, p)
}

// farthest returns the greatest allowed number of steps, found by bisection. It assumes that if a number is allowed,
// all smaller ones are.
func farthest(may func(recommender.Amount) bool) recommender.Amount {
	fewer := sort.Search(reachSteps, func(fewer int) bool { return may(recommender.Amount(reachSteps - fewer)) })
	return recommender.Amount(reachSteps - fewer)
}

// partOf returns the plan with each raise cut to a part of its way, in reachSteps by resource. Decreases stay complete.
func partOf(p Plan, part [2]recommender.Amount) Plan {
	return p.reducedTo(func(m Move) recommender.Size {
		for _, r := range recommender.Resources {
			from, to := m.From[r], &m.To[r]
			to.Request = partWay(from.Request, to.Request, part[r])
			to.Limit = partWay(from.Limit, to.Limit, part[r])
		}
		return m.To
	})
}

// partWay divides before it multiplies, so that amounts near MaxAmount do not overflow.
func partWay(from, to, steps recommender.Amount) recommender.Amount {
	if to <= from {
		return to
	}
	return from + (to-from)/reachSteps*steps + (to-from)%reachSteps*steps/reachSteps
}
