package constraint

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Rule of a LimitRange's item, by the name of its field.
type Rule string

// The rules that amounts can break. A default breaks none: Missing and AddMissing are about those.
const (
	RuleMin   Rule = "min"
	RuleMax   Rule = "max"
	RuleRatio Rule = "maxLimitRequestRatio"
)

// Violation is a rule of a LimitRange that amounts break, with the amount that the rule demands of a resource.
type Violation struct {
	Rule   Rule
	Name   corev1.ResourceName
	Demand resource.Quantity
}

// ViolationOf is the first rule of a LimitRange that requests and limits of any resources break, or nil. It compares exact
// quantities, in the order of LimitRanger's own checks (PodValidateLimitFunc in plugin/pkg/admission/limitranger).
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

// Items of LimitRanges that are about one kind of object.
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

// Within brings a wish within what a LimitRange's item demands, as far as that is still a step in the direction wished for.
// Here a maximum is rounded up to a whole amount; what exceeds the exact one is left to ViolationOf.
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

// towards is the amount nearest to the wish that is in range and does not turn the step around.
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

// within gives up part of what is lowered of a request, then part of what is raised of a limit.
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

// Missing is the first name that has a default and no value; a value of zero is one. It is empty where none is missing.
func Missing(list, defaults corev1.ResourceList) corev1.ResourceName {
	for _, name := range Names(defaults) {
		if _, ok := list[name]; !ok {
			return name
		}
	}
	return ""
}

// AddMissing adds the defaults that a list lacks to that list, and returns it.
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

// Names of a list in their order, so that what is found first is the same in every pass.
func Names(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
