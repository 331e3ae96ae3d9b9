package constraint

import (
	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Counted identifies one of the four amounts of a container (CPU or memory, request or limit) that a quota counts.
type Counted struct {
	// Resource is CPU or memory.
	Resource recommender.Resource
	// Limits is true where the quota counts limits, false where it counts requests.
	Limits bool
}

// quotaResources maps the names in a quota to the amount that they count. cpu and memory without a prefix count
// requests. Other names (pods, storage, hugepages) are not in the map, as attune changes none of these.
var quotaResources = map[corev1.ResourceName]Counted{
	corev1.ResourceCPU:            {recommender.CPU, false},
	corev1.ResourceRequestsCPU:    {recommender.CPU, false},
	corev1.ResourceLimitsCPU:      {recommender.CPU, true},
	corev1.ResourceMemory:         {recommender.Memory, false},
	corev1.ResourceRequestsMemory: {recommender.Memory, false},
	corev1.ResourceLimitsMemory:   {recommender.Memory, true},
}

// CountedBy returns what a name in a quota counts. It returns false for a name that counts neither CPU nor memory.
func CountedBy(name corev1.ResourceName) (Counted, bool) {
	c, ok := quotaResources[name]
	return c, ok
}

// Of returns the counted amount of a size.
func (c Counted) Of(size recommender.Size) recommender.Amount { return *c.in(&size) }

// in is the amount's place in a size.
func (c Counted) in(size *recommender.Size) *recommender.Amount {
	if c.Limits {
		return &size[c.Resource].Limit
	}
	return &size[c.Resource].Request
}

// State returns the hard amount and the use in a quota's status. It returns false where the quota controller has
// not counted the use yet.
func (c Counted) State(q *corev1.ResourceQuota, name corev1.ResourceName) (hard, used recommender.Amount, known bool) {
	usage, known := q.Status.Used[name]
	return podview.AmountOf(c.Resource, q.Status.Hard[name]), podview.AmountOf(c.Resource, usage), known
}

// Unspecified returns the name of the first container that does not set the amount that the quota counts, or the
// empty string. The API server refuses a pod with such a container. Pods with resources of their own (pod level)
// are exempt.
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

// Charged is what quotas count for a pod: of each amount the greatest of the spec, the allocated and the actual
// one, with overhead. So a lowering frees quota only when the kubelet has carried it out.
func Charged(pod *corev1.Pod) recommender.Size {
	options := helpers.PodResourcesOptions{UseStatusResources: true}
	requests, limits := podview.Amounts(helpers.PodRequests(pod, options)), podview.Amounts(helpers.PodLimits(pod, options))
	var size recommender.Size
	for _, r := range recommender.Resources {
		size[r] = recommender.Allocation{Request: requests[r], Limit: limits[r]}
	}
	return size
}

// QuotaRoom is what the quotas of a namespace leave for the growth of its pods. All pods of a pass share one
// value: an amount that is promised to one pod is not available to the next. It is not safe for concurrent use.
type QuotaRoom struct {
	// promised[i] is what Promise has given away of quotas[i].
	quotas   []corev1.ResourceQuota
	promised []recommender.Size
}

// NewQuotaRoom creates the room of a namespace's quotas, with nothing promised.
func NewQuotaRoom(quotas []corev1.ResourceQuota) *QuotaRoom {
	return &QuotaRoom{quotas: quotas, promised: make([]recommender.Size, len(quotas))}
}

// Left is by how much a pod may grow, in millicores and bytes; MaxAmount where no quota counts an amount. An
// amount is zero where the use of a quota is not known. The whole result is zero where a container of the pod does
// not set an amount that a quota counts, since the API server then refuses every resize of the pod.
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

// Promise reserves growth for a pod in every quota that covers the pod.
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
