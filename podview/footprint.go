package podview

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"
	"k8s.io/utils/ptr"

	"attune.io/attune/recommender"
)

// Requests is what a pod's spec asks of a node: init containers, sidecars, pod-level resources and
// overhead counted as the scheduler counts them.
func Requests(pod *corev1.Pod) [2]recommender.Amount {
	return Amounts(helpers.PodRequests(pod, helpers.PodResourcesOptions{}))
}

// ContainerRequests is what the containers ask for together, without overhead or pod-level resources.
func ContainerRequests(pod *corev1.Pod) [2]recommender.Amount {
	return Amounts(helpers.AggregateContainerRequests(pod, helpers.PodResourcesOptions{}))
}

// Reserved is what the scheduler counts for a pod on its node: the most of what it asks for, what its
// kubelet allocated, and what it has.
func Reserved(pod *corev1.Pod) [2]recommender.Amount {
	return Amounts(helpers.PodRequests(pod, helpers.PodResourcesOptions{UseStatusResources: true}))
}

// AllocatedRequests is what the kubelet has allocated to a pod and what the pod has, without the part of its spec
// that is not granted. It works on a copy whose pending resize is marked infeasible, because the scheduler's
// helper ignores the spec of an infeasible resize.
func AllocatedRequests(pod *corev1.Pod) [2]recommender.Amount {
	// Of an infeasible resize the scheduler counts what the pod has alone.
	judged := *pod
	judged.Status.Conditions = slices.Clone(pod.Status.Conditions)
	for i := range judged.Status.Conditions {
		if c := &judged.Status.Conditions[i]; c.Type == corev1.PodResizePending {
			c.Reason = corev1.PodReasonInfeasible
		}
	}
	return Reserved(&judged)
}

// Amounts reads both resources of a list, indexed by Resource; 0 where one is absent.
func Amounts(list corev1.ResourceList) [2]recommender.Amount {
	var sum [2]recommender.Amount
	for _, r := range recommender.Resources {
		sum[r] = AmountIn(r, list)
	}
	return sum
}

// InitRequests are the most that a step of the pod's init containers asks for, with the sidecars that were
// started before it: the scheduler keeps that much for as long as the pod lives.
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

// Overhead is what the scheduler counts for a pod beside its containers.
func Overhead(pod *corev1.Pod) [2]recommender.Amount { return Amounts(pod.Spec.Overhead) }

// Counted is Read with other requests: of each container the greatest of the spec's, the allocated and the actual
// one, which is what the scheduler counts. Limits are those of Read.
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

// Unfinished reports whether the scheduler counts more for the pod than the spec asks for: a decrease is not
// carried out yet.
func Unfinished(pod *corev1.Pod) bool { return Reserved(pod) != Requests(pod) }
