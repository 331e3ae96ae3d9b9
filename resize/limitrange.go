package resize

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/internal/constraint"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// withinLimitRanges brings each move within what the namespace's LimitRanges allow a container, as far as the
// direction of the change stays the same (constraint.Within). The gate limitRange refuses what then still breaks a
// rule.
func withinLimitRanges(_ *corev1.Pod, p Plan, in GateInput) Plan {
	for _, item := range constraint.Items(in.Namespace.LimitRanges, corev1.LimitTypeContainer) {
		p = narrowed(p, func(m Move) (recommender.Size, *Refusal) {
			to := m.To
			for _, r := range recommender.Resources {
				to[r] = constraint.Within(item, r, m.From[r], to[r])
			}
			return to, refuseMove(ReasonLimitRange, "a LimitRange of the namespace does not allow the size wished for")
		})
	}
	return p
}

// limitRange predicts the answer of the API server's LimitRanger to the whole pod, including amounts that the plan
// does not change. LimitRanger first adds defaults to containers that lack values and then checks every container,
// so this function does the same in that order.
func limitRange(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	if len(in.Namespace.LimitRanges) == 0 {
		return nil
	}
	after := p.Apply(pod)
	if refusal := defaultsAdded(after, in); refusal != nil {
		return refusal
	}
	for _, item := range constraint.Items(in.Namespace.LimitRanges, corev1.LimitTypeContainer) {
		for _, c := range podview.AllContainers(after) {
			if v := constraint.ViolationOf(item, c.Resources.Requests, c.Resources.Limits); v != nil {
				return Refuse(ReasonLimitRange, "a LimitRange does not allow container %s: %s", c.Name, sentence(v))
			}
		}
	}
	options := helpers.PodResourcesOptions{ExcludeOverhead: true}
	requests, limits := helpers.PodRequests(after, options), helpers.PodLimits(after, options)
	for _, item := range constraint.Items(in.Namespace.LimitRanges, corev1.LimitTypePod) {
		if v := constraint.ViolationOf(item, requests, limits); v != nil {
			return Refuse(ReasonLimitRange, "a LimitRange does not allow the pod: %s", sentence(v))
		}
	}
	return nil
}

// defaultsAdded applies the defaults of LimitRanges that are newer than the pod to its containers, and refuses
// what would follow from them: a limit that nothing asked for, another class, or a refusal by the API server.
func defaultsAdded(pod *corev1.Pod, in GateInput) *Refusal {
	class := podview.ClassOf(pod)
	for _, item := range constraint.Items(in.Namespace.LimitRanges, corev1.LimitTypeContainer) {
		for _, c := range podview.AllContainers(pod) {
			if name := constraint.Missing(c.Resources.Limits, item.Default); name != "" {
				q := item.Default[name]
				return Refuse(ReasonLimitRange, "container %s has no %s limit, and a LimitRange newer than the pod would give it one of %s",
					c.Name, name, q.String())
			}
			name := constraint.Missing(c.Resources.Requests, item.DefaultRequest)
			if name == "" {
				continue
			}
			if refusal := requestAdded(pod, c, name, in); refusal != nil {
				return refusal
			}
			c.Resources.Requests = constraint.AddMissing(c.Resources.Requests, item.DefaultRequest)
		}
	}
	if now := podview.QOSClass(pod); now != class {
		return Refuse(ReasonQOSClass, "a LimitRange newer than the pod would make it %s instead of %s", now, class)
	}
	return nil
}

// requestAdded refuses where LimitRanger would add a request that pods/resize does not accept.
func requestAdded(pod *corev1.Pod, c *corev1.Container, name corev1.ResourceName, in GateInput) *Refusal {
	if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
		return Refuse(ReasonLimitRange, "a LimitRange newer than the pod would give container %s a request for %s, which a resize cannot add", c.Name, name)
	}
	if !slices.Contains(podview.Resizable(pod), c) && in.Node.Capabilities.ServerMinor < MinorInitContainers {
		return Refuse(ReasonLimitRange, "a LimitRange newer than the pod would give init container %s a request for %s, which Kubernetes before 1.36 cannot add", c.Name, name)
	}
	return nil
}

// sentence writes the rule that is broken as the end of a message.
func sentence(v *constraint.Violation) string {
	switch v.Rule {
	case constraint.RuleMin:
		return fmt.Sprintf("%s must be at least %s", v.Name, v.Demand.String())
	case constraint.RuleMax:
		return fmt.Sprintf("%s must have a limit, and be at most %s", v.Name, v.Demand.String())
	}
	return fmt.Sprintf("the %s limit must be at most %s times the request", v.Name, v.Demand.String())
}
