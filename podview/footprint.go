package podview

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
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
