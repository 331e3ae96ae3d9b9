package tuning_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

// The second patch of a resize is given up after a permanent refusal, and sent again after a transient refusal or a
// lost answer. A conflict with another write must not leave the memory limit unchanged.
func TestWhatBecomesOfASecondPatch(t *testing.T) {
	half := sizeOf(100, 0, 512, 1024)
	pod := running("web-1", half)
	record := v1alpha1.ResizeRecord{
		PodUID: pod.UID, PodName: pod.Name, Phase: v1alpha1.RecordSecondWritten, Generation: 2,
		Prior:   []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(200, 0, 512, 1024))}},
		Desired: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(100, 0, 256, 512))}},
	}
	require.True(t, lifecycle.InSecondPatch(record))
	for kind, givenUp := range map[resize.OutcomeKind]bool{
		resize.OutcomeConflict: false, resize.OutcomeTransient: false, resize.OutcomeUnknown: false,
		resize.OutcomePolicyRefusal: true, resize.OutcomeInfeasible: true, resize.OutcomeTerminal: true,
	} {
		status := v1alpha1.AttuneRecommendationStatus{Records: []v1alpha1.ResizeRecord{*record.DeepCopy()}}
		sent := tuning.Write{Pod: pod, Plan: lifecycle.RestPlan(pod, record)}
		require.False(t, sent.Plan.Empty())
		tuning.Answer(&status, tuning.View{Rec: &v1alpha1.AttuneRecommendation{}}, sent, nil, resize.Outcome{Kind: kind}, now)
		require.Len(t, status.Records, 1, kind)
		assert.Empty(t, status.History, kind)
		if !givenUp {
			want := *record.DeepCopy()
			want.Attempts = 1 // retried a limited number of times
			assert.Equal(t, want, status.Records[0], kind)
			continue
		}
		assert.Equal(t, v1alpha1.RecordApplied, status.Records[0].Phase, kind)
		assert.Equal(t, half, podview.FromResources(status.Records[0].Desired[0].Resources), kind)
	}
}
