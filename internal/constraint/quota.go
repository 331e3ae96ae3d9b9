package constraint

import (
	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Counted is the one of a container's four amounts that a resource of a quota counts.
type Counted struct {
	Resource recommender.Resource
	Limits   bool
}

var quotaResources = map[corev1.ResourceName]Counted{
	corev1.ResourceCPU:            {recommender.CPU, false},
	corev1.ResourceRequestsCPU:    {recommender.CPU, false},
	corev1.ResourceLimitsCPU:      {recommender.CPU, true},
	corev1.ResourceMemory:         {recommender.Memory, false},
	corev1.ResourceRequestsMemory: {recommender.Memory, false},
	corev1.ResourceLimitsMemory:   {recommender.Memory, true},
}

// CountedBy says what a name in a quota counts; false: something other than CPU and memory.
func CountedBy(name corev1.ResourceName) (Counted, bool) {
	c, ok := quotaResources[name]
	return c, ok
}

// Of a size is the amount that is counted.
func (c Counted) Of(size recommender.Size) recommender.Amount { return *c.in(&size) }

// in is the amount's place in a size.
func (c Counted) in(size *recommender.Size) *recommender.Amount {
	if c.Limits {
		return &size[c.Resource].Limit
	}
	return &size[c.Resource].Request
}

// State is what a quota's status allows of a resource and what is used of it; false: the use was not counted yet.
func (c Counted) State(q *corev1.ResourceQuota, name corev1.ResourceName) (hard, used recommender.Amount, known bool) {
	usage, known := q.Status.Used[name]
	return podview.AmountOf(c.Resource, q.Status.Hard[name]), podview.AmountOf(c.Resource, usage), known
}

// Unspecified is the first container that does not say what a quota counts, or empty. Pods with resources of their own
// need not.
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

// Charged is what quotas count for a pod: the most of spec, allocated and actual, overhead included.
func Charged(pod *corev1.Pod) recommender.Size {
	options := helpers.PodResourcesOptions{UseStatusResources: true}
	requests, limits := podview.Amounts(helpers.PodRequests(pod, options)), podview.Amounts(helpers.PodLimits(pod, options))
	var size recommender.Size
	for _, r := range recommender.Resources {
		size[r] = recommender.Allocation{Request: requests[r], Limit: limits[r]}
	}
	return size
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

// Promise a pod growth.
func (x *QuotaRoom) Promise(pod *corev1.Pod, growth recommender.Size) {
	for i := range x.quotas {
		if !Covers(&x.quotas[i], pod) {
			continue
		}
		for _, r := range recommender.Resources {
			x.promised[i][r].Request += growth[r].Request
			x.promised[i][r].Limit += growth[r].Limit
		}
	}
}
