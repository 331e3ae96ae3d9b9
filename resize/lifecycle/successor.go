package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// unsizedFor is how long evictions of a workload stop after a successor was created without the admission resources.
const unsizedFor = 24 * time.Hour

// judgedWithin is how long after an eviction a pod counts as its successor. A later one may have been created during a
// pause, by another template, or before its seed grew.
const judgedWithin = 10 * time.Minute

// closedWithin is the usual time from an eviction until its record is closed, when the successor may exist already, and
// by how much the operator's clock may be ahead of the API server's. An older pod that was not sized stops evictions
// only until the successor exists.
const closedWithin = 5 * time.Minute

// JudgeSuccessor checks the newest pod of a workload after an eviction by attune. If the pod was created without its
// admission resources, the result has a row TryEviction, which stops further evictions of the workload for unsizedFor:
// the webhook does not size its pods, whatever the reason, and each eviction would lead to the next. The row is removed
// once the newest pod was sized at admission. The arguments are not changed.
//
// A pod that was not sized and has the resources of the seed anyway, by its template, is no evidence. Nor is one whose
// spec was written again. seeded returns the annotation of the webhook with the recommendation of the pod's workload.
// A pod counts as not sized if seeded returns nil, because the annotation is not set or cannot be read, and if another
// webhook has overwritten its resources.
func JudgeSuccessor(status *v1alpha1.AttuneRecommendationStatus, pods []*corev1.Pod, seed *v1alpha1.Seed, seeded func(*corev1.Pod) *v1alpha1.Seeded, now time.Time) []v1alpha1.Try {
	tries, known := status.Tries, unsizedSuccessor(status.Tries, now)
	evicted, fresh := lastEviction(status, pods, now)
	if known == nil && evicted.IsZero() {
		return tries
	}
	sized := func(pod *corev1.Pod) bool {
		note := seeded(pod)
		return note != nil && !overwritten(pod, seed, *note)
	}
	switch newest := newestOf(pods, sized); {
	case newest == nil:
	case sized(newest):
		return withoutSuccessor(tries)
	case known == nil && fresh && newest.CreationTimestamp.After(evicted.Add(-closedWithin)) && newest.CreationTimestamp.Time.Before(evicted.Add(judgedWithin)) &&
		newest.DeletionTimestamp == nil && newest.Generation <= 1 && createdWithLess(newest, seed):
		return resize.AddTry(withoutSuccessor(tries), v1alpha1.Try{
			What: v1alpha1.TryEviction, Pod: newest.Name, PodUID: newest.UID, Reason: resize.ReasonLastSuccessor, Times: 1,
			Since: metav1.NewTime(now), Until: metav1.NewTime(now.Add(unsizedFor)),
		})
	}
	return tries
}

// unsizedSuccessor returns the active row about a successor that was not sized; nil: there is none.
func unsizedSuccessor(tries []v1alpha1.Try, now time.Time) *v1alpha1.Try {
	return podview.FirstIn(tries, func(t *v1alpha1.Try) bool { return t.What == v1alpha1.TryEviction && now.Before(t.Until.Time) })
}

// withoutSuccessor returns the tries without rows about successors.
func withoutSuccessor(tries []v1alpha1.Try) []v1alpha1.Try {
	return slices.DeleteFunc(slices.Clone(tries), func(t v1alpha1.Try) bool { return t.What == v1alpha1.TryEviction })
}

// lastEviction returns when attune last evicted a pod of a workload; zero: not within unsizedFor. fresh reports that its
// successor may be judged: for judgedWithin, and while the record is open. The operator may have stopped between the
// eviction and the end of the record.
func lastEviction(status *v1alpha1.AttuneRecommendationStatus, pods []*corev1.Pod, now time.Time) (at time.Time, fresh bool) {
	open := podview.FirstIn(status.Records, func(r *v1alpha1.ResizeRecord) bool {
		return r.Phase == v1alpha1.RecordEvicting && r.Deadline != nil &&
			!slices.ContainsFunc(pods, func(p *corev1.Pod) bool { return p.UID == r.PodUID && p.DeletionTimestamp == nil })
	})
	if open != nil {
		return open.Deadline.Add(-evictEvery), true
	}
	last := podview.First(status.History, func(row v1alpha1.HistoryEntry) bool { return row.Result == ResultEvicted }).Timestamp.Time
	if now.Sub(last) >= unsizedFor {
		return time.Time{}, false
	}
	return last, now.Sub(last) < judgedWithin
}

// newestOf returns the pod that was created last; nil without pods. Of those created in the same second it prefers one
// that was sized at admission.
func newestOf(pods []*corev1.Pod, sized func(*corev1.Pod) bool) (newest *corev1.Pod) {
	for _, pod := range pods {
		if newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp) ||
			newest.CreationTimestamp.Equal(&pod.CreationTimestamp) && sized(pod) {
			newest = pod
		}
	}
	return newest
}

// overwritten reports whether a pod has the annotation of the webhook, but nothing of what the seed raises: another
// webhook has written the original resources again. A pod that was resized since, and a pod of another seed, do not
// show it.
func overwritten(pod *corev1.Pod, seed *v1alpha1.Seed, seeded v1alpha1.Seeded) bool {
	if seed == nil || pod.Generation != 1 || seeded.Revision != seed.Revision {
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
	return slices.ContainsFunc(podview.Resizable(pod), func(c *corev1.Container) bool {
		given, has := podview.SeedRequests(seed, c.Name), podview.ReadSpec(c.Resources)
		return has[recommender.CPU].Request < given[recommender.CPU].Request || has[recommender.Memory].Request < given[recommender.Memory].Request
	})
}
