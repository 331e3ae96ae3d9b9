package lifecycle

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"attune.io/attune/api/v1alpha1"
)

// Retold reports whether two records differ at most in what each look at the pod shows again: that the API server
// accepted the resize, under which generation (Adopt), and since when the size is seen to be applied
// (MarkVerified). Such a difference needs no write of its own: a process that loses it can still put the pod back,
// and only verifies later.
func Retold(a, b v1alpha1.ResizeRecord) bool {
	return equality.Semantic.DeepEqual(untold(a), untold(b))
}

// untold returns the record without what a look at its pod shows again.
func untold(record v1alpha1.ResizeRecord) v1alpha1.ResizeRecord {
	switch record.Phase {
	case v1alpha1.RecordWritten, v1alpha1.RecordSecondWritten, v1alpha1.RecordApplied:
		record.Phase, record.Generation, record.VerifiedOnce = v1alpha1.RecordWritten, 0, nil
	}
	return record
}
