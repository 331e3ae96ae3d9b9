package podview

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FieldManager is the name under which attune writes (metadata.managedFields of a pod).
const FieldManager = "attune"

// ResizedBy returns who, other than attune, last wrote sizes of the pod that still stand, and when, as the API server
// noted it. The zero time: nobody.
//
// An amount that attune wrote later is attune's, and no longer the other's: the API server takes it out of the
// other's entry.
func ResizedBy(pod *corev1.Pod) (manager string, at time.Time) {
	for _, entry := range pod.ManagedFields {
		if foreign(entry) && entry.Time.After(at) {
			manager, at = entry.Manager, entry.Time.Time
		}
	}
	return manager, at
}

// ResizedByAttune returns when attune last set an amount of the pod that still stands, by the clock of the API server;
// the zero time: none stands. An amount that another writer set later is taken out of attune's entry.
func ResizedByAttune(pod *corev1.Pod) time.Time {
	return lastEntry(pod, func(manager string) bool { return manager == FieldManager })
}

// lastEntry returns the time of the last entry about the subresource resize by a manager that counts; zero: there is none.
func lastEntry(pod *corev1.Pod, counts func(manager string) bool) (at time.Time) {
	for _, entry := range pod.ManagedFields {
		if entry.Subresource == resizeSubresource && counts(entry.Manager) && entry.Time != nil && entry.Time.After(at) {
			at = entry.Time.Time
		}
	}
	return at
}

// ResizedEntries are the entries of managedFields that caches keep in the place of all others: ResizedBy,
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

// ResizedEntry is an entry of managedFields for which ResizedBy returns the same; with FieldManager, ResizedByAttune does.
func ResizedEntry(manager string, at time.Time) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Subresource: resizeSubresource, Time: &metav1.Time{Time: at}}
}

const resizeSubresource = "resize"

// foreign reports whether an entry of managedFields is about sizes that another writer set through the
// subresource resize. An entry without fields counts: caches drop them after they were looked at.
func foreign(entry metav1.ManagedFieldsEntry) bool {
	const field = `"f:resources"`
	return entry.Subresource == resizeSubresource && entry.Manager != FieldManager && entry.Time != nil &&
		(entry.FieldsV1 == nil || strings.Contains(entry.FieldsV1.GetRawString(), field))
}
