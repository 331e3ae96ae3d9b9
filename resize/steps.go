package resize

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Step is the resize step that the cooldown of a workload follows: the sizes that its last clean observation verified,
// by container. Waves of pods to the same sizes belong to the step and do not wait for its cooldown. It is derived from
// the stored status, so a new process continues the step. Nil: there is no step to continue.
type Step map[string]recommender.Size

// StepOf returns the step of a template generation. A regression ends the step: the backoff blocks, and the sizes with
// a regression are not verified any more.
func StepOf(status v1alpha1.AttuneRecommendationStatus, templateHash string) Step {
	if status.Backoff != nil {
		return nil
	}
	step := Step{}
	for _, k := range status.Verified {
		if k.TemplateHash == templateHash {
			step[k.Name] = podview.FromResources(k.Size)
		}
	}
	return step
}

// sameStep is how far a move may end from the step's size, as a part (1/5) of the move: a target changes a little while
// the waves go on. A pod that has the step's size already is further away, so it takes no second step.
const sameStep = 5

// Continues reports whether a move brings a resource to the step's size. The request counts, or the limit if only the
// limit moves.
func (s Step) Continues(m Move, r recommender.Resource) bool {
	size, known := s[m.Container]
	if !known {
		return false
	}
	from, to, there := m.From[r].Request, m.To[r].Request, size[r].Request
	if from == to {
		from, to, there = m.From[r].Limit, m.To[r].Limit, size[r].Limit
	}
	return there > 0 && from != to && max(to-there, there-to)*sameStep <= max(to-from, from-to)
}

// Due are the resources of a pod's containers of which the recent usage is above the live request (Lately.Above).
type Due map[string][2]bool

// raises reports whether a move makes a raise that is due.
func (d Due) raises(m Move, r recommender.Resource) bool {
	return d[m.Container][r] && m.To[r].Request > m.From[r].Request && m.To[r].Limit >= m.From[r].Limit
}

// raisesAny reports whether a plan makes a raise that is due.
func (d Due) raisesAny(p Plan) bool {
	return len(d) > 0 && anyMove(p, func(m Move) bool { return d.raises(m, recommender.CPU) || d.raises(m, recommender.Memory) })
}

// DueOf returns the resources of a pod of which a raise is due: each pod is judged by its own usage and its own live
// requests. Nil: none, or the usage is not known.
func DueOf(pod *corev1.Pod, of map[string]Lately) (due Due) {
	if len(of) == 0 {
		return nil
	}
	for _, c := range podview.Read(pod) {
		above := [2]bool{}
		for _, r := range recommender.Resources {
			above[r] = of[c.Name].Above(r, c.Size[r])
		}
		if above != ([2]bool{}) {
			if due == nil {
				due = Due{}
			}
			due[c.Name] = above
		}
	}
	return due
}

// Lately is the usage of one container of one pod in the last LatelyWindow.
type Lately struct {
	// P95 is the 95th percentile of its samples, in millicores or bytes; Samples is their number.
	P95     [2]recommender.Usage
	Samples [2]int
	// Throttled is the fraction of periods in which it was throttled at its CPU limit, 0 to 1; 0 also if not known.
	Throttled float64
}

const (
	// LatelyWindow is how far back the usage counts, latelySamples the least number of samples.
	LatelyWindow  = 10 * time.Minute
	latelySamples = 10
	// throttledAbove is the fraction of throttled periods above which a CPU raise is due.
	throttledAbove = 0.25
)

// Above reports whether a container needs more of a resource than it requests, so that a raise is due.
func (l Lately) Above(r recommender.Resource, has recommender.Allocation) bool {
	if l.Samples[r] < latelySamples || has.Request == 0 {
		return false
	}
	return l.P95[r] > recommender.Usage(has.Request) || r == recommender.CPU && l.Throttled > throttledAbove
}

// goesNow reports whether a change does not wait for the cooldown: it continues the step, or it is a raise that is due.
// After a regression every change waits.
func goesNow(in GateInput, p Plan, m Move, r recommender.Resource) bool {
	if in.Status.Backoff != nil {
		return false
	}
	return in.Due.raises(m, r) || StepOf(in.Status, p.TemplateHash).Continues(m, r)
}

// cooldown waits for the end of the workload's cooldown (CooldownLeft). Answers to OOM kills do not wait, nor do raises
// that are due, nor further waves of the same resize step.
func cooldown(_ *corev1.Pod, p Plan, in GateInput) *Refusal {
	refusal := coolingDown(in)
	if refusal == nil || anyMove(p, func(m Move) bool {
		return goesNow(in, p, m, recommender.CPU) || goesNow(in, p, m, recommender.Memory)
	}) {
		return nil
	}
	return refusal
}

// withinCooldown leaves out the changes of a plan that wait for the cooldown, such as a memory decrease beside a CPU
// raise that is due.
func withinCooldown(_ *corev1.Pod, p Plan, in GateInput) Plan {
	refusal := coolingDown(in)
	if refusal == nil {
		return p
	}
	for _, r := range recommender.Resources {
		p = narrowed(p, func(m Move) (recommender.Size, *Refusal) {
			to := m.To
			if !goesNow(in, p, m, r) {
				to[r] = m.From[r]
			}
			return to, refusal
		})
	}
	return p
}

// coolingDown is the refusal while the workload's cooldown lasts, or nil.
func coolingDown(in GateInput) *Refusal {
	left := CooldownLeft(in.Status.CooldownFrom, in.Status.Backoff, in.Rules, in.Now)
	if left == 0 {
		return nil
	}
	until, rest := in.Now.Add(left), ". A container that uses more than it requests is raised before that" // goesNow
	if in.Status.Backoff != nil {
		rest = ", longer after a revert. " + doNotWait
	}
	return waitUntil(until, ReasonCooldown, "cooldown until %s%s", until.UTC().Format(time.RFC3339), rest)
}
