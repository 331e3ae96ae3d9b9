package resize

import (
	"slices"

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

// held is what a pod's kubelet allocated to it and what it has, whatever it asks for.
func held(pod *corev1.Pod) [2]recommender.Amount {
	// Of an infeasible resize the scheduler counts what the pod has alone.
	judged := *pod
	judged.Status.Conditions = slices.Clone(pod.Status.Conditions)
	for i := range judged.Status.Conditions {
		if c := &judged.Status.Conditions[i]; c.Type == corev1.PodResizePending {
			c.Reason = corev1.PodReasonInfeasible
		}
	}
	return footprint(&judged)
}

func amounts(list corev1.ResourceList) [2]recommender.Amount {
	var sum [2]recommender.Amount
	for _, r := range recommender.Resources {
		sum[r] = amountOf(r, list)
	}
	return sum
}
