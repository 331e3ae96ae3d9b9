package podview

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	helpers "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"attune.io/attune/recommender"
)

// Requests returns the footprint of the pod's spec: init containers, sidecars, pod-level resources and overhead,
// counted as the scheduler counts them.
func Requests(pod *corev1.Pod) [2]recommender.Amount {
	return Amounts(helpers.PodRequests(pod, helpers.PodResourcesOptions{}))
}

// ContainerRequests returns the sum of the containers' requests, without overhead or pod-level resources.
func ContainerRequests(pod *corev1.Pod) [2]recommender.Amount {
	return Amounts(helpers.AggregateContainerRequests(pod, helpers.PodResourcesOptions{}))
}

// Reserved returns the footprint that the scheduler counts for a pod on its node: the maximum of spec, allocated and
// actual requests.
func Reserved(pod *corev1.Pod) [2]recommender.Amount {
	return Amounts(helpers.PodRequests(pod, helpers.PodResourcesOptions{UseStatusResources: true}))
}

// AllocatedRequests returns the maximum of allocated and actual requests, without requests of the spec that the kubelet
// has not granted. It works on a copy whose pending resize is marked infeasible, because the scheduler's helper ignores
// the spec of an infeasible resize.
func AllocatedRequests(pod *corev1.Pod) [2]recommender.Amount {
	// For an infeasible resize the scheduler counts only what the pod has.
	judged := *pod
	judged.Status.Conditions = slices.Clone(pod.Status.Conditions)
	for i := range judged.Status.Conditions {
		if c := &judged.Status.Conditions[i]; c.Type == corev1.PodResizePending {
			c.Reason = corev1.PodReasonInfeasible
		}
	}
	return Reserved(&judged)
}

// Amounts reads both resources of a list, indexed by Resource; an absent resource is 0.
func Amounts(list corev1.ResourceList) [2]recommender.Amount {
	var sum [2]recommender.Amount
	for _, r := range recommender.Resources {
		sum[r] = AmountIn(r, list)
	}
	return sum
}

// InitRequests returns the highest request of any init container, plus the sidecars started before it. The scheduler
// keeps that much reserved until the pod is deleted.
func InitRequests(pod *corev1.Pod) [2]recommender.Amount {
	var steps [2]recommender.Amount
	var sidecars [2]recommender.Amount
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		asks := ReadSpec(c.Resources)
		for _, r := range recommender.Resources {
			if RestartsAlways(c) {
				sidecars[r] += asks[r].Request
				continue
			}
			steps[r] = max(steps[r], sidecars[r]+asks[r].Request)
		}
	}
	return steps
}

// Overhead returns what the scheduler counts for a pod in addition to its containers (RuntimeClass overhead).
func Overhead(pod *corev1.Pod) [2]recommender.Amount { return Amounts(pod.Spec.Overhead) }

// Counted is Read, but each request is the maximum of spec, allocated and actual, as the scheduler counts. Limits are
// the same as in Read.
func Counted(pod *corev1.Pod) []Container {
	containers, statuses, asked := Read(pod), Statuses(pod), Specs(pod)
	for i := range containers {
		c := &containers[i]
		status := ptr.Deref(statuses[c.Name], corev1.ContainerStatus{})
		actual := ptr.Deref(status.Resources, corev1.ResourceRequirements{}).Requests
		for _, r := range recommender.Resources {
			c.Size[r].Request = max(c.Size[r].Request, asked[c.Name][r].Request, AmountIn(r, status.AllocatedResources), AmountIn(r, actual))
		}
	}
	return containers
}

// Unfinished reports whether the scheduler counts more for the pod than its spec requests: the kubelet has not yet
// completed a decrease.
func Unfinished(pod *corev1.Pod) bool { return Reserved(pod) != Requests(pod) }

// MemoryVolumes are the memory-backed volumes (emptyDir with medium Memory) that a container mounts, taken together.
// Their pages count as the container's memory and cannot be reclaimed, and each may fill up to its size limit. The zero
// value has no volume.
type MemoryVolumes struct {
	// Size is the sum of the size limits, in bytes.
	Size recommender.Amount
	// Unbounded is true if a volume has no size limit: it may fill up to the memory limit.
	Unbounded bool
}

// Add adds an emptyDir that the container mounts. Volumes on disk or of huge pages are not memory of the container, and
// change nothing.
func (v *MemoryVolumes) Add(medium corev1.StorageMedium, sizeLimit *resource.Quantity) {
	switch {
	case medium != corev1.StorageMediumMemory:
	case sizeLimit == nil || sizeLimit.Sign() <= 0:
		v.Unbounded = true
	default:
		v.Size = min(v.Size+AmountOf(recommender.Memory, *sizeLimit), recommender.MaxAmount)
	}
}

// Exceed reports whether a memory limit leaves no room for the volumes in addition to held, the container's own need;
// both in bytes. Do not set such a limit if the container has a larger one. Created and running pods share this rule.
func (v MemoryVolumes) Exceed(limit, held recommender.Amount) bool {
	return v.Unbounded || v.Size > 0 && limit <= held+v.Size
}

// The kernel and the runtime round amounts: CPU shares and quotas have a minimum (recommender.LeastCPURequest and
// LeastCPULimit), systemd rounds
// quotas up to 10m, and memory is counted in pages.
const (
	QuotaStep = recommender.Amount(10)
	Page      = recommender.Amount(4096)
)

// NearLimit reports whether the actual limit is the wished one after rounding by the machine. An absent limit (0) is
// near only another absent one.
func NearLimit(r recommender.Resource, actual, wished recommender.Amount) bool {
	difference := max(actual-wished, wished-actual)
	switch {
	case actual == wished:
		return true
	case actual == 0 || wished == 0:
		return false
	case r == recommender.Memory:
		return difference < Page
	}
	return actual >= wished && difference < QuotaStep || actual <= recommender.LeastCPULimit && wished <= recommender.LeastCPULimit
}

// NearRequest is NearLimit for requests. Shares are weights of 1/1024 core, so a reported CPU request may differ by one
// millicore.
func NearRequest(r recommender.Resource, actual, wished recommender.Amount) bool {
	if r == recommender.Memory {
		return NearLimit(r, actual, wished)
	}
	return max(actual-wished, wished-actual) <= 1 || actual <= recommender.LeastCPURequest && wished <= recommender.LeastCPURequest
}

// NearSize reports whether all four amounts of a reported size are near the wished ones.
func NearSize(actual, wished recommender.Size) bool {
	return !slices.ContainsFunc(recommender.Resources[:], func(r recommender.Resource) bool {
		return !NearLimit(r, actual[r].Limit, wished[r].Limit) || !NearRequest(r, actual[r].Request, wished[r].Request)
	})
}
