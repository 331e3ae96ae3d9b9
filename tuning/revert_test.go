package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// With autoRevert off, a regression is reported and learned from, but no patch is sent, also not for another reason
// in the cooldown that follows.
func TestWithoutAutoRevertNothingIsWritten(t *testing.T) {
	for harm, suffer := range harms {
		t.Run(string(harm), func(t *testing.T) {
			with := judged(t)
			suffer(&with)
			d := tuning.Decide(with)
			require.NotEmpty(t, d.Writes, "or nothing is tested: %v", told(d))
			require.Equal(t, v1alpha1.RecordReverting, d.Status.Records[0].Phase)

			w := judged(t)
			suffer(&w)
			w.Policy.Settings.Resize.AutoRevert = false
			d = tuning.Decide(w)
			assert.Empty(t, d.Writes)
			assert.Empty(t, d.Evictions)
			assert.Empty(t, d.Status.Records)
			assert.NotEmpty(t, d.Status.Floors, "learned")
			require.NotEmpty(t, told(d))
			assert.Contains(t, told(d)[0], "caused a regression and is not reverted (autoRevert is false): "+string(harm))
			assert.Equal(t, "Failed "+string(harm), d.Status.History[0].Result+" "+d.Status.History[0].Reason)

			w.Rec.Status = d.Status
			w.Now = now.Add(time.Minute)
			assert.Empty(t, tuning.Decide(heading(w, sizeOf(900, 1800, 900, 1800))).Writes)
		})
	}
}

// A revert that is refused or delayed is reported until it is complete.
func TestARevertThatDoesNotGetThroughIsAlerted(t *testing.T) {
	w := judged(t)
	harms[resize.HarmNotReady](&w)
	hard, used := corev1.ResourceList{"requests.memory": resource.MustParse("1Gi")}, corev1.ResourceList{"requests.memory": resource.MustParse("1Gi")}
	w.Namespace.Quotas = []corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Name: "team"}, Status: corev1.ResourceQuotaStatus{Hard: hard, Used: used}}}
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1, "CPU goes all the way")
	assert.Equal(t, sizeOf(500, 1000, 200, 400), d.Writes[0].Plan.Moves[0].To)
	c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionDegraded)
	assert.Equal(t, v1alpha1.ReasonRevertPending, c.Reason)
	assert.Contains(t, c.Message, "pod web-1 does not have its previous resources yet: Quota:")
	assert.Contains(t, told(d)[len(told(d))-1], "Warning RevertPending Pod web-1")
	require.Len(t, d.Status.Records, 1)

	// The quota has room again: the rest is reverted, and the report ends.
	w.Rec.Status = d.Status
	w.Pods[0].Spec.Containers[0].Resources = podview.ToRequirements(sizeOf(500, 1000, 200, 400))
	w.Namespace.Quotas = nil
	d = tuning.Decide(w)
	require.Len(t, d.Writes, 1)
	assert.Equal(t, sizeOf(500, 1000, 512, 1024), d.Writes[0].Plan.Moves[0].To)
	assert.Equal(t, v1alpha1.ReasonHealthy, meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionDegraded).Reason)
	assert.Empty(t, d.Pending)
}
