package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

// overruled is a world in which somebody else has just changed what attune had set.
func overruled(t *testing.T) world {
	t.Helper()
	pod := running("web-1", sizeOf(300, 0, 512, 1024))
	pod.Generation, pod.Status.ObservedGeneration = 3, 3
	w := seen(t, template, pod).heading(template)
	w.rec.Status.Records = []v1alpha1.ResizeRecord{{
		PodUID: pod.UID, PodName: pod.Name, Phase: v1alpha1.RecordApplied, Generation: 2, TemplateHash: "abc", WrittenAt: metav1.NewTime(now.Add(-time.Minute)),
		Prior:   []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(template)}},
		Desired: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(seedSize)}},
	}}
	return w
}

func TestTwoSupersessionsPauseAndSaySo(t *testing.T) {
	w := overruled(t)
	w.workload.Annotations[v1alpha1.ResumedAnnotation] = "2026-02-01T00:00:00Z"
	first := decide(w)
	assert.Equal(t, int32(1), first.status.Supersessions)
	assert.Nil(t, first.status.Paused)

	again := overruled(t)
	again.workload.Annotations = w.workload.Annotations
	again.rec.Status.Supersessions, again.rec.Status.LastSuperseded = 1, &metav1.Time{Time: now.Add(-time.Hour)}
	d := decide(again)
	require.NotNil(t, d.status.Paused)
	assert.Equal(t, "2026-02-01T00:00:00Z", d.status.Paused.Resumed)
	c := d.blocked(t)
	assert.Equal(t, resize.ReasonWorkloadPaused, c.Reason, "whether or not there is anything to resize")
	assert.Contains(t, c.Message, "kubectl attune resume deployment/web -n shop")
	assert.Contains(t, c.Message, "tries again by itself at 2026-03-02T12:00:00Z")
	assert.Len(t, d.told(), 2)
	assert.Empty(t, d.writes)

	forgotten := overruled(t)
	forgotten.rec.Status.Supersessions, forgotten.rec.Status.LastSuperseded = 1, &metav1.Time{Time: now.Add(-8 * 24 * time.Hour)}
	assert.Nil(t, decide(forgotten).status.Paused, "the last time is more than a week ago")
}

func TestWhatEndsTheLoopsOwnPause(t *testing.T) {
	paused := func(since time.Duration, resumed string) decision {
		w := seen(t, template, running("web-1", sizeOf(4000, 0, 512, 1024))).heading(template)
		w.workload.Annotations[v1alpha1.ResumedAnnotation] = resumed
		w.rec.Status.Supersessions = 2
		w.rec.Status.Paused = &v1alpha1.PausedState{Since: metav1.NewTime(now.Add(-since)), Reason: "twice", Resumed: "before"}
		return decide(w)
	}
	goesOn := paused(time.Hour, "before")
	assert.NotNil(t, goesOn.status.Paused)
	assert.Equal(t, 23*time.Hour, goesOn.after)
	assert.Empty(t, goesOn.writes)
	for name, ended := range map[string]decision{"a person": paused(time.Hour, "2026-03-01T11:00:00Z"), "a day": paused(24*time.Hour, "before")} {
		assert.Nil(t, ended.status.Paused, name)
		assert.Zero(t, ended.status.Supersessions, name)
		assert.Len(t, ended.writes, 1, name)
	}
}

func TestOperatorsThatTakeTurnsPauseAndSaySo(t *testing.T) {
	of := func(operator string, before v1alpha1.AttuneRecommendationStatus) decision {
		w := seen(t, template, running("web-1", sizeOf(4000, 0, 512, 1024))).heading(template)
		w.operator, w.rec.Status = operator, before
		return decide(w)
	}
	first := of("attune-system", v1alpha1.AttuneRecommendationStatus{})
	assert.Equal(t, "attune-system", first.status.Operator)
	assert.Zero(t, first.status.Supersessions, "nobody had it")
	same := of("attune-system", first.status)
	assert.Zero(t, same.status.Supersessions, "another process of the same release")
	moved := of("attune-other", same.status)
	assert.Equal(t, "attune-other", moved.status.Operator)
	assert.Equal(t, int32(1), moved.status.Supersessions)
	assert.Nil(t, moved.status.Paused, "a release may move")

	back := of("attune-system", moved.status)
	require.NotNil(t, back.status.Paused)
	assert.Contains(t, back.status.Paused.Reason, "operators in the namespaces attune-other and attune-system size this workload by turns: uninstall one of them")
	c := back.blocked(t)
	assert.Equal(t, resize.ReasonWorkloadPaused, c.Reason)
	assert.Empty(t, back.writes)
	stays := of("attune-other", back.status)
	assert.Equal(t, "attune-system", stays.status.Operator, "no further turn while it is paused")
	assert.Equal(t, int32(2), stays.status.Supersessions)
}
