package lifecycle

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

// InOurTime returns a record whose newest event is not in the future. Another replica with a clock that is ahead
// may have written it: all times are then moved back by the same amount, so that no deadline comes later than it
// was meant. A clock that is behind cannot be told from a pause of the process; the deadlines that it wrote come
// early. The argument is not changed.
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

// NotAhead returns the time of an event, or now where the time is in the future (another clock wrote it). nil
// stays nil.
func NotAhead(at *metav1.Time, now time.Time) *metav1.Time {
	if at == nil || !at.After(now) {
		return at
	}
	return &metav1.Time{Time: now}
}
