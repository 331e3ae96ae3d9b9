package harm

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// AddVerified stores the sizes of a record's pod as the verified resources of the workload's containers, one per
// container. A size below a floor is not stored, even though this pod had no regression.
func AddVerified(kept []v1alpha1.VerifiedResources, record v1alpha1.ResizeRecord, floors []v1alpha1.Floor, now time.Time) []v1alpha1.VerifiedResources {
	kept = slices.Clone(kept)
	for _, c := range record.Desired {
		if resize.BelowFloor(floors, c.Name, podview.FromResources(c.Resources), now) {
			continue
		}
		size := v1alpha1.VerifiedResources{Name: c.Name, Size: c.Resources, Since: metav1.NewTime(now), TemplateHash: record.TemplateHash}
		// A container has one verified size at a time, from the newest template generation.
		i := slices.IndexFunc(kept, func(k v1alpha1.VerifiedResources) bool { return k.Name == c.Name })
		switch {
		case i < 0:
			kept = append(kept, size)
		case kept[i].TemplateHash == size.TemplateHash && podview.FromResources(kept[i].Size) == podview.FromResources(size.Size):
			// The same size was verified once more: Since keeps the first time.
		default:
			size.Promoted = kept[i].Promoted
			kept[i] = size
		}
	}
	return kept
}

// DropVerified drops verified resources that are not greater than the sizes of a record with a regression: other pods
// passed by chance, and new pods must not be created with them.
func DropVerified(kept []v1alpha1.VerifiedResources, record v1alpha1.ResizeRecord) []v1alpha1.VerifiedResources {
	harmful := map[string]recommender.Size{}
	for _, c := range resize.Changes(record) {
		harmful[c.Container] = c.Desired
	}
	return slices.DeleteFunc(slices.Clone(kept), func(k v1alpha1.VerifiedResources) bool {
		size, ok := harmful[k.Name]
		m := resize.Move{From: size, To: podview.FromResources(k.Size)}
		return ok && !m.Raises()
	})
}

// DropBelowFloors drops verified resources below a floor. A pod may be killed with verified resources long after its
// resize, when its record no longer exists.
func DropBelowFloors(floors []v1alpha1.Floor, kept []v1alpha1.VerifiedResources, now time.Time) []v1alpha1.VerifiedResources {
	return slices.DeleteFunc(slices.Clone(kept), func(k v1alpha1.VerifiedResources) bool {
		return resize.BelowFloor(floors, k.Name, podview.FromResources(k.Size), now)
	})
}

// SiblingsUnready compares a resized pod with a control group: the siblings that were ready when the record was
// written, have no open record, have at least the pod's prior size, and run on a ready node. It returns true if at
// least half of them became not ready since, so that a common cause explains it. Siblings that were just created, or
// that have the new size themselves, explain nothing and are left out. down reports whether a node is not ready.
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
		// A sibling that was not ready before the record was written counts for neither side.
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
