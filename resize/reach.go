package resize

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// reachSteps is how finely the way back is divided.
const reachSteps = 64

// WithinReach is as much of a plan that puts a pod back as the API server would take now: where a LimitRange, a
// quota or the node itself has become too small for the old size, what is raised goes as far as it may, each
// resource by itself. The refusal says what keeps it from going further; nil: nothing does.
// The CPU of a container that does not run waits until it does.
func WithinReach(pod *corev1.Pod, plan Plan, w World) (Plan, *Refusal) {
	plan, waits := whatRuns(pod, plan)
	refusal := outOfReach(pod, plan, w)
	if refusal == nil {
		return plan, waits
	}
	bounded := withinLimitRanges(pod, plan, w).reducedTo(func(m Move) recommender.Size { return m.To })
	if outOfReach(pod, bounded, w) == nil {
		return bounded, refusal
	}
	part := [2]recommender.Amount{}
	for _, r := range []recommender.Resource{recommender.Memory, recommender.CPU} {
		part[r] = farthest(func(steps recommender.Amount) bool {
			tried := part
			tried[r] = steps
			return outOfReach(pod, partOf(bounded, tried), w) == nil
		})
	}
	return partOf(bounded, part), refusal
}

// whatRuns leaves out what containers have to run for, and says so.
func whatRuns(pod *corev1.Pod, plan Plan) (Plan, *Refusal) {
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

// outOfReach is why the API server would not take a plan as far as that can be known.
func outOfReach(pod *corev1.Pod, p Plan, w World) *Refusal {
	if refusal := firstClosed([]gate{limitRange, quota}, pod, p, w); refusal != nil {
		return refusal
	}
	s := situation{pod: pod, caps: w.Capabilities}
	if refusal := beyondNode(s, p); refusal != nil {
		return refusal
	}
	return qosChange(s, p)
}

// farthest is the most of reachSteps that may be taken, where fewer may be taken wherever more may.
func farthest(may func(recommender.Amount) bool) recommender.Amount {
	low, high := recommender.Amount(0), recommender.Amount(reachSteps)
	for low < high {
		middle := (low + high + 1) / 2
		if may(middle) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low
}

// partOf is a plan whose raises go a part of their way, in reachSteps by resource; what it lowers it lowers.
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

func partWay(from, to, steps recommender.Amount) recommender.Amount {
	if to <= from {
		return to
	}
	return from + (to-from)/reachSteps*steps + (to-from)%reachSteps*steps/reachSteps
}
