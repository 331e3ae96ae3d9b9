package harm

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// SiblingsUnready compares a resized pod with a control group: the siblings that were ready when the record was
// written, have no open record, have at least what the pod had before, and run on a ready node. It returns true
// where at least half of them became unready since, so that a common cause explains it. Siblings that were just
// created, or have the size on trial themselves, explain nothing and are left out. down reports whether a node is
// not ready.
func SiblingsUnready(siblings []*corev1.Pod, record v1alpha1.ResizeRecord, open []v1alpha1.ResizeRecord, down func(node string) bool) bool {
	excluded := map[types.UID]bool{record.PodUID: true}
	for _, r := range open {
		excluded[r.PodUID] = true
	}
	ready, unready := 0, 0
	changes := resize.Changes(record)
	for _, pod := range siblings {
		if excluded[pod.UID] || down(pod.Spec.NodeName) || pod.DeletionTimestamp != nil || resize.Finished(pod) || hasLess(pod, changes) {
			continue
		}
		// A sibling that is unready since before the record was written counts for neither side.
		switch c := podview.Condition(pod, corev1.PodReady); {
		case c == nil || pod.CreationTimestamp.Add(startsWithin).After(record.WrittenAt.Time):
		case c.Status == corev1.ConditionTrue:
			ready++
		case c.LastTransitionTime.After(record.WrittenAt.Time):
			unready++
		}
	}
	return unready > 0 && unready >= ready
}

// hasLess reports whether a pod has less than the prior size of a resource that the record lowered.
func hasLess(pod *corev1.Pod, changes []resize.Change) bool {
	specs := podview.Specs(pod)
	return slices.ContainsFunc(changes, func(c resize.Change) bool {
		spec, ok := specs[c.Container]
		return ok && slices.ContainsFunc(recommender.Resources[:], func(r recommender.Resource) bool {
			only := resize.Move{From: c.Prior, To: c.Prior}
			only.To[r] = c.Desired[r]
			now := resize.Move{From: c.Prior, To: c.Prior}
			now.To[r] = spec[r]
			return only.LowersOf(r) && now.LowersOf(r)
		})
	})
}
