package resize

import (
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// disruptionBudgets checks a resize that restarts containers against every PodDisruptionBudget that covers the
// pod, as the API server checks evictions; the API server itself checks none of them for pods/resize. Growth after
// an OOM kill is exempt, because the container is down anyway.
func disruptionBudgets(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	if !p.Restarts || p.Urgent {
		return nil
	}
	for i := range in.Namespace.Budgets {
		budget := &in.Namespace.Budgets[i]
		if !protects(budget, pod) {
			continue
		}
		if refusal := spent(budget); refusal != nil {
			return refusal
		}
	}
	return nil
}

// spent returns why a budget allows no disruption now, or nil. A status that belongs to an older spec of the
// budget counts as unknown, and unknown refuses.
func spent(budget *policyv1.PodDisruptionBudget) *Refusal {
	status := budget.Status
	switch {
	case status.ObservedGeneration < budget.Generation:
		return RefuseForNow(ReasonDisruptionBudget, "its resizePolicy restarts a container, and what PodDisruptionBudget %s allows is not known yet", budget.Name)
	case status.DisruptionsAllowed <= 0:
		return RefuseForNow(ReasonDisruptionBudget, "its resizePolicy restarts a container, and PodDisruptionBudget %s allows no disruption now: %d pods are healthy, and %d have to be",
			budget.Name, status.CurrentHealthy, status.DesiredHealthy)
	}
	return nil
}

// protects reports whether the budget's selector matches the pod. A selector that cannot be parsed counts as a
// match; the API server accepts no such selector, so this only happens with an object of another source.
func protects(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	return budget.Namespace == pod.Namespace && (err != nil || selector.Matches(labels.Set(pod.Labels)))
}
