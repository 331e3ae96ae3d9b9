package resize

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/internal/constraint"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// withinLimitRanges brings a plan within the namespace's LimitRanges. The gate limitRange refuses a plan that still
// violates a rule.
func withinLimitRanges(pod *corev1.Pod, p Plan, in GateInput) Plan {
	return withinPodRanges(pod, withinContainerRanges(p, in), in)
}

// withinContainerRanges brings each move within the ranges for containers, unless that reverses the direction of the change
// (constraint.Within).
func withinContainerRanges(p Plan, in GateInput) Plan {
	for _, item := range constraint.Items(in.Namespace.LimitRanges, corev1.LimitTypeContainer) {
		p = narrowed(p, func(m Move) (recommender.Size, *Refusal) {
			to := m.To
			for _, r := range recommender.Resources {
				to[r] = constraint.Within(item, r, m.From[r], to[r])
			}
			return to, Refuse(ReasonLimitRange, "a LimitRange of the namespace does not allow the target")
		})
	}
	return p
}

// withinPodRanges leaves out the resource that would break the namespace's LimitRanges for pods, so that the other one may
// change.
func withinPodRanges(pod *corev1.Pod, p Plan, in GateInput) Plan {
	for range recommender.Resources {
		v := podViolation(p.Apply(pod), in)
		if v == nil || v.Name != corev1.ResourceCPU && v.Name != corev1.ResourceMemory {
			return p
		}
		r := recommender.ResourceOf(string(v.Name))
		p = narrowed(p, func(m Move) (recommender.Size, *Refusal) {
			to := m.To
			to[r] = m.From[r]
			return to, Refuse(ReasonLimitRange, "a LimitRange does not allow the pod: %s", sentence(v))
		})
	}
	return p
}

// podViolation returns the first rule of a LimitRange for pods that a pod breaks, or nil.
func podViolation(pod *corev1.Pod, in GateInput) *constraint.Violation {
	options := helpers.PodResourcesOptions{ExcludeOverhead: true}
	for _, item := range constraint.Items(in.Namespace.LimitRanges, corev1.LimitTypePod) {
		if v := constraint.ViolationOf(item, helpers.PodRequests(pod, options), helpers.PodLimits(pod, options)); v != nil {
			return v
		}
	}
	return nil
}

// limitRange predicts the answer of the API server's LimitRanger for the whole pod, including amounts that the plan
// does not change. Like LimitRanger, it first adds defaults to containers that lack values and then checks every
// container.
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
				return Refuse(ReasonLimitRange, "a LimitRange does not allow container %s: %s%s", c.Name, sentence(v), lifted(v, c))
			}
		}
	}
	if v := podViolation(after, in); v != nil {
		return Refuse(ReasonLimitRange, "a LimitRange does not allow the pod: %s", sentence(v))
	}
	return nil
}

