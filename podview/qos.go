package podview

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
)

// QOSClass computes the class that the API server would set on a pod: from pod-level resources if set, otherwise from
// all containers, init containers included. Before version 1.37, the API server computes BestEffort if they are empty.
func QOSClass(pod *corev1.Pod) corev1.PodQOSClass {
	var q QOS
	if HasPodLevelResources(pod) {
		q.Add(ReadSpec(*pod.Spec.Resources))
		return q.Class()
	}
	for _, c := range AllContainers(pod) {
		q.Add(ReadSpec(c.Resources))
	}
	return q.Class()
}

// QOS computes the class of a pod from its containers' sizes, added one after another (Kubernetes' ComputePodQOS). The
// zero value has no size, and its class is BestEffort.
type QOS struct{ set, loose bool }

// Add adds the size of a container. Zero amounts count as absent.
func (q *QOS) Add(size recommender.Size) {
	for _, a := range size {
		q.set = q.set || a.Request > 0 || a.Limit > 0
		// The API server defaults a missing request to the limit when it stores the pod. A request that is explicitly
		// zero, with a limit set, is not Guaranteed.
		q.loose = q.loose || a.Limit <= 0 || a.Request != a.Limit
	}
}

// CreatesGuaranteed reports whether a template creates pods of the QoS class Guaranteed from containers of these sizes.
// The API server sets a missing request to the limit.
func CreatesGuaranteed(template *corev1.PodSpec, sizeOf func(*corev1.Container) recommender.Size) bool {
	var q QOS
	for _, c := range AllContainers(&corev1.Pod{Spec: *template}) {
		size := sizeOf(c)
		for r, a := range size {
			size[r].Request = cmp.Or(a.Request, a.Limit)
		}
		q.Add(size)
	}
	return q.Class() == corev1.PodQOSGuaranteed
}

// Class returns the class of the sizes added so far.
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

// StayBurstable returns which request of a Burstable pod stays one unit below its limit if the pod would become
// Guaranteed with the sizes to: of the first container of which may allows it, CPU before memory, because a container
// with less CPU only runs slower. No request falls below its amount in from. If there is none, found is false.
func StayBurstable(from, to []recommender.Size, may func(int, recommender.Resource, recommender.Allocation) bool) (container int, r recommender.Resource, found bool) {
	for _, r := range recommender.Resources {
		for i := range to {
			below, has := BelowLimit(to[i][r]), from[i][r]
			if below != to[i][r] && below.Request >= max(has.Request, 1) && r.RaiseToLeast(has, below) == below && may(i, r, below) {
				return i, r, true
			}
		}
	}
	return 0, 0, false
}

// BelowLimit returns an allocation whose request is equal to its limit with a request of one unit less.
func BelowLimit(a recommender.Allocation) recommender.Allocation {
	if a.Limit > 0 && a.Request == a.Limit {
		a.Request--
	}
	return a
}

// ClassOf returns the class in the pod's status, or the computed one if the status has none.
func ClassOf(pod *corev1.Pod) corev1.PodQOSClass {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass
	}
	return QOSClass(pod)
}

// HasPodLevelResources reports whether the pod has pod-level requests or limits (KEP-2837).
func HasPodLevelResources(pod *corev1.Pod) bool {
	r := pod.Spec.Resources
	return r != nil && len(r.Requests)+len(r.Limits) > 0
}

// Guaranteed reports whether the pod is of that QoS class. Its requests and limits stay equal; the strategy Node sizes
// such pods at admission only.
func Guaranteed(pod *corev1.Pod) bool { return ClassOf(pod) == corev1.PodQOSGuaranteed }
