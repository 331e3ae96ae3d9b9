package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

// askedToUndo returns a view in which a user requests an undo. The pods' original resources are 500m and 512Mi.
func askedToUndo(t *testing.T, at string, pods ...*corev1.Pod) tuning.View {
	t.Helper()
	w := heading(seen(t, template, pods...), seedSize)
	w.Workload.Annotations[v1alpha1.UndoAnnotation] = at
	w.Rec.Status.Originals = []v1alpha1.Originals{{TemplateHash: "abc", Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(template)}}}}
	return w
}

func TestAnUndoPutsEveryPodBackOnce(t *testing.T) {
	small := func(name string) *corev1.Pod { return running(name, sizeOf(200, 0, 512, 1024)) }
	w := askedToUndo(t, "2026-03-01T11:59:00Z", small("web-1"), running("web-2", template), small("web-3"))
	w.Policy.Settings.Resize.Mode = v1alpha1.UpdateRecommend
	w.Policy.Settings.Resize.Paused = []string{"cluster"}
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 2, "%v", told(d))
	for i, name := range []string{"web-1", "web-3"} {
		assert.Equal(t, name, d.Writes[i].Plan.PodName)
		assert.Equal(t, template, d.Writes[i].Plan.Moves[0].To)
		assert.Equal(t, resize.WaveUndo, d.Status.Records[i].Wave)
	}
	assert.Equal(t, tuning.ReasonUndone, condition(t, d).Reason)
	assert.Contains(t, condition(t, d).Message, "restoring the original resources of 2 pods")
	assert.Empty(t, d.Status.UndoneAt, "not yet")

	// All pods are restored and the undo is stored. From then on attune does not change a pod that a user resizes.
	w = askedToUndo(t, "2026-03-01T11:59:00Z", running("web-1", template))
	d = tuning.Decide(w)
	assert.Equal(t, "2026-03-01T11:59:00Z", d.Status.UndoneAt)
	assert.Contains(t, told(d), "Normal Undone The undo requested at 2026-03-01T11:59:00Z is complete: running pods have their original resources")
	w.Rec.Status = d.Status
	w.Pods = []*corev1.Pod{small("web-1")}
	d = tuning.Decide(w)
	assert.Empty(t, d.Writes)
	assert.Empty(t, told(d))
	assert.Equal(t, tuning.ReasonUndone, condition(t, d).Reason)
	assert.Contains(t, condition(t, d).Message, "kubectl attune resume deployment/web -n shop")
	assert.Equal(t, v1alpha1.PhasePaused, d.Status.Phase)

	// The same time in another format is the same undo. Another time is not.
	w.Workload.Annotations[v1alpha1.UndoAnnotation] = "2026-03-01T12:59:00+01:00"
	assert.Empty(t, tuning.Decide(w).Writes)
	w.Workload.Annotations[v1alpha1.UndoAnnotation] = "2026-03-01T11:59:01Z"
	assert.Len(t, tuning.Decide(w).Writes, 1)
}

// The undo is not complete while a seed could size new pods.
func TestAnUndoIsNotDoneWhileThereIsASeed(t *testing.T) {
	w := askedToUndo(t, "2026-03-01T11:59:00Z", running("web-1", template))
	w.Rec.Spec.Seed = &v1alpha1.Seed{Revision: "r"}
	assert.Empty(t, tuning.Decide(w).Status.UndoneAt)
}

func TestAnUndoThatCannotBeReadDoesNothing(t *testing.T) {
	w := askedToUndo(t, "yesterday", running("web-1", sizeOf(100, 0, 512, 1024)))
	d := tuning.Decide(w)
	assert.Empty(t, d.Writes, "neither undone nor resized")
	assert.Empty(t, d.Status.UndoneAt)
	c := condition(t, d)
	assert.Equal(t, tuning.ReasonBadUndo, c.Reason)
	assert.Equal(t, `the annotation attune.io/undo of Deployment/web is "yesterday", which is not a time such as 2026-01-31T15:04:05Z: attune restores and resizes nothing. Run kubectl attune undo or kubectl attune resume`, c.Message)
	assert.Equal(t, []string{"Warning ResizeSkipped " + c.Message}, told(d))
	w.Rec.Status = d.Status
	assert.Empty(t, told(tuning.Decide(w)), "said once")
}

func TestAnUndoTakesBackWhatIsUnderWay(t *testing.T) {
	pod := running("web-1", seedSize)
	pod.Generation, pod.Status.ObservedGeneration = 2, 2
	w := askedToUndo(t, "2026-03-01T11:59:00Z", pod)
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{{
		PodUID: pod.UID, PodName: pod.Name, Phase: v1alpha1.RecordWatching, Generation: 2, TemplateHash: "abc",
		WrittenAt: metav1.NewTime(now.Add(-2 * time.Minute)), WatchUntil: &metav1.Time{Time: now.Add(time.Minute)},
		Prior:   []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(300, 0, 300, 600))}},
		Desired: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(seedSize)}},
	}}
	d := tuning.Decide(w)
	require.Len(t, d.Writes, 1)
	assert.Equal(t, sizeOf(300, 0, 300, 600), d.Writes[0].Plan.Moves[0].To)
	require.Len(t, d.Status.Records, 1)
	assert.Equal(t, v1alpha1.RecordWithdrawing, d.Status.Records[0].Phase)
	assert.Equal(t, lifecycle.ReasonUndo, d.Status.Records[0].Reason)
}

// The undo waits for a refusal that a user can lift, and reports one that the platform never lifts.
func TestWhatAnUndoWaitsFor(t *testing.T) {
	w := askedToUndo(t, "2026-03-01T11:59:00Z", running("web-1", seedSize))
	w.Workload.Annotations[v1alpha1.SkipAnnotation] = "true"
	d := tuning.Decide(w)
	assert.Empty(t, d.Writes)
	assert.Empty(t, d.Status.UndoneAt)
	assert.Contains(t, condition(t, d).Message, "1 pods wait: pod web-1: the workload has the annotation attune.io/skip")

	alone := running("web-1", recommender.Size{})
	w = askedToUndo(t, "2026-03-01T11:59:00Z", alone)
	d = tuning.Decide(w)
	assert.NotEmpty(t, d.Status.UndoneAt)
	assert.Contains(t, told(d)[0], "Warning ResizeSkipped Cannot restore the original resources of pod web-1: BestEffort:")
}
