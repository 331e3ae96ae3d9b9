package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	. "attune.io/attune/resize/lifecycle"
)

// A row shared by many pods that do not get their old size back ends for none of them before that pod's own day is
// over.
func TestEachRestoreIsTriedForADay(t *testing.T) {
	record := recorded(desired)
	record.Phase = v1alpha1.RecordReverting
	row := v1alpha1.Try{What: v1alpha1.TryRestore, Since: metav1.NewTime(noon.Add(-25 * time.Hour)), Until: metav1.NewTime(noon.Add(-time.Hour))}
	wait := Action{Kind: Wait}
	for name, tc := range map[string]struct {
		written  time.Duration
		orphaned bool
		want     ActionKind
	}{
		"just now":                            {-time.Minute, false, Wait},
		"a day ago":                           {-24 * time.Hour, false, Forget},
		"just now, and the policy is gone":    {-time.Minute, true, Wait},
		"an hour ago, and the policy is gone": {-time.Hour, true, Forget},
	} {
		t.Run(name, func(t *testing.T) {
			record.WrittenAt = metav1.NewTime(noon.Add(tc.written))
			assert.Equal(t, tc.want, InVain(State{Kind: Deferred}, record, wait, []v1alpha1.Try{row}, tc.orphaned, noon).Kind)
		})
	}
}
