package resize

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

// InOurTime is a record whose newest event did not happen in the future. Another replica wrote it, whose clock
// is ahead of ours: all of its times are moved back as far, so that no deadline is later than it was meant. A clock
// that was behind cannot be told from a pause; what it wrote is due early.
func InOurTime(record v1alpha1.ResizeRecord, now time.Time) v1alpha1.ResizeRecord {
	newest := record.WrittenAt.Time
	if v := record.VerifiedOnce; v != nil && v.After(newest) {
		newest = v.Time
	}
	ahead := newest.Sub(now)
	if ahead <= 0 {
		return record
	}
	record = *record.DeepCopy()
	record.WrittenAt = metav1.NewTime(record.WrittenAt.Add(-ahead))
	for _, at := range []*metav1.Time{record.VerifiedOnce, record.Deadline, record.WatchUntil} {
		if at != nil {
			at.Time = at.Add(-ahead)
		}
	}
	return record
}

// NotAhead is a time that something happened at: now, where another clock says that it is still to come.
func NotAhead(at *metav1.Time, now time.Time) *metav1.Time {
	if at == nil || !at.After(now) {
		return at
	}
	return &metav1.Time{Time: now}
}
