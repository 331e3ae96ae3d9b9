package resize

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
)

// QOSClass computes the class that the API server would give a pod: from its own resources where it
// has any, else from all containers, init containers included. Zero amounts count as absent.
func QOSClass(pod *corev1.Pod) corev1.PodQOSClass {
	sizes := qosSizes(pod)
	set, guaranteed := false, len(sizes) > 0
	for _, size := range sizes {
		for _, r := range recommender.Resources {
			a := size[r]
			set = set || a.Request > 0 || a.Limit > 0
			// A missing request is defaulted to the limit when the pod is stored; one that is explicitly
			// zero beside a limit is not Guaranteed.
			guaranteed = guaranteed && a.Limit > 0 && a.Request == a.Limit
		}
	}
	switch {
	case !set:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	default:
		return corev1.PodQOSBurstable
	}
}

// classOf is the class the pod lives under.
func classOf(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	return QOSClass(pod)
}

func qosSizes(pod *corev1.Pod) []recommender.Size {
	if pod.Spec.Resources != nil {
		return []recommender.Size{ReadSpec(*pod.Spec.Resources)}
	}
	var sizes []recommender.Size
	for i := range pod.Spec.Containers {
		sizes = append(sizes, ReadSpec(pod.Spec.Containers[i].Resources))
	}
	for i := range pod.Spec.InitContainers {
		sizes = append(sizes, ReadSpec(pod.Spec.InitContainers[i].Resources))
	}
	return sizes
}

// hasPodLevelResources: the pod has requests or limits of its own.
func hasPodLevelResources(pod *corev1.Pod) bool {
	r := pod.Spec.Resources
	return r != nil && len(r.Requests)+len(r.Limits) > 0
}
