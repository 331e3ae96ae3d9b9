// Package constraint evaluates LimitRanges and ResourceQuotas as the API server does. Admission and resizes share it,
// so that both apply the same rules.
//
// There are two callers:
//   - Admission (webhook/pod) sizes a pod before it exists. It uses whole amounts of CPU and memory: Bounds combines
//     the LimitRanges of a namespace, QuotaLeft is the rest of one ResourceQuota.
//   - A resize (package resize) changes an existing pod. The pod is checked as a whole, in exact quantities of any
//     resource: ViolationOf checks a LimitRange, Covers and QuotaRoom check quotas.
//
// The package writes no messages for users: the caller that rejects a change explains it. It does not read the cluster
// and changes no object except the lists passed to AddMissing. Start reading in bounds.go (admission), then ViolationOf
// and quota.go (resizes).
package constraint

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Rule names a rule of a LimitRange item by the name of its field.
type Rule string

// The rules that amounts can violate. Missing and AddMissing handle defaults.
const (
	RuleMin   Rule = "min"
	RuleMax   Rule = "max"
	RuleRatio Rule = "maxLimitRequestRatio"
)

// Violation describes the first rule of a LimitRange that an object violates.
type Violation struct {
	// Rule is the violated rule.
	Rule Rule
	// Name is the resource whose amounts violate the rule, such as cpu.
	Name corev1.ResourceName
	// Demand is the minimum, maximum or ratio that the rule requires.
	Demand resource.Quantity
}

// ViolationOf returns the first rule of a LimitRange item that the requests and limits violate, or nil. It compares
// exact quantities in the order of LimitRanger (PodValidateLimitFunc in plugin/pkg/admission/limitranger): minima,
// maxima, ratios; each sorted by resource name.
func ViolationOf(item corev1.LimitRangeItem, requests, limits corev1.ResourceList) *Violation {
	for _, name := range Names(item.Min) {
		low, request := item.Min[name], requests[name]
		if limit, ok := limits[name]; request.Cmp(low) < 0 || ok && limit.Cmp(low) < 0 {
			return &Violation{RuleMin, name, low}
		}
	}
	for _, name := range Names(item.Max) {
		high, request := item.Max[name], requests[name]
		if limit, ok := limits[name]; !ok || limit.Cmp(high) > 0 || request.Cmp(high) > 0 {
			return &Violation{RuleMax, name, high}
		}
	}
	for _, name := range Names(item.MaxLimitRequestRatio) {
		most, request, limit := item.MaxLimitRequestRatio[name], requests[name], limits[name]
		if request.IsZero() || limit.IsZero() || ExceedsRatio(request, limit, most) {
			return &Violation{RuleRatio, name, most}
		}
	}
	return nil
}

// Items returns the items of LimitRanges that apply to one type of object, such as Container or Pod.
func Items(ranges []corev1.LimitRange, kind corev1.LimitType) []corev1.LimitRangeItem {
	var items []corev1.LimitRangeItem
	for _, r := range ranges {
		for _, item := range r.Spec.Limits {
			if item.Type == kind {
				items = append(items, item)
			}
		}
	}
	return items
}

// Within moves a wanted allocation as close to a LimitRange item as possible without reversing the change: an increase
// never becomes a decrease, nor the reverse. It rounds a maximum up to a whole amount; ViolationOf reports an excess
// over the exact maximum.
func Within(item corev1.LimitRangeItem, r recommender.Resource, from, to recommender.Allocation) recommender.Allocation {
	bound := Bound{min: podview.AmountIn(r, item.Min), max: podview.AmountIn(r, item.Max)}
	to.Request = bound.towards(from.Request, to.Request)
	if to.Limit > 0 {
		to.Limit = bound.towards(from.Limit, to.Limit)
	}
	if ratio, ok := item.MaxLimitRequestRatio[podview.NameOf(r)]; ok {
		to = RatioOf(ratio).within(from, to)
	}
	return to
}

