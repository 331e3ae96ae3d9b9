package podview

import (
	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/recommender"
)

// PodLimit is the memory limit of the pod's own cgroup in bytes, as the pod's status reports it (Kubernetes 1.36
// and newer); 0 where there is none or where it is not reported.
func PodLimit(pod *corev1.Pod) recommender.Amount {
	if pod.Status.Resources == nil {
		return 0
	}
	return WholeLimit(recommender.Memory, pod.Status.Resources.Limits)
}

// PodLimitLags reports whether the limit of the pod's own cgroup is behind those of its containers: no resize is
// under way, and the pod as a whole may use at least one page less memory than its containers may use together.
// Pods with resources of their own are never behind, since their limit is what the user set
// (kubernetes/kubernetes#138760).
func PodLimitLags(pod *corev1.Pod) bool {
	limit := PodLimit(pod)
	if limit == 0 || pod.Spec.Resources != nil || pod.Status.Phase != corev1.PodRunning || ResizeUnderway(pod) {
		return false
	}
	together := WholeLimit(recommender.Memory, helpers.PodLimits(pod, helpers.PodResourcesOptions{}))
	return limit <= together-Page
}
