package resize

import (
	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/recommender"
)

// podRequests is what a pod's spec asks of a node: init containers, sidecars, pod-level resources and
// overhead counted as the scheduler counts them.
func podRequests(pod *corev1.Pod) [2]recommender.Amount {
	return amounts(helpers.PodRequests(pod, helpers.PodResourcesOptions{}))
}

// containerRequests is what the containers ask for together, without overhead or pod-level resources.
func containerRequests(pod *corev1.Pod) [2]recommender.Amount {
	return amounts(helpers.AggregateContainerRequests(pod, helpers.PodResourcesOptions{}))
}

// footprint is what the scheduler counts for a pod on its node: the most of what it asks for, what its
// kubelet allocated, and what it has.
func footprint(pod *corev1.Pod) [2]recommender.Amount {
	return amounts(helpers.PodRequests(pod, helpers.PodResourcesOptions{UseStatusResources: true}))
}

func amounts(list corev1.ResourceList) [2]recommender.Amount {
	var sum [2]recommender.Amount
	for _, r := range recommender.Resources {
		sum[r] = amountOf(r, list)
	}
	return sum
}
