// Package constraint knows what LimitRanges and ResourceQuotas demand, as the API server computes it. Admission
// and resizes share it, so that both apply one rule.
//
// There are two ways in:
//   - Admission (webhook/pod) sizes a pod before it exists. It works in whole amounts of CPU and memory: Bounds
//     are the LimitRanges of a namespace in one value, QuotaLeft is the rest of one ResourceQuota.
//   - A resize (package resize) changes a pod that exists. It is checked as a whole and in exact quantities of any
//     resource: ViolationOf checks a LimitRange, Covers and QuotaRoom check quotas.
//
// The package writes no messages for users: the caller that refuses a change explains it. It reads no cluster and
// changes no object but lists that are passed to AddMissing. Start reading in bounds.go (admission), then
// namespace.go (resizes).
package constraint

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Rule names a rule of a LimitRange's item, by the name of its field.
type Rule string

// The rules that amounts can break. A default breaks none: Missing and AddMissing are about those.
const (
	RuleMin   Rule = "min"
	RuleMax   Rule = "max"
	RuleRatio Rule = "maxLimitRequestRatio"
)

// Violation describes the first rule of a LimitRange that an object breaks.
type Violation struct {
	// Rule is the rule that is broken.
	Rule Rule
	// Name is the resource whose amounts break it, such as cpu.
	Name corev1.ResourceName
	// Demand is the minimum, maximum or ratio that the rule requires.
	Demand resource.Quantity
}

// ViolationOf returns the first rule of a LimitRange's item that the requests and limits break, or nil. It
// compares exact quantities, in the order of LimitRanger's own checks (PodValidateLimitFunc in
// plugin/pkg/admission/limitranger): minima, maxima, ratios; within each by the name of the resource.
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

// Items returns the items of LimitRanges that apply to one kind of object, such as Container or Pod.
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

// Within brings a wished allocation as far into a LimitRange's item as possible without turning the change around:
// a raise stays a raise or becomes no change, and so does a lowering. A maximum is rounded up to a whole amount
// here; what exceeds the exact one is left for ViolationOf to report.
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

// towards is the amount that is nearest to the wish, is within the bound, and does not turn the change around.
// Example: from 200m, wish 300m, maximum 100m: the result is 200m, not 100m.
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

// within repairs a ratio that the wish would break. It first takes back part of a lowering of the request, then
// part of a raise of the limit. Amounts that the wish does not change are never moved. A ratio below 1 is ignored:
// no request and limit can keep it.
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

// Missing returns the first name that has a default and no value in the list, or the empty name. An explicit zero
// counts as a value.
func Missing(list, defaults corev1.ResourceList) corev1.ResourceName {
	for _, name := range Names(defaults) {
		if _, ok := list[name]; !ok {
			return name
		}
	}
	return ""
}

// AddMissing adds the defaults that a list lacks to that list and returns it. A nil list is replaced by a new one.
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

// Names returns the keys of a list in alphabetic order, so that the same violation is found first in every pass.
func Names(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}

// Ratio is the greatest quotient of limit and request that a LimitRange allows, in thousandths: 2000 means that
// the limit may be twice the request. Zero means that no ratio is set.
type Ratio recommender.Amount

// RatioOf reads a LimitRange's maxLimitRequestRatio.
func RatioOf(most resource.Quantity) Ratio { return Ratio(most.MilliValue()) }

// Exceeded reports whether limit / request is above the ratio. It compares in floating point, as the API server's
// LimitRanger does (limitRequestRatioConstraint in plugin/pkg/admission/limitranger), so that both round in the
// same way. The request must not be 0.
func (r Ratio) Exceeded(request, limit recommender.Amount) bool {
	return float64(limit)/float64(request)*1000 > float64(r)
}

// LeastRequest is the least request for which a limit does not exceed the ratio.
// The estimate is corrected upwards with Exceeded itself: a rounded division alone could return a request that the
// API server refuses.
func (r Ratio) LeastRequest(limit recommender.Amount) recommender.Amount {
	least := max(1, recommender.Amount(float64(limit)*1000/float64(r)))
	for r.Exceeded(least, limit) {
		least++
	}
	return least
}

// MostLimit is the greatest limit that does not exceed the ratio of a request.
// The estimate is one too high on purpose and is corrected downwards with Exceeded. It returns 0 where no limit
// fits.
func (r Ratio) MostLimit(request recommender.Amount) recommender.Amount {
	most := recommender.Amount(float64(request)*float64(r)/1000) + 1
	for most > 0 && r.Exceeded(request, most) {
		most--
	}
	return most
}

// ExceedsRatio is Exceeded for quantities of any resource, such as ephemeral storage. Like LimitRanger, it
// compares thousandths as long as all three values are small enough for that (resource.MaxMilliValue), else whole
// units. The request must not be 0.
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
