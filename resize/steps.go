package resize

import (
	"k8s.io/apimachinery/pkg/api/equality"

	"attune.io/attune/api/v1alpha1"
)

// Retold: two records of a pod differ at most in what every look at the pod tells again: that the API server took the
// resize, under which generation (Adopt), and since when the size is seen to be applied (MarkVerified). Whoever knows
// one of them only puts the pod back as well as who knows the other, and verifies it later at most.
func Retold(a, b v1alpha1.ResizeRecord) bool {
	return equality.Semantic.DeepEqual(untold(a), untold(b))
}

// untold is a record without what a look at its pod tells again.
func untold(record v1alpha1.ResizeRecord) v1alpha1.ResizeRecord {
	switch record.Phase {
	case v1alpha1.RecordWritten, v1alpha1.RecordSecondWritten, v1alpha1.RecordApplied:
		record.Phase, record.Generation, record.VerifiedOnce = v1alpha1.RecordWritten, 0, nil
	}
	return record
}
