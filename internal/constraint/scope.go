package constraint

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
)

// Covers reports whether a quota counts the pod: every scope of the quota must match. An unknown scope counts as a
// match, which can only prevent growth and never lets a pod exceed the quota.
func Covers(q *corev1.ResourceQuota, pod *corev1.Pod) bool {
	for _, scope := range scopesOf(q) {
		if !inScope(scope, pod) {
			return false
		}
	}
	return true
}

// scopesOf returns the scopes of a quota from both of its fields (spec.scopes and spec.scopeSelector). An entry of
// spec.scopes is the same as a selector with the operator Exists.
func scopesOf(q *corev1.ResourceQuota) []corev1.ScopedResourceSelectorRequirement {
	var all []corev1.ScopedResourceSelectorRequirement
	for _, scope := range q.Spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		all = append(all, q.Spec.ScopeSelector.MatchExpressions...)
	}
	return all
}

// inScope reports whether one scope matches the pod, by the definitions of the quota controller.
func inScope(requirement corev1.ScopedResourceSelectorRequirement, pod *corev1.Pod) bool {
	terminating := pod.Spec.ActiveDeadlineSeconds != nil
	bestEffort := podview.ClassOf(pod) == corev1.PodQOSBestEffort
	switch requirement.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return terminating
	case corev1.ResourceQuotaScopeNotTerminating:
		return !terminating
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort
	case corev1.ResourceQuotaScopePriorityClass:
		return hasPriorityClass(requirement, pod.Spec.PriorityClassName)
	}
	return true
}

// hasPriorityClass applies a PriorityClass scope. An unknown operator counts as Exists.
func hasPriorityClass(requirement corev1.ScopedResourceSelectorRequirement, class string) bool {
	listed := slices.Contains(requirement.Values, class)
	switch requirement.Operator {
	case corev1.ScopeSelectorOpIn:
		return class != "" && listed
	case corev1.ScopeSelectorOpNotIn:
		return !listed
	case corev1.ScopeSelectorOpDoesNotExist:
		return class == ""
	default:
		return class != ""
	}
}

// byClass reports whether the scope selects pods by their class of quality of service.
func byClass(scope corev1.ResourceQuotaScope) bool {
	return scope == corev1.ResourceQuotaScopeBestEffort || scope == corev1.ResourceQuotaScopeNotBestEffort
}
