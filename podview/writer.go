package podview

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldManager is attune's field manager in metadata.managedFields.
const FieldManager = "attune"

// ResizedBy returns the last foreign field manager that set sizes of the pod which are still in effect, and the time
// recorded by the API server. The zero time: there is no such manager.
//
// If attune later writes an amount, it becomes attune's: the API server removes it from the other manager's entry.
func ResizedBy(pod *corev1.Pod) (manager string, at time.Time) {
	for _, entry := range pod.ManagedFields {
		if foreign(entry) && entry.Time.After(at) {
			manager, at = entry.Manager, entry.Time.Time
		}
	}
	return manager, at
}

// ResizedByAttune returns when attune last set an amount of the pod that is still in effect, by the clock of the API
// server. The zero time: there is no such amount. If another manager later sets an amount, the API server removes it
// from attune's entry.
func ResizedByAttune(pod *corev1.Pod) time.Time {
	return lastEntry(pod, func(manager string) bool { return manager == FieldManager })
}

// lastEntry returns the time of the newest entry for the subresource resize whose manager satisfies counts; zero if
// there is no such entry.
func lastEntry(pod *corev1.Pod, counts func(manager string) bool) (at time.Time) {
	for _, entry := range pod.ManagedFields {
		if entry.Subresource == resizeSubresource && counts(entry.Manager) && entry.Time != nil && entry.Time.After(at) {
			at = entry.Time.Time
		}
	}
	return at
}

// resizeTakes is how long a kubelet may take to apply new limits.
const resizeTakes = 2 * time.Minute

// SizedSince returns since when the pod has had the limits in its spec: since it was created, or since its last resize.
// It returns the zero time if that is not known, because a resize is under way or another change hides the last one.
func SizedSince(pod *corev1.Pod) time.Time {
	last := lastEntry(pod, func(string) bool { return true })
	switch {
	case ResizeUnderway(pod):
		return time.Time{}
	case !last.IsZero():
		return last.Add(resizeTakes)
	case pod.Generation == 1:
		return pod.CreationTimestamp.Time
	}
	return time.Time{}
}

// ResizedEntries returns the entries of managedFields that caches keep in place of all others. ResizedBy,
// ResizedByAttune and ResizedSince return the same for them. cut shortens the name of a foreign manager.
func ResizedEntries(pod *corev1.Pod, cut func(string) string) (entries []metav1.ManagedFieldsEntry) {
	manager, at := ResizedBy(pod)
	if !at.IsZero() {
		entries = append(entries, ResizedEntry(cut(manager), at))
	}
	if own := ResizedByAttune(pod); !own.IsZero() {
		entries = append(entries, ResizedEntry(FieldManager, own))
	}
	return entries
}

// ResizedEntry returns an entry of managedFields for which ResizedBy, or ResizedByAttune if manager is FieldManager,
// returns the same values.
func ResizedEntry(manager string, at time.Time) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Subresource: resizeSubresource, Time: &metav1.Time{Time: at}}
}

const resizeSubresource = "resize"

// foreign reports whether an entry of managedFields covers sizes that another manager set through the subresource
// resize. An entry without fields counts, because caches drop the fields after this check.
func foreign(entry metav1.ManagedFieldsEntry) bool {
	const field = `"f:resources"`
	return entry.Subresource == resizeSubresource && entry.Manager != FieldManager && entry.Time != nil &&
		(entry.FieldsV1 == nil || strings.Contains(entry.FieldsV1.GetRawString(), field))
}
