package grant

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// AsItIs says why a pod counts with what it holds instead of sharing its node's spike headroom: a word, and a
// sentence that follows it. Empty: it shares, unless a gate holds it, which only the workload loop knows. The
// recommendation is that of the pod's workload; nil: there is none.
func AsItIs(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) (reason, message string) {
	switch {
	case rec == nil:
		return "NoPolicy", "no policy sizes its workload"
	case rec.Spec.Strategy != v1alpha1.StrategyNode:
		return "Strategy", "its policy's strategy is not Node"
	case rec.Spec.Mode != v1alpha1.UpdateAuto:
		return resize.ReasonMode, "its policy's mode leaves running pods as they are; Auto resizes them"
	case len(rec.Spec.Containers) == 0:
		return resize.ReasonInsufficientData, "nothing is recommended for its workload yet"
	case pod.DeletionTimestamp != nil:
		return resize.ReasonPodDeleted, "it is being deleted"
	case pod.Status.Phase != corev1.PodRunning:
		return resize.ReasonNotStarted, "it does not run yet"
	case resize.Guaranteed(pod):
		return "Guaranteed", "request and limit stay as they were at its birth"
	}
	for _, record := range rec.Status.Records {
		if record.PodUID == pod.UID && !resize.Leaving(record) {
			return resize.ReasonResizeUnderway, "its last resize is under way or watched"
		}
	}
	if resize.Unfinished(pod) {
		return resize.ReasonResizeUnderway, "a decrease of it is under way"
	}
	return "", ""
}
