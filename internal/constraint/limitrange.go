package constraint

import (
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
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
