package plane

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	helpers "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"
)

// resourceQuotas has the status of each ResourceQuota follow its pods, with a lag (pkg/controller/resourcequota,
// pkg/quota/v1/evaluator/core/pods.go).
func (p *Plane) resourceQuotas(ctx context.Context, v *view) error {
	if p.quotas == nil {
		p.quotas = map[types.UID]time.Time{}
	}
	for _, quota := range v.quotas {
		used := p.used(v, quota)
		if equality.Semantic.DeepEqual(quota.Status.Hard, quota.Spec.Hard) && same(quota.Status.Used, used) {
			delete(p.quotas, quota.UID)
			continue
		}
		if _, noted := p.quotas[quota.UID]; !noted {
			p.quotas[quota.UID] = v.now
		}
		if at := p.quotas[quota.UID].Add(p.QuotaLag); v.now.Before(at) && quota.Status.Hard != nil {
			p.wake(v, at)
			continue
		}
		delete(p.quotas, quota.UID)
		changed := quota.DeepCopy()
		changed.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard.DeepCopy(), Used: used}
		if err := p.writeStatus(ctx, changed); err != nil {
			return err
		}
	}
	return nil
}

func same(a, b corev1.ResourceList) bool {
	return maps.EqualFunc(a, b, func(a, b resource.Quantity) bool { return a.Cmp(b) == 0 })
}

// used is what the pods of a quota's namespace take of each resource that it bounds; of other objects what the status
// says already.
func (p *Plane) used(v *view, quota *corev1.ResourceQuota) corev1.ResourceList {
	used := corev1.ResourceList{}
	for name := range quota.Spec.Hard {
		used[name] = resource.Quantity{Format: resource.DecimalSI}
	}
	for _, pod := range v.pods {
		if pod.Namespace != quota.Namespace || finished(pod) || !inScope(quota, pod) {
			continue
		}
		for name, amount := range p.charged.of(pod, func() corev1.ResourceList { return Charged(pod) }) {
			if sum, bounded := used[name]; bounded {
				sum.Add(amount)
				used[name] = sum
			}
		}
	}
	for name := range used {
		if before, known := quota.Status.Used[name]; known && !ofPods(name) {
			used[name] = before
		}
	}
	return used
}

// ofPods: what pods take, under any of its names.
func ofPods(name corev1.ResourceName) bool {
	return slices.Contains([]corev1.ResourceName{corev1.ResourcePods, "count/pods", corev1.ResourceCPU, corev1.ResourceMemory}, name) ||
		strings.HasPrefix(string(name), "requests.") || strings.HasPrefix(string(name), "limits.")
}

// Charged is what a quota charges for a pod: of each container the most of what it asks for, was allocated and has.
func Charged(pod *corev1.Pod) corev1.ResourceList {
	options := helpers.PodResourcesOptions{UseStatusResources: true}
	requests, limits := helpers.PodRequests(pod, options), helpers.PodLimits(pod, options)
	one := resource.MustParse("1")
	return corev1.ResourceList{
		corev1.ResourcePods: one, "count/pods": one,
		corev1.ResourceCPU: *requests.Cpu(), corev1.ResourceMemory: *requests.Memory(),
		corev1.ResourceRequestsCPU: *requests.Cpu(), corev1.ResourceRequestsMemory: *requests.Memory(),
		corev1.ResourceLimitsCPU: *limits.Cpu(), corev1.ResourceLimitsMemory: *limits.Memory(),
	}
}

// inScope: all scopes of the quota fit the pod.
func inScope(quota *corev1.ResourceQuota, pod *corev1.Pod) bool {
	for _, scope := range quota.Spec.Scopes {
		if !scopeFits(scope, pod) {
			return false
		}
	}
	if quota.Spec.ScopeSelector == nil {
		return true
	}
	return !slices.ContainsFunc(quota.Spec.ScopeSelector.MatchExpressions, func(m corev1.ScopedResourceSelectorRequirement) bool {
		switch {
		case m.ScopeName != corev1.ResourceQuotaScopePriorityClass:
			return !scopeFits(m.ScopeName, pod)
		case m.Operator == corev1.ScopeSelectorOpIn:
			return !slices.Contains(m.Values, pod.Spec.PriorityClassName)
		case m.Operator == corev1.ScopeSelectorOpNotIn:
			return slices.Contains(m.Values, pod.Spec.PriorityClassName)
		}
		return (pod.Spec.PriorityClassName != "") != (m.Operator == corev1.ScopeSelectorOpExists)
	})
}

func scopeFits(scope corev1.ResourceQuotaScope, pod *corev1.Pod) bool {
	terminating := ptr.Deref(pod.Spec.ActiveDeadlineSeconds, -1) >= 0
	bestEffort := pod.Status.QOSClass == corev1.PodQOSBestEffort
	switch scope {
	case corev1.ResourceQuotaScopeTerminating:
		return terminating
	case corev1.ResourceQuotaScopeNotTerminating:
		return !terminating
	case corev1.ResourceQuotaScopeBestEffort:
		return bestEffort
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !bestEffort
	}
	return true
}
