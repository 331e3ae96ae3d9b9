package tuning_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/tuning"
)

// The record of a deleted pod is closed in any phase and no patch is sent, also right after the operator started.
func TestTheRecordOfAPodThatIsGoneIsClosed(t *testing.T) {
	for _, phase := range []v1alpha1.RecordPhase{
		v1alpha1.RecordWritten, v1alpha1.RecordSecondWritten, v1alpha1.RecordApplied, v1alpha1.RecordWatching, v1alpha1.RecordReverting,
		v1alpha1.RecordWithdrawing, v1alpha1.RecordLeaving, v1alpha1.RecordEvicting, v1alpha1.RecordEvictionDenied,
	} {
		w := resized(t, phase, small)
		w.Pods = nil
		for _, part := range []tuning.Part{tuning.OpenPart, tuning.UrgentPart, tuning.WholePass} {
			w.Part = part
			d := tuning.Decide(w)
			assert.Empty(t, d.Status.Records, "%s, %s", phase, part)
			assert.Empty(t, d.Writes, phase)
			assert.Empty(t, d.Evictions, phase)
		}
	}
}
