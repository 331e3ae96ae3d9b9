package lifecycle

import (
	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// Named returns a record with its phase. Earlier versions wrote three phases as combinations of other fields: a
// second patch as Written with a generation, a pod that leaves its node as Withdrawing with that reason, and a
// denied eviction as Withdrawing with a deadline.
func Named(record v1alpha1.ResizeRecord) v1alpha1.ResizeRecord {
	switch {
	case record.Phase == v1alpha1.RecordWritten && record.Generation != 0:
		record.Phase = v1alpha1.RecordSecondWritten
	case record.Phase == v1alpha1.RecordWithdrawing && record.Deadline != nil:
		record.Phase = v1alpha1.RecordEvictionDenied
	case record.Phase == v1alpha1.RecordWithdrawing && record.Reason == resize.ReasonDoesNotFit:
		record.Phase = v1alpha1.RecordLeaving
	}
	return record
}
