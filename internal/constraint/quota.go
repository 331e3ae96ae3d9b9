package constraint

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Counted identifies one of the four amounts of a container (CPU or memory, request or limit) that a quota counts.
type Counted struct {
	// Resource is CPU or memory.
	Resource recommender.Resource
	// Limits is true if the quota counts limits, false if it counts requests.
	Limits bool
}

// quotaResources maps the names in a quota to the amount that they count. cpu and memory without a prefix count
// requests. Other names (pods, storage, hugepages) are missing, because attune changes none of them.
var quotaResources = map[corev1.ResourceName]Counted{
	corev1.ResourceCPU:            {recommender.CPU, false},
	corev1.ResourceRequestsCPU:    {recommender.CPU, false},
	corev1.ResourceLimitsCPU:      {recommender.CPU, true},
	corev1.ResourceMemory:         {recommender.Memory, false},
	corev1.ResourceRequestsMemory: {recommender.Memory, false},
	corev1.ResourceLimitsMemory:   {recommender.Memory, true},
}

// CountedBy returns the amount that a name in a quota counts; false if the name counts neither CPU nor memory.
func CountedBy(name corev1.ResourceName) (Counted, bool) {
	c, ok := quotaResources[name]
	return c, ok
}

// Of returns the counted amount of a size.
func (c Counted) Of(size recommender.Size) recommender.Amount { return *c.in(&size) }

// in returns a pointer to the counted amount of a size.
func (c Counted) in(size *recommender.Size) *recommender.Amount {
	if c.Limits {
		return &size[c.Resource].Limit
	}
	return &size[c.Resource].Request
}

// State returns the hard amount and the use in a quota's status; known is false if the quota controller has not counted
// the use yet.
func (c Counted) State(q *corev1.ResourceQuota, name corev1.ResourceName) (hard, used recommender.Amount, known bool) {
	usage, known := q.Status.Used[name]
	return podview.AmountOf(c.Resource, q.Status.Hard[name]), podview.AmountOf(c.Resource, usage), known
}

// Unspecified returns the first container that does not set the amount that the quota counts, or an empty string. The
// API server rejects a pod with such a container. Pods with pod-level resources are exempt.
func (c Counted) Unspecified(pod *corev1.Pod) string {
	if podview.HasPodLevelResources(pod) {
		return ""
	}
	for _, of := range podview.AllContainers(pod) {
		list := of.Resources.Requests
		if c.Limits {
			list = of.Resources.Limits
		}
		if _, ok := list[podview.NameOf(c.Resource)]; !ok {
			return of.Name
		}
	}
	return ""
}

// Charged is the amount that quotas count for a pod: the maximum of spec, allocated and actual amounts, plus overhead.
// So a decrease frees quota only after the kubelet has applied it.
func Charged(pod *corev1.Pod) recommender.Size {
	options := helpers.PodResourcesOptions{UseStatusResources: true}
	requests, limits := podview.Amounts(helpers.PodRequests(pod, options)), podview.Amounts(helpers.PodLimits(pod, options))
	var size recommender.Size
	for _, r := range recommender.Resources {
		size[r] = recommender.Allocation{Request: requests[r], Limit: limits[r]}
	}
	return size
}

// QuotaRoom is the growth that the quotas of a namespace still allow for its pods. All pods of a reconcile share one
// value: an amount promised to one pod is not available to the next. It is not safe for concurrent use.
type QuotaRoom struct {
	// promised[i] is the amount of quotas[i] that Promise has reserved.
	quotas   []corev1.ResourceQuota
	promised []recommender.Size
}

// NewQuotaRoom creates the room of a namespace's quotas, with nothing promised.
func NewQuotaRoom(quotas []corev1.ResourceQuota) *QuotaRoom {
	return &QuotaRoom{quotas: quotas, promised: make([]recommender.Size, len(quotas))}
}

// Left returns by how much a pod may grow, in millicores and bytes; MaxAmount if no quota counts the amount. An amount
// is 0 if the use of a quota is not known. The whole result is 0 if a container of the pod does not set an amount that
// a quota counts: the API server then rejects every resize of the pod.
func (x *QuotaRoom) Left(pod *corev1.Pod) recommender.Size {
	room := every(recommender.MaxAmount)
	for i := range x.quotas {
		q := &x.quotas[i]
		if !Covers(q, pod) {
			continue
		}
		for name := range q.Status.Hard {
			counted, ok := CountedBy(name)
			if !ok {
				continue
			}
			if counted.Unspecified(pod) != "" {
				return recommender.Size{}
			}
			hard, used, known := counted.State(q, name)
			left := max(0, hard-used-counted.Of(x.promised[i]))
			if !known {
				left = 0
			}
			*counted.in(&room) = min(*counted.in(&room), left)
		}
	}
	return room
}

// Promise reserves growth for a pod in every quota that covers the pod.
func (x *QuotaRoom) Promise(pod *corev1.Pod, growth recommender.Size) {
	for i := range x.quotas {
		if Covers(&x.quotas[i], pod) {
			x.promised[i] = podview.Sum(x.promised[i], growth)
		}
	}
}

