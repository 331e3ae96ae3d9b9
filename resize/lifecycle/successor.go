package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// unsizedFor is how long evictions of a workload stop after a successor was created without the admission resources.
const unsizedFor = 24 * time.Hour

// closedWithin is the usual time from an eviction until its record is closed. The successor may exist by then.
const closedWithin = time.Minute

// JudgeSuccessor checks the newest pod of a workload after an eviction by attune. If the pod was created without its
// admission resources, the result has a row TryEviction, which stops further evictions of the workload for unsizedFor:
// the webhook does not size its pods, whatever the reason, and each eviction would lead to the next. The row is removed
// once the newest pod was sized at admission. The arguments are not changed.
//
// A pod without the annotation that has the resources of the seed anyway, by its template, is no evidence. A pod with
// the annotation counts as not sized if another webhook has overwritten its resources.
func JudgeSuccessor(tries []v1alpha1.Try, history []v1alpha1.HistoryEntry, pods []*corev1.Pod, seed *v1alpha1.Seed, now time.Time) []v1alpha1.Try {
	known, evicted := unsizedSuccessor(tries, now), evictedAt(history, now)
	if known == nil && evicted.IsZero() {
		return tries
	}
	switch newest := newestOf(pods, seed); {
	case newest == nil:
	case sizedAtAdmission(newest, seed):
		return withoutSuccessor(tries)
	case known == nil && newest.DeletionTimestamp == nil && newest.CreationTimestamp.After(evicted.Add(-closedWithin)) && createdWithLess(newest, seed):
		return resize.AddTry(withoutSuccessor(tries), v1alpha1.Try{
			What: v1alpha1.TryEviction, Pod: newest.Name, PodUID: newest.UID, Reason: resize.ReasonLastSuccessor, Times: 1,
			Since: metav1.NewTime(now), Until: metav1.NewTime(now.Add(unsizedFor)),
		})
	}
	return tries
}

// unsizedSuccessor returns the active row about a successor that was not sized; nil: there is none.
func unsizedSuccessor(tries []v1alpha1.Try, now time.Time) *v1alpha1.Try {
	i := slices.IndexFunc(tries, func(t v1alpha1.Try) bool { return t.What == v1alpha1.TryEviction && now.Before(t.Until.Time) })
	if i < 0 {
		return nil
	}
	return &tries[i]
}

// withoutSuccessor returns the tries without rows about successors.
func withoutSuccessor(tries []v1alpha1.Try) []v1alpha1.Try {
	return slices.DeleteFunc(slices.Clone(tries), func(t v1alpha1.Try) bool { return t.What == v1alpha1.TryEviction })
}

// evictedAt returns when attune last evicted a pod of a workload; zero if the history has no eviction within unsizedFor.
func evictedAt(history []v1alpha1.HistoryEntry, now time.Time) time.Time {
	i := slices.IndexFunc(history, func(row v1alpha1.HistoryEntry) bool { return row.Result == ResultEvicted })
	if i < 0 || now.Sub(history[i].Timestamp.Time) >= unsizedFor {
		return time.Time{}
	}
	return history[i].Timestamp.Time
}

// newestOf returns the pod that was created last; nil without pods. Of those created in the same second it prefers one
// that was sized at admission.
func newestOf(pods []*corev1.Pod, seed *v1alpha1.Seed) (newest *corev1.Pod) {
	for _, pod := range pods {
		if newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp) ||
			newest.CreationTimestamp.Equal(&pod.CreationTimestamp) && sizedAtAdmission(pod, seed) {
			newest = pod
		}
	}
	return newest
}

// sizedAtAdmission reports whether a pod has the annotation of the webhook, and the resources too.
func sizedAtAdmission(pod *corev1.Pod, seed *v1alpha1.Seed) bool {
	return pod.Annotations[v1alpha1.SeededAnnotation] != "" && !overwritten(pod, seed)
}

// overwritten reports whether a pod has the annotation of the webhook, but nothing of what the seed raises: another
// webhook has written the original resources again. A pod that was resized since, and a pod of another seed, do not
// show it.
func overwritten(pod *corev1.Pod, seed *v1alpha1.Seed) bool {
	var seeded v1alpha1.Seeded
	if seed == nil || pod.Generation != 1 || workload.UnmarshalBounded([]byte(pod.Annotations[v1alpha1.SeededAnnotation]), &seeded) != nil || seeded.Revision != seed.Revision {
		return false
	}
	raised := false
	for _, c := range podview.Resizable(pod) {
		i := slices.IndexFunc(seeded.Original, func(o v1alpha1.ContainerResources) bool { return o.Name == c.Name })
		if i < 0 {
			continue
		}
		given, was, has := podview.SeedRequests(seed, c.Name), podview.FromResources(seeded.Original[i].Resources), podview.ReadSpec(c.Resources)
		for _, r := range recommender.Resources {
			if given[r].Request <= was[r].Request {
				continue
			}
			if has[r].Request > was[r].Request {
				return false
			}
			raised = true
		}
	}
	return raised
}

// createdWithLess reports whether a container requests less of a resource than the seed gives.
func createdWithLess(pod *corev1.Pod, seed *v1alpha1.Seed) bool {
	for _, c := range podview.Resizable(pod) {
		given, has := podview.SeedRequests(seed, c.Name), podview.ReadSpec(c.Resources)
		for _, r := range recommender.Resources {
			if has[r].Request < given[r].Request {
				return true
			}
		}
	}
	return false
}