// defaultsAdded applies the defaults of LimitRanges that are newer than the pod to its containers, and refuses the
// consequences: an unwanted limit, another QoS class, or a refusal by the API server.
func defaultsAdded(pod *corev1.Pod, in GateInput) *Refusal {
	class := podview.ClassOf(pod)
	for _, item := range constraint.Items(in.Namespace.LimitRanges, corev1.LimitTypeContainer) {
		for _, c := range podview.AllContainers(pod) {
			if name := constraint.Missing(c.Resources.Limits, item.Default); name != "" {
				q := item.Default[name]
				return Refuse(ReasonLimitRange, "container %s has no %s limit, and a LimitRange newer than the pod would add one of %s. %s, or remove the default",
					c.Name, name, q.String(), setAndReplace)
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
		return Refuse(ReasonQOSClass, "a LimitRange newer than the pod would make its QoS class %s instead of %s", now, class)
	}
	return nil
}

// requestAdded refuses if LimitRanger would add a request that pods/resize does not accept.
func requestAdded(pod *corev1.Pod, c *corev1.Container, name corev1.ResourceName, in GateInput) *Refusal {
	if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
		return Refuse(ReasonLimitRange, "a LimitRange newer than the pod would add a request to container %s for %s, which a resize cannot add", c.Name, name)
	}
	if !slices.Contains(podview.Resizable(pod), c) && in.Node.Capabilities.ServerMinor < MinorInitContainers {
		return Refuse(ReasonLimitRange, "a LimitRange newer than the pod would add a request to init container %s for %s, which Kubernetes before 1.36 cannot add", c.Name, name)
	}
	return nil
}

// lifted ends a message about a rule that a container breaks because it has no limit, with what lifts it.
func lifted(v *constraint.Violation, c *corev1.Container) string {
	if _, limited := c.Resources.Limits[v.Name]; limited || v.Rule == constraint.RuleMin {
		return ""
	}
	return ". It has no limit, and the API server rejects each resize of the pod. " + setAndReplace + ", or remove the rule"
}

// sentence formats a violated rule as the end of a message.
func sentence(v *constraint.Violation) string {
	switch v.Rule {
	case constraint.RuleMin:
		return fmt.Sprintf("%s must be at least %s", v.Name, v.Demand.String())
	case constraint.RuleMax:
		return fmt.Sprintf("%s must have a limit, and be at most %s", v.Name, v.Demand.String())
	}
	return fmt.Sprintf("the %s limit must be at most %s times the request", v.Name, v.Demand.String())
}

// quota allows a pod to grow only within the free part of the namespace's quotas, as the API server counts: for each
// amount the maximum of spec, allocated and actual. So a decrease frees quota only after the node has carried it out. A
// decrease passes even if a quota is already exceeded. A quota also requires that every container sets the amount that
// it counts.
func quota(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	if len(in.Namespace.Quotas) == 0 {
		return nil
	}
	if refusal := unspecified(pod, p, in); refusal != nil {
		return refusal
	}
	growth := GrowthOf(pod, p)
	for _, q := range in.Namespace.Quotas {
		if !constraint.Covers(&q, pod) {
			continue
		}
		for _, name := range constraint.Names(q.Status.Hard) {
			if counted, ok := constraint.CountedBy(name); ok {
				if refusal := exceeded(q, name, growth, in.Namespace.Reserved, counted); refusal != nil {
					return refusal
				}
			}
		}
	}
	return nil
}

// unspecified refuses every resize of a pod with a container that does not set an amount that a quota counts, for
// example because admission removed its CPU limit before the quota was there.
func unspecified(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	if len(in.Namespace.Quotas) == 0 {
		return nil
	}
	after := p.Apply(pod)
	for _, q := range in.Namespace.Quotas {
		if !constraint.Covers(&q, pod) {
			continue
		}
		for _, name := range constraint.Names(q.Status.Hard) {
			if counted, ok := constraint.CountedBy(name); ok {
				if c := counted.Unspecified(after); c != "" {
					return Refuse(ReasonQuota, "quota %s requires container %s to set %s, and the API server rejects each resize of the pod. %s, or remove %[3]s from the quota", q.Name, c, name, setAndReplace)
				}
			}
		}
	}
	return nil
}

// setAndReplace is what lifts a refusal because of a limit that a container lacks.
const setAndReplace = "Set it in the pod template, set cpu.limits to Keep and replace the pods"

// exceeded refuses growth beyond one amount of a quota, for now: a quota may be raised, and other pods may free room.
func exceeded(q corev1.ResourceQuota, name corev1.ResourceName, growth, promised recommender.Size, counted constraint.Counted) *Refusal {
	more := counted.Of(growth)
	hard, used, known := counted.State(&q, name)
	used += counted.Of(promised)
	switch {
	case more <= 0:
		return nil
	case !known:
		return RefuseForNow(ReasonQuota, "the usage of quota %s is not known yet", q.Name)
	case used+more > hard:
		return RefuseForNow(ReasonQuota, "the pod would need %s more of %s, but quota %s has %s of %s in use. Raise the quota, or let other pods free a part of it", recommender.Format(counted.Resource, more), name,
			q.Name, recommender.Format(counted.Resource, used), recommender.Format(counted.Resource, hard))
	}
	return nil
}

// GrowthOf returns by how much a plan raises the amounts that quotas count for a pod, in millicores and bytes;
// decreases are 0.
func GrowthOf(pod *corev1.Pod, p Plan) recommender.Size {
	return podview.Combine(constraint.Charged(pod), constraint.Charged(p.Apply(pod)), func(before, after recommender.Amount) recommender.Amount {
		return max(0, after-before)
	})
}

// disruptionBudgets checks a resize that restarts containers against every PodDisruptionBudget that covers the pod, as
// the API server checks evictions; the API server checks no budget for pods/resize. Growth after an OOM kill is exempt,
// because the container is down anyway.
func disruptionBudgets(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	if !p.Restarts {
		return nil
	}
	for i := range in.Namespace.Budgets {
		budget := &in.Namespace.Budgets[i]
		if refusal := spent(budget); refusal != nil && protects(budget, pod) {
			return refusal
		}
	}
	return nil
}

// spent returns why a budget allows no disruption now, or nil. A status for an older spec of the budget counts as not
// known, and is refused.
func spent(budget *policyv1.PodDisruptionBudget) *Refusal {
	status := budget.Status
	switch {
	case status.ObservedGeneration < budget.Generation:
		return RefuseForNow(ReasonDisruptionBudget, "the resize would restart a container (resizePolicy), but the status of PodDisruptionBudget %s is not up to date", budget.Name)
	case status.DisruptionsAllowed <= 0:
		return RefuseForNow(ReasonDisruptionBudget, "the resize would restart a container (resizePolicy), but PodDisruptionBudget %s allows no disruption now: %d pods are healthy, and %d must be. The resize follows when it allows one",
			budget.Name, status.CurrentHealthy, status.DesiredHealthy)
	}
	return nil
}

// protects reports whether the budget's selector matches the pod. A selector that cannot be parsed counts as a match.
// The API server accepts no such selector, so this only happens with an object of another source.
func protects(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	return budget.Namespace == pod.Namespace && (err != nil || selector.Matches(labels.Set(pod.Labels)))
}
