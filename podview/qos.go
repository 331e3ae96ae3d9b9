package podview

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
)

// QOSClass computes the class that the API server would give a pod: from its own resources where it
// has any, else from all containers, init containers included.
func QOSClass(pod *corev1.Pod) corev1.PodQOSClass {
	var q QOS
	if pod.Spec.Resources != nil {
		q.Add(ReadSpec(*pod.Spec.Resources))
		return q.Class()
	}
	for _, c := range AllContainers(pod) {
		q.Add(ReadSpec(c.Resources))
	}
	return q.Class()
}

// QOS computes the class of a pod from its sizes, one after another (Kubernetes' ComputePodQOS). The zero value
// has seen no size, and its class is BestEffort.
type QOS struct{ set, loose bool }

// Add a size. Zero amounts count as absent.
func (q *QOS) Add(size recommender.Size) {
	for _, a := range size {
		q.set = q.set || a.Request > 0 || a.Limit > 0
		// A missing request is defaulted to the limit when the pod is stored; one that is explicitly
		// zero beside a limit is not Guaranteed.
		q.loose = q.loose || a.Limit <= 0 || a.Request != a.Limit
	}
}

// Class of the pod.
func (q QOS) Class() corev1.PodQOSClass {
	switch {
	case !q.set:
		return corev1.PodQOSBestEffort
	case q.loose:
		return corev1.PodQOSBurstable
	default:
		return corev1.PodQOSGuaranteed
	}
}

// ClassOf is the class the pod lives under.
func ClassOf(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	return QOSClass(pod)
}

// HasPodLevelResources reports whether the pod has requests or limits of its own, besides those of its containers
// (KEP-2837).
func HasPodLevelResources(pod *corev1.Pod) bool {
	r := pod.Spec.Resources
	return r != nil && len(r.Requests)+len(r.Limits) > 0
}

// Guaranteed pods keep request and limit equal; the strategy Node sizes them at admission alone.
func Guaranteed(pod *corev1.Pod) bool { return ClassOf(pod) == corev1.PodQOSGuaranteed }
