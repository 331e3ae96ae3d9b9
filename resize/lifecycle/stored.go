package lifecycle

import (
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

// EqualApartFromProgress reports whether two records differ at most in facts that each read of the pod shows again: that the API server
// accepted the resize, its generation (Adopt), and since when the size is applied (MarkVerified). Such a difference
// needs no write of its own: a process that loses it can still restore the pod, and only verifies later.
func EqualApartFromProgress(a, b v1alpha1.ResizeRecord) bool {
	return equality.Semantic.DeepEqual(withoutObserved(a), withoutObserved(b))
}

// withoutObserved returns the record without the facts that a read of its pod shows again.
func withoutObserved(record v1alpha1.ResizeRecord) v1alpha1.ResizeRecord {
	switch record.Phase {
	case v1alpha1.RecordWritten, v1alpha1.RecordSecondWritten, v1alpha1.RecordApplied:
		record.Phase, record.Generation, record.VerifiedOnce = v1alpha1.RecordWritten, 0, nil
	}
	return record
}

// InOurTime returns a record whose newest event is not in the future. Another replica with a clock that is ahead may
// have written it: all times are then moved back by the same amount, so that no deadline comes later than intended. A
// clock that lags cannot be distinguished from a pause of the process; its deadlines come early. The argument is not
// changed.
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

// NotAhead returns the time of an event, or now if the time is in the future (another clock wrote it). nil stays nil.
func NotAhead(at *metav1.Time, now time.Time) *metav1.Time {
	if at == nil || !at.After(now) {
		return at
	}
	return &metav1.Time{Time: now}
}
