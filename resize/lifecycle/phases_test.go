package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	. "attune.io/attune/resize"
	. "attune.io/attune/resize/lifecycle"
)

// Records of earlier versions are read: their phases get the names that this version writes.
func TestPhasesOfEarlierVersions(t *testing.T) {
	at := &metav1.Time{Time: noon}
	for name, tc := range map[string]struct {
		was  v1alpha1.ResizeRecord
		want v1alpha1.RecordPhase
	}{
		"a first patch":                   {v1alpha1.ResizeRecord{Phase: v1alpha1.RecordWritten}, v1alpha1.RecordWritten},
		"a second patch":                  {v1alpha1.ResizeRecord{Phase: v1alpha1.RecordWritten, Generation: 2, Deadline: at}, v1alpha1.RecordSecondWritten},
		"accepted":                        {v1alpha1.ResizeRecord{Phase: v1alpha1.RecordApplied, Generation: 2}, v1alpha1.RecordApplied},
		"withdrawn":                       {v1alpha1.ResizeRecord{Phase: v1alpha1.RecordWithdrawing, Reason: ReasonInfeasible}, v1alpha1.RecordWithdrawing},
		"an eviction was denied":          {v1alpha1.ResizeRecord{Phase: v1alpha1.RecordWithdrawing, Reason: ReasonInfeasible, Deadline: at}, v1alpha1.RecordEvictionDenied},
		"does not fit on its node":        {v1alpha1.ResizeRecord{Phase: v1alpha1.RecordWithdrawing, Reason: ReasonDoesNotFit}, v1alpha1.RecordLeaving},
		"does not fit, and was denied":    {v1alpha1.ResizeRecord{Phase: v1alpha1.RecordWithdrawing, Reason: ReasonDoesNotFit, Deadline: at}, v1alpha1.RecordEvictionDenied},
		"does not fit, and is asked for":  {v1alpha1.ResizeRecord{Phase: v1alpha1.RecordEvicting, Reason: ReasonDoesNotFit, Deadline: at}, v1alpha1.RecordEvicting},
		"is put back after harm":          {v1alpha1.ResizeRecord{Phase: v1alpha1.RecordReverting, Reason: string(HarmOOM)}, v1alpha1.RecordReverting},
		"a name that this version writes": {v1alpha1.ResizeRecord{Phase: v1alpha1.RecordEvictionDenied, Deadline: at}, v1alpha1.RecordEvictionDenied},
	} {
		named := Named(tc.was)
		assert.Equal(t, tc.want, named.Phase, name)
		assert.Equal(t, PuttingBack(tc.was), PuttingBack(named), name)
		assert.Equal(t, Leaving(tc.was), Leaving(named), name)
		assert.Equal(t, named, Named(named), name)
	}
}
