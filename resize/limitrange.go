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

// withinLimitRanges brings amounts within what the namespace's LimitRanges allow each container, as far
// as that is still a step in the direction wished for; what is not is left to the gate to refuse.
func withinLimitRanges(_ *corev1.Pod, p Plan, w World) Plan {
	for _, item := range limitItems(w.LimitRanges, corev1.LimitTypeContainer) {
		p = narrowed(p, func(m Move) (recommender.Size, *Refusal) {
			to := m.To
			for _, r := range recommender.Resources {
				to[r] = withinItem(item, r, m.From[r], to[r])
			}
			return to, refuseMove(ReasonLimitRange, "a LimitRange of the namespace does not allow the size wished for")
		})
	}
	return p
}

func withinItem(item corev1.LimitRangeItem, r recommender.Resource, from, to recommender.Allocation) recommender.Allocation {
	low, high := podview.AmountIn(r, item.Min), podview.AmountIn(r, item.Max)
	to.Request = towards(from.Request, to.Request, low, high)
	if to.Limit > 0 {
		to.Limit = towards(from.Limit, to.Limit, low, high)
	}
	if ratio, ok := item.MaxLimitRequestRatio[podview.NameOf(r)]; ok {
		to = withinRatio(constraint.RatioOf(ratio), from, to)
	}
	return to
}

// towards is the amount nearest to the wish that is in range and does not turn the step around. A high
// of 0 is no bound.
func towards(from, wish, low, high recommender.Amount) recommender.Amount {
	to := max(wish, low)
	if high > 0 {
		to = min(to, high)
	}
	if wish < from {
		return min(to, from)
	}
	if wish > from {
		return max(to, from)
	}
	return from
}

// withinRatio gives up part of what is lowered of a request, then part of what is raised of a limit.
func withinRatio(ratio constraint.Ratio, from, to recommender.Allocation) recommender.Allocation {
	if to.Limit == 0 || ratio < 1000 || to.Request > 0 && !ratio.Exceeded(to.Request, to.Limit) {
		return to
	}
	if to.Request < from.Request {
		to.Request = min(ratio.LeastRequest(to.Limit), from.Request)
	}
	if from.Limit > 0 && to.Limit > from.Limit && to.Request > 0 && ratio.Exceeded(to.Request, to.Limit) {
		to.Limit = max(from.Limit, ratio.MostLimit(to.Request))
	}
	return to
}

// limitRange is what the API server's LimitRanger will say of the whole pod, amounts that the plan does
// not touch included: it first gives containers the defaults they lack, then checks every one of them.
func limitRange(pod *corev1.Pod, p Plan, w World) *Refusal {
	if len(w.LimitRanges) == 0 {
		return nil
	}
	after := p.Apply(pod)
	if refusal := defaultsAdded(after, w); refusal != nil {
		return refusal
	}
	for _, item := range limitItems(w.LimitRanges, corev1.LimitTypeContainer) {
		for _, c := range allContainers(after) {
			if v := violation(item, c.Resources.Requests, c.Resources.Limits); v != "" {
				return refuse(ReasonLimitRange, "a LimitRange does not allow container %s: %s", c.Name, v)
			}
		}
	}
	options := helpers.PodResourcesOptions{ExcludeOverhead: true}
	requests, limits := helpers.PodRequests(after, options), helpers.PodLimits(after, options)
	for _, item := range limitItems(w.LimitRanges, corev1.LimitTypePod) {
		if v := violation(item, requests, limits); v != "" {
			return refuse(ReasonLimitRange, "a LimitRange does not allow the pod: %s", v)
		}
	}
	return nil
}

// defaultsAdded gives a pod's containers the defaults of LimitRanges that came after the pod, and
// refuses what would then happen: a limit nobody wished for, another class, or an API server's no.
func defaultsAdded(pod *corev1.Pod, w World) *Refusal {
	class := podview.ClassOf(pod)
	for _, item := range limitItems(w.LimitRanges, corev1.LimitTypeContainer) {
		for _, c := range allContainers(pod) {
			if name := missing(c.Resources.Limits, item.Default); name != "" {
				q := item.Default[name]
				return refuse(ReasonLimitRange, "container %s has no %s limit, and a LimitRange newer than the pod would give it one of %s",
					c.Name, name, q.String())
			}
			name := missing(c.Resources.Requests, item.DefaultRequest)
			if name == "" {
				continue
			}
			if refusal := requestAdded(pod, c, name, w); refusal != nil {
				return refusal
			}
			c.Resources.Requests = addMissing(c.Resources.Requests, item.DefaultRequest)
		}
	}
	if now := podview.QOSClass(pod); now != class {
		return refuse(ReasonQOSClass, "a LimitRange newer than the pod would make it %s instead of %s", now, class)
	}
	return nil
}

// requestAdded: what the API server does not let a resize add, a LimitRange adds to no avail.
func requestAdded(pod *corev1.Pod, c *corev1.Container, name corev1.ResourceName, w World) *Refusal {
	if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
		return refuse(ReasonLimitRange, "a LimitRange newer than the pod would give container %s a request for %s, which a resize cannot add", c.Name, name)
	}
	if !slices.Contains(podview.Resizable(pod), c) && w.Capabilities.ServerMinor < MinorInitContainers {
		return refuse(ReasonLimitRange, "a LimitRange newer than the pod would give init container %s a request for %s, which Kubernetes before 1.36 cannot add", c.Name, name)
	}
	return nil
}

// violation is the first rule of a LimitRange that requests and limits break, or empty.
func violation(item corev1.LimitRangeItem, requests, limits corev1.ResourceList) string {
	for _, name := range sortedNames(item.Min) {
		low, request := item.Min[name], requests[name]
		if limit, ok := limits[name]; request.Cmp(low) < 0 || ok && limit.Cmp(low) < 0 {
			return fmt.Sprintf("%s must be at least %s", name, low.String())
		}
	}
	for _, name := range sortedNames(item.Max) {
		high, request := item.Max[name], requests[name]
		if limit, ok := limits[name]; !ok || limit.Cmp(high) > 0 || request.Cmp(high) > 0 {
			return fmt.Sprintf("%s must have a limit, and be at most %s", name, high.String())
		}
	}
	for _, name := range sortedNames(item.MaxLimitRequestRatio) {
		most, request, limit := item.MaxLimitRequestRatio[name], requests[name], limits[name]
		if request.IsZero() || limit.IsZero() || constraint.ExceedsRatio(request, limit, most) {
			return fmt.Sprintf("the %s limit must be at most %s times the request", name, most.String())
		}
	}
	return ""
}

func limitItems(ranges []corev1.LimitRange, kind corev1.LimitType) []corev1.LimitRangeItem {
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

// allContainers are regular and init containers, in the order in which the API server looks at them.
func allContainers(pod *corev1.Pod) []*corev1.Container {
	var list []*corev1.Container
	for i := range pod.Spec.Containers {
		list = append(list, &pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		list = append(list, &pod.Spec.InitContainers[i])
	}
	return list
}

// missing is the first name that has a default and no value; a value of zero is one.
func missing(list, defaults corev1.ResourceList) corev1.ResourceName {
	for _, name := range sortedNames(defaults) {
		if _, ok := list[name]; !ok {
			return name
		}
	}
	return ""
}

// addMissing adds to the list given.
func addMissing(list, defaults corev1.ResourceList) corev1.ResourceList {
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

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	names := make([]corev1.ResourceName, 0, len(list))
	for name := range list {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