// QuotaLeft is the amount of one ResourceQuota that is left for new pods.
//
// It is more cautious than QuotaRoom in two ways. It takes the smaller amount of spec and status, because the status
// follows the spec with a delay. And it treats every scope other than QoS classes as matching every pod: it may block
// growth unnecessarily, but never allows too much.
type QuotaLeft struct {
	// of is the amount that new pods may still use, in millicores and bytes: math.MaxInt64 if the quota does not count
	// the amount, 0 if the rest is not known.
	of recommender.Size
	// ByClass is true if the quota counts only some QoS classes (scopes BestEffort and NotBestEffort). The caller must
	// then keep the class of the pod.
	ByClass bool
}

func every(amount recommender.Amount) recommender.Size {
	return recommender.Size{{Request: amount, Limit: amount}, {Request: amount, Limit: amount}}
}

// QuotaLeftOf reads a quota. If a quota counts one amount under two names (cpu and requests.cpu), the smaller rest
// applies.
func QuotaLeftOf(q *corev1.ResourceQuota) (left QuotaLeft) {
	left.of = every(math.MaxInt64) // above MaxAmount, which the sum over the containers of a pod may exceed
	for name := range q.Spec.Hard {
		if c, counted := CountedBy(name); counted {
			*c.in(&left.of) = min(*c.in(&left.of), c.restOfNewQuota(q, name))
		}
	}
	left.ByClass = slices.ContainsFunc(scopesOf(q), byClass)
	return left
}

// restOfNewQuota is the rest for one name of a quota. It is 0 until the quota controller has written the hard amount and
// the use into the status: a new quota allows no growth until then.
func (c Counted) restOfNewQuota(q *corev1.ResourceQuota, name corev1.ResourceName) recommender.Amount {
	enforced, known := q.Status.Hard[name]
	_, used, counted := c.State(q, name)
	if !known || !counted {
		return 0
	}
	hard := min(podview.AtMost(c.Resource, q.Spec.Hard[name]), podview.AtMost(c.Resource, enforced))
	return max(0, hard-used)
}

// CountsLimit reports whether the quota counts the limits of a resource. The API server then rejects a pod that has a
// container without such a limit.
func (x *QuotaLeft) CountsLimit(r recommender.Resource) bool { return x.of[r].Limit != math.MaxInt64 }

// LimitNeeded is the reason of a CPU limit that stays, or stays lower, although cpu.limits asks for another.
const LimitNeeded = "CPULimitNeeded"

// CPULimitNeeded returns why a namespace needs CPU limits of its containers, and what lifts that; empty: it needs none.
func CPULimitNeeded(bounds *Bounds, quotas []QuotaLeft) string {
	switch {
	case bounds.Container[recommender.CPU].NeedsLimit() || bounds.Pod[recommender.CPU].NeedsLimit():
		return "a LimitRange of the namespace has a default, max or maxLimitRequestRatio of CPU. Remove it"
	case slices.ContainsFunc(quotas, func(q QuotaLeft) bool { return q.CountsLimit(recommender.CPU) }):
		return "a ResourceQuota of the namespace counts limits.cpu, and rejects containers without one. Remove limits.cpu from it"
	}
	return ""
}

// GuaranteedNeedsLimit and SandboxNeedsLimit are why a CPU limit of such a pod stays.
const (
	GuaranteedNeedsLimit = "the pod is Guaranteed, and without the limit it would be Burstable. Set a request below a limit in the pod template"
	SandboxNeedsLimit    = "the runtime class runs the pod in a VM, whose number of CPUs may come from the limit. Use cpu.limits Keep"
)

// Admits reports whether the growth of a pod from one effective allocation to another fits the quota. A pod that does
// not grow always fits: without attune it would have the same amounts.
func (x *QuotaLeft) Admits(r recommender.Resource, from, to recommender.Allocation) bool {
	return to.Request <= max(from.Request, x.of[r].Request) && to.Limit <= max(from.Limit, x.of[r].Limit)
}

// Covers reports whether a quota counts the pod: every scope of the quota must match. An unknown scope counts as a
// match: this can only prevent growth, never exceed the quota.
func Covers(q *corev1.ResourceQuota, pod *corev1.Pod) bool {
	out := func(scope corev1.ScopedResourceSelectorRequirement) bool { return !inScope(scope, pod) }
	return !slices.ContainsFunc(scopesOf(q), out)
}

// scopesOf returns the scopes of a quota from spec.scopes and spec.scopeSelector. An entry of spec.scopes equals a
// selector with the operator Exists.
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

// inScope reports whether one scope matches the pod, as the quota controller defines it.
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

// hasPriorityClass evaluates a PriorityClass scope. An unknown operator counts as Exists.
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

// byClass reports whether the scope selects pods by QoS class.
func byClass(scope corev1.ScopedResourceSelectorRequirement) bool {
	return scope.ScopeName == corev1.ResourceQuotaScopeBestEffort || scope.ScopeName == corev1.ResourceQuotaScopeNotBestEffort
}
