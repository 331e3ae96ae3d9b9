package podview

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

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

// AllocatedRequests is what a pod's kubelet allocated to it and what it has, whatever it asks for.
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

// Amounts are those of both resources in a list.
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

// Counted are a pod's containers as Read reads them, with what the scheduler counts of their requests: the most of what
// they ask for, were allocated, and have.
func Counted(pod *corev1.Pod) []Container {
	containers, statuses := Read(pod), Statuses(pod)
	asked := map[string]recommender.Size{}
	for _, c := range Resizable(pod) {
		asked[c.Name] = ReadSpec(c.Resources)
	}
	for i := range containers {
		c := &containers[i]
		for _, r := range recommender.Resources {
			c.Size[r].Request = max(c.Size[r].Request, asked[c.Name][r].Request)
			status := statuses[c.Name]
			if status == nil {
				continue
			}
			c.Size[r].Request = max(c.Size[r].Request, AmountIn(r, status.AllocatedResources))
			if status.Resources != nil {
				c.Size[r].Request = max(c.Size[r].Request, AmountIn(r, status.Resources.Requests))
			}
		}
	}
	return containers
}

// Unfinished: the scheduler counts more for the pod than its spec asks for, as a decrease is under way.
func Unfinished(pod *corev1.Pod) bool { return Reserved(pod) != Requests(pod) }
