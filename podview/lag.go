package podview

import (
	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/recommender"
)

// PodLimit is the memory limit of a pod's own cgroup; 0: it has none, or nobody says.
func PodLimit(pod *corev1.Pod) recommender.Amount {
	if pod.Status.Resources == nil {
		return 0
	}
	return WholeLimit(recommender.Memory, pod.Status.Resources.Limits)
}

// PodLimitLags: nothing is under way any more, and the pod as a whole may use less memory than its containers
// may together.
func PodLimitLags(pod *corev1.Pod) bool {
	limit := PodLimit(pod)
	if limit == 0 || pod.Spec.Resources != nil || pod.Status.Phase != corev1.PodRunning || ResizeUnderway(pod) {
		return false
	}
	together := WholeLimit(recommender.Memory, helpers.PodLimits(pod, helpers.PodResourcesOptions{}))
	return limit <= together-Page
}
