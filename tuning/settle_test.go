package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/tuning"
)

// No limit of a sibling container that has just started is lowered yet. The answer to an OOM kill lowers nothing.
func TestAnOOMKillIsAnsweredBesideAYoungSibling(t *testing.T) {
	pod := endedBefore(manyContainers("web-1", 2), "OOMKilled", 1, time.Minute)
	pod.Spec.NodeName = "node-1"
	pod.Status.ContainerStatuses[1].State.Running.StartedAt = metav1.NewTime(now.Add(-time.Second))
	w := eager(seen(t, sizeOf(500, 1000, 512, 1024), pod))
	w.Rec.Spec.Containers = []v1alpha1.ContainerTarget{
		{Name: "container-00", Target: podview.ToResources(sizeOf(500, 1000, 1024, 2048))},
		{Name: "container-01", Target: podview.ToResources(sizeOf(500, 1000, 256, 512))},
	}
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1, "%v", tuning.Refused(w).Of())
	assert.True(t, d.Writes[0].Plan.Urgent)
	for _, m := range d.Writes[0].Plan.Moves {
		assert.Equal(t, "container-00", m.Container)
	}
}

// Times that a leader with a fast clock has stored delay nothing.
func TestPausesAndBackoffsAreBroughtIntoOurTime(t *testing.T) {
	ahead := metav1.NewTime(now.Add(72 * time.Hour))
	status := tuning.StoredStatus(tuning.View{Now: now, Rec: &v1alpha1.AttuneRecommendation{Status: v1alpha1.AttuneRecommendationStatus{
		GoneSince: &ahead, Paused: &v1alpha1.PausedState{Since: ahead}, Backoff: &v1alpha1.Backoff{Since: ahead}, CooldownFrom: &ahead,
	}}})
	for _, at := range []metav1.Time{*status.GoneSince, status.Paused.Since, status.Backoff.Since, *status.CooldownFrom} {
		assert.Equal(t, now, at.Time)
	}
	assert.NotPanics(t, func() { tuning.StoredStatus(tuning.View{Now: now, Rec: &v1alpha1.AttuneRecommendation{}}) })
}