// towards returns the amount within the bound that is closest to the wish and does not reverse the change. For example,
// from 200m with wish 300m and maximum 100m it returns 200m, not 100m.
func (b *Bound) towards(from, wish recommender.Amount) recommender.Amount {
	to := b.between(wish)
	if wish < from {
		return min(to, from)
	}
	if wish > from {
		return max(to, from)
	}
	return from
}

// within repairs a violated ratio. It first reduces a decrease of the request, then an increase of the limit. Amounts
// that the wish does not change stay. A ratio below 1 is ignored: no request and limit can satisfy it.
func (r Ratio) within(from, to recommender.Allocation) recommender.Allocation {
	if to.Limit == 0 || r < 1000 || to.Request > 0 && !r.Exceeded(to.Request, to.Limit) {
		return to
	}
	if to.Request < from.Request {
		to.Request = min(r.LeastRequest(to.Limit), from.Request)
	}
	if from.Limit > 0 && to.Limit > from.Limit && to.Request > 0 && r.Exceeded(to.Request, to.Limit) {
		to.Limit = max(from.Limit, r.MostLimit(to.Request))
	}
	return to
}

// Missing returns the first name that has a default and no value in the list, or the empty name. An explicit 0 counts
// as a value.
func Missing(list, defaults corev1.ResourceList) corev1.ResourceName {
	for _, name := range Names(defaults) {
		if _, ok := list[name]; !ok {
			return name
		}
	}
	return ""
}

// AddMissing adds missing defaults to a list and returns it. It creates a list for nil.
func AddMissing(list, defaults corev1.ResourceList) corev1.ResourceList {
	if list == nil {
		list = corev1.ResourceList{}
	}
	for name, q := range defaults {
		if _, ok := list[name]; !ok {
			list[name] = q
		}
	}
	return list
}

// Names returns the keys of a list in alphabetical order, so that the first violation is always the same.
func Names(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

// Ratio is the largest limit / request that a LimitRange allows, in thousandths: 2000 means that the limit may be twice
// the request. 0 means not set.
type Ratio recommender.Amount

// RatioOf converts maxLimitRequestRatio of a LimitRange.
func RatioOf(most resource.Quantity) Ratio { return Ratio(most.MilliValue()) }

// Exceeded reports whether limit / request is above the ratio. It compares in floating point and rounds as LimitRanger
// does (limitRequestRatioConstraint in plugin/pkg/admission/limitranger). The request must not be 0.
func (r Ratio) Exceeded(request, limit recommender.Amount) bool {
	return float64(limit)/float64(request)*1000 > float64(r)
}

// LeastRequest returns the smallest request for which a limit does not exceed the ratio. It corrects the estimate
// upwards with Exceeded: a rounded division alone could return a request that the API server rejects.
func (r Ratio) LeastRequest(limit recommender.Amount) recommender.Amount {
	least := max(1, recommender.Amount(float64(limit)*1000/float64(r)))
	for r.Exceeded(least, limit) {
		least++
	}
	return least
}

// MostLimit returns the largest limit that does not exceed the ratio for a request; 0 if no limit fits. The estimate is
// 1 too high on purpose, and Exceeded corrects it downwards.
func (r Ratio) MostLimit(request recommender.Amount) recommender.Amount {
	most := recommender.Amount(float64(request)*float64(r)/1000) + 1
	for most > 0 && r.Exceeded(request, most) {
		most--
	}
	return most
}

// ExceedsRatio is Exceeded for quantities of any resource, such as ephemeral storage. Like LimitRanger, it compares
// thousandths if all three values are small enough (resource.MaxMilliValue), or else whole units. The request must not
// be 0.
func ExceedsRatio(request, limit, most resource.Quantity) bool {
	asked, given, enforced := request.Value(), limit.Value(), most.Value()
	if asked <= resource.MaxMilliValue && given <= resource.MaxMilliValue && enforced <= resource.MaxMilliValue {
		asked, given = request.MilliValue(), limit.MilliValue()
	}
	ratio, bound := float64(given)/float64(asked), float64(enforced)
	if enforced <= resource.MaxMilliValue {
		ratio, bound = ratio*1000, float64(most.MilliValue())
	}
	return ratio > bound
}
