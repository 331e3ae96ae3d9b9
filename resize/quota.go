package resize

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// quota lets a pod grow only within what the namespace's quotas have left, counted as the API server
// counts it: the most of spec, allocated and actual, so that what is being lowered is not free before
// the node has lowered it. Lowering passes even where a quota is exceeded already. A quota also demands
// that every container of the pod says what the quota counts.
func quota(pod *corev1.Pod, p Plan, w World) *Refusal {
	if len(w.Quotas) == 0 {
		return nil
	}
	after := p.Apply(pod)
	growth := GrowthOf(pod, p)
	for _, q := range w.Quotas {
		if !covers(q, pod) {
			continue
		}
		for _, name := range sortedNames(q.Status.Hard) {
			counted, ok := quotaResources[name]
			if !ok {
				continue
			}
			if c := unspecified(after, counted); c != "" {
				return refuse(ReasonQuota, "quota %s demands that container %s sets %s, which a resize does not add", q.Name, c, name)
			}
			if refusal := exceeded(q, name, growth, w.Promised, counted); refusal != nil {
				return refusal
			}
		}
	}
	return nil
}

// exceeded is transient: a quota is raised, or other pods give room back.
func exceeded(q corev1.ResourceQuota, name corev1.ResourceName, growth, promised recommender.Size, counted counted) *Refusal {
	more := counted.of(growth)
	hard, used, known := counted.state(q, name)
	used += counted.of(promised)
	switch {
	case more <= 0:
		return nil
	case !known:
		return wait(ReasonQuota, "the use of quota %s is not known yet", q.Name)
	case used+more > hard:
		return wait(ReasonQuota, "the pod would take %s more of %s, and quota %s has %s of %s in use", recommender.Format(counted.resource, more), name,
			q.Name, recommender.Format(counted.resource, used), recommender.Format(counted.resource, hard))
	}
	return nil
}

// QuotaRoom is what the quotas of a namespace leave its pods to grow by. Its pods share it: what one is promised, the
// next ones do not have.
type QuotaRoom struct {
	quotas   []corev1.ResourceQuota
	promised []recommender.Size
}

// NewQuotaRoom of a namespace.
func NewQuotaRoom(quotas []corev1.ResourceQuota) *QuotaRoom {
	return &QuotaRoom{quotas: quotas, promised: make([]recommender.Size, len(quotas))}
}

// Left is by how much a pod may grow in what quotas count for it: MaxAmount where none counts. It is zero where the use of a
// quota is not known, and all of it is where the pod does not say what a quota counts, as every resize is refused then.
func (x *QuotaRoom) Left(pod *corev1.Pod) recommender.Size {
	const most = recommender.MaxAmount
	room := recommender.Size{{Request: most, Limit: most}, {Request: most, Limit: most}}
	for i, q := range x.quotas {
		if !covers(q, pod) {
			continue
		}
		for name := range q.Status.Hard {
			counted, ok := quotaResources[name]
			if !ok {
				continue
			}
			if unspecified(pod, counted) != "" {
				return recommender.Size{}
			}
			hard, used, known := counted.state(q, name)
			left := max(0, hard-used-counted.of(x.promised[i]))
			if !known {
				left = 0
			}
			*counted.in(&room) = min(*counted.in(&room), left)
		}
	}
	return room
}

// Promise a pod growth.
func (x *QuotaRoom) Promise(pod *corev1.Pod, growth recommender.Size) {
	for i, q := range x.quotas {
		if !covers(q, pod) {
			continue
		}
		for _, r := range recommender.Resources {
			x.promised[i][r].Request += growth[r].Request
			x.promised[i][r].Limit += growth[r].Limit
		}
	}
}

// GrowthOf is by how much a plan raises what quotas count for a pod; amounts that fall are 0.
func GrowthOf(pod *corev1.Pod, p Plan) recommender.Size {
	before, after := charged(pod), charged(p.Apply(pod))
	var growth recommender.Size
	for _, r := range recommender.Resources {
		growth[r].Request = max(0, after[r].Request-before[r].Request)
		growth[r].Limit = max(0, after[r].Limit-before[r].Limit)
	}
	return growth
}

// charged is what quotas count for a pod.
func charged(pod *corev1.Pod) recommender.Size {
	options := helpers.PodResourcesOptions{UseStatusResources: true}
	requests, limits := podview.Amounts(helpers.PodRequests(pod, options)), podview.Amounts(helpers.PodLimits(pod, options))
	var size recommender.Size
	for _, r := range recommender.Resources {
		size[r] = recommender.Allocation{Request: requests[r], Limit: limits[r]}
	}
	return size
}

// counted is the one of a container's four amounts that a quota's resource counts.
type counted struct {
	resource recommender.Resource
	limits   bool
}

var quotaResources = map[corev1.ResourceName]counted{
	corev1.ResourceCPU:            {recommender.CPU, false},
	corev1.ResourceRequestsCPU:    {recommender.CPU, false},
	corev1.ResourceLimitsCPU:      {recommender.CPU, true},
	corev1.ResourceMemory:         {recommender.Memory, false},
	corev1.ResourceRequestsMemory: {recommender.Memory, false},
	corev1.ResourceLimitsMemory:   {recommender.Memory, true},
}

func (c counted) of(size recommender.Size) recommender.Amount { return *c.in(&size) }

// in is the amount's place in a size.
func (c counted) in(size *recommender.Size) *recommender.Amount {
	if c.limits {
		return &size[c.resource].Limit
	}
	return &size[c.resource].Request
}

// state is what a quota allows of a resource and what is used of it; false: that is not known.
func (c counted) state(q corev1.ResourceQuota, name corev1.ResourceName) (hard, used recommender.Amount, known bool) {
	usage, known := q.Status.Used[name]
	return podview.AmountOf(c.resource, q.Status.Hard[name]), podview.AmountOf(c.resource, usage), known
}

// unspecified is the first container that does not say what a quota counts. Pods with resources of
// their own need not.
func unspecified(pod *corev1.Pod, counted counted) string {
	if podview.HasPodLevelResources(pod) {
		return ""
	}
	for _, c := range allContainers(pod) {
		list := c.Resources.Requests
		if counted.limits {
			list = c.Resources.Limits
		}
		if _, ok := list[podview.NameOf(counted.resource)]; !ok {
			return c.Name
		}
	}
	return ""
}

// covers: every scope of the quota fits the pod. A scope that is not known counts as fitting, which can
// only hold growth back.
func covers(q corev1.ResourceQuota, pod *corev1.Pod) bool {
	for _, scope := range q.Spec.Scopes {
		if !inScope(corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists}, pod) {
			return false
		}
	}
	if q.Spec.ScopeSelector == nil {
		return true
	}
	for _, requirement := range q.Spec.ScopeSelector.MatchExpressions {
		if !inScope(requirement, pod) {
			return false
		}
	}
	return true
}

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
