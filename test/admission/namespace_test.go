package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	core "k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"
)

// limitRanges are one or two that an API server takes.
func (d dice) limitRanges() (out []*corev1.LimitRange) {
	for i := range 1 + d.IntN(2) {
		for range 8 { // tries
			lr := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("range%d", i), Namespace: namespace}}
			if d.chance(75) {
				lr.Spec.Limits = append(lr.Spec.Limits, d.limits(corev1.LimitTypeContainer))
			}
			if d.chance(45) {
				lr.Spec.Limits = append(lr.Spec.Limits, d.limits(corev1.LimitTypePod))
			}
			if taken(lr) {
				out = append(out, lr)
				break
			}
		}
	}
	return out
}

func taken(lr *corev1.LimitRange) bool {
	legacyscheme.Scheme.Default(lr)
	var internal core.LimitRange
	if err := legacyscheme.Scheme.Convert(lr.DeepCopy(), &internal, nil); err != nil {
		panic(err)
	}
	return len(validation.ValidateLimitRange(&internal)) == 0
}

func (d dice) limits(of corev1.LimitType) corev1.LimitRangeItem {
	item := corev1.LimitRangeItem{Type: of}
	for _, r := range sized {
		low, high := d.ordered(r)
		if d.chance(25) {
			put(&item.Min, r, low)
		}
		if d.chance(25) {
			put(&item.Max, r, high)
		}
		if d.chance(25) {
			put(&item.MaxLimitRequestRatio, r, resource.MustParse(pick(d, "1", "1500m", "2", "2001m", "3", "10", "1.0001", "1e12")))
		}
		if of == corev1.LimitTypeContainer && d.chance(20) {
			put(&item.Default, r, d.amount(r))
		}
		if of == corev1.LimitTypeContainer && d.chance(20) {
			put(&item.DefaultRequest, r, d.amount(r))
		}
	}
	if d.chance(10) {
		put(&item.Max, corev1.ResourceEphemeralStorage, resource.MustParse("2Gi"))
	}
	return item
}

var quotaKeys = []corev1.ResourceName{
	corev1.ResourceCPU, corev1.ResourceRequestsCPU, corev1.ResourceLimitsCPU,
	corev1.ResourceMemory, corev1.ResourceRequestsMemory, corev1.ResourceLimitsMemory,
	corev1.ResourcePods, "count/pods", corev1.ResourceRequestsEphemeralStorage, "requests.example.com/gpu",
}

// quotas are one or two that an API server takes.
func (d dice) quotas() (out []*corev1.ResourceQuota) {
	for i := range 1 + d.IntN(2) {
		for range 8 { // tries
			q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("quota%d", i), Namespace: namespace}}
			for range 1 + d.IntN(3) {
				d.count(q, pick(d, quotaKeys...))
			}
			d.scope(&q.Spec)
			var internal core.ResourceQuota
			if err := legacyscheme.Scheme.Convert(q.DeepCopy(), &internal, nil); err != nil {
				panic(err)
			}
			if len(validation.ValidateResourceQuota(&internal)) == 0 {
				out = append(out, q)
				break
			}
		}
	}
	return out
}

// count has a quota count one resource. Now and then its status lags behind its spec.
func (d dice) count(q *corev1.ResourceQuota, key corev1.ResourceName) {
	used, hard := resource.MustParse("3"), resource.MustParse(pick(d, "3", "10", "1k"))
	for _, r := range sized {
		if key == r || key == "requests."+r || key == "limits."+r {
			used, hard = d.ordered(r)
			if d.chance(50) {
				hard = resource.MustParse("1Ti")
			}
		}
	}
	put(&q.Spec.Hard, key, hard)
	if d.chance(97) {
		put(&q.Status.Used, key, used)
	}
	if d.chance(97) {
		put(&q.Status.Hard, key, hard)
	} else {
		put(&q.Status.Hard, key, used)
	}
}

func (d dice) scope(spec *corev1.ResourceQuotaSpec) {
	scope := pick(d, corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopePriorityClass)
	switch {
	case d.chance(25):
		spec.Scopes = []corev1.ResourceQuotaScope{scope}
	case d.chance(15):
		spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists},
		}}
	}
}
