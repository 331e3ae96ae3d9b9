package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// askedToUndo is a world in which a person asks for an undo; its pods had 500m and 512 MiB before attune.
func askedToUndo(t *testing.T, at string, pods ...*corev1.Pod) world {
	t.Helper()
	w := seen(t, template, pods...).heading(seedSize)
	w.workload.Annotations[v1alpha1.UndoAnnotation] = at
	w.rec.Status.Originals = []v1alpha1.Originals{{TemplateHash: "abc", Containers: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(template)}}}}
	return w
}

func (d decision) blocked(t *testing.T) metav1.Condition {
	t.Helper()
	c := meta.FindStatusCondition(d.status.Conditions, v1alpha1.ConditionResizeBlocked)
	require.NotNil(t, c)
	return *c
}

func TestAnUndoPutsEveryPodBackOnce(t *testing.T) {
	small := func(name string) *corev1.Pod { return running(name, sizeOf(200, 0, 512, 1024)) }
	w := askedToUndo(t, "2026-03-01T11:59:00Z", small("web-1"), running("web-2", template), small("web-3"))
	w.settings.Resize.Mode = v1alpha1.UpdateRecommend
	w.settings.Resize.Paused = []string{"cluster"}
	d := decide(w)
	require.Len(t, d.writes, 2, "%v", d.told())
	for i, name := range []string{"web-1", "web-3"} {
		assert.Equal(t, name, d.writes[i].plan.PodName)
		assert.Equal(t, template, d.writes[i].plan.Moves[0].To)
		assert.Equal(t, resize.WaveUndo, d.status.Records[i].Wave)
	}
	assert.Equal(t, reasonUndone, d.blocked(t).Reason)
	assert.Contains(t, d.blocked(t).Message, "2 pods are being put back")
	assert.Empty(t, d.status.UndoneAt, "not yet")

	// All of them are back: that is noted, and from then on nothing is done to a pod that somebody resizes.
	w = askedToUndo(t, "2026-03-01T11:59:00Z", running("web-1", template))
	d = decide(w)
	assert.Equal(t, "2026-03-01T11:59:00Z", d.status.UndoneAt)
	assert.Contains(t, d.told(), "Normal Undone Undone as asked for at 2026-03-01T11:59:00Z: running pods have the sizes from before attune")
	w.rec.Status = d.status
	w.pods = []*corev1.Pod{small("web-1")}
	d = decide(w)
	assert.Empty(t, d.writes)
	assert.Empty(t, d.told())
	assert.Equal(t, reasonUndone, d.blocked(t).Reason)
	assert.Contains(t, d.blocked(t).Message, "kubectl attune resume deployment/web -n shop")
	assert.Equal(t, v1alpha1.PhasePaused, d.status.Phase)

	// The same moment, written otherwise, is the same undo; another one is not.
	w.workload.Annotations[v1alpha1.UndoAnnotation] = "2026-03-01T12:59:00+01:00"
	assert.Empty(t, decide(w).writes)
	w.workload.Annotations[v1alpha1.UndoAnnotation] = "2026-03-01T11:59:01Z"
	assert.Len(t, decide(w).writes, 1)
}

// New pods must not be born with a seed when the undo is called done.
func TestAnUndoIsNotDoneWhileThereIsASeed(t *testing.T) {
	w := askedToUndo(t, "2026-03-01T11:59:00Z", running("web-1", template))
	w.rec.Spec.Seed = &v1alpha1.Seed{Revision: "r"}
	assert.Empty(t, decide(w).status.UndoneAt)
}

func TestAnUndoThatCannotBeReadDoesNothing(t *testing.T) {
	w := askedToUndo(t, "yesterday", running("web-1", sizeOf(100, 0, 512, 1024)))
	d := decide(w)
	assert.Empty(t, d.writes, "neither undone nor resized")
	assert.Empty(t, d.status.UndoneAt)
	c := d.blocked(t)
	assert.Equal(t, reasonBadUndo, c.Reason)
	assert.Equal(t, `the annotation attune.io/undo of Deployment/web is "yesterday", which is no time such as 2026-01-31T15:04:05Z: nothing is undone, and nothing is resized, until kubectl attune undo or resume writes it anew`, c.Message)
	assert.Equal(t, []string{"Warning ResizeSkipped " + c.Message}, d.told())
	w.rec.Status = d.status
	assert.Empty(t, decide(w).told(), "said once")
}

func TestAnUndoTakesBackWhatIsUnderWay(t *testing.T) {
	pod := running("web-1", seedSize)
	pod.Generation, pod.Status.ObservedGeneration = 2, 2
	w := askedToUndo(t, "2026-03-01T11:59:00Z", pod)
	w.rec.Status.Records = []v1alpha1.ResizeRecord{{
		PodUID: pod.UID, PodName: pod.Name, Phase: v1alpha1.RecordWatching, Generation: 2, TemplateHash: "abc",
		WrittenAt: metav1.NewTime(now.Add(-2 * time.Minute)), WatchUntil: &metav1.Time{Time: now.Add(time.Minute)},
		Prior:   []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(sizeOf(300, 0, 300, 600))}},
		Desired: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(seedSize)}},
	}}
	d := decide(w)
	require.Len(t, d.writes, 1)
	assert.Equal(t, sizeOf(300, 0, 300, 600), d.writes[0].plan.Moves[0].To)
	require.Len(t, d.status.Records, 1)
	assert.Equal(t, v1alpha1.RecordWithdrawing, d.status.Records[0].Phase)
	assert.Equal(t, resize.ReasonUndo, d.status.Records[0].Reason)
}

// What a person can take back is waited for; what the platform will never do is told.
func TestWhatAnUndoWaitsFor(t *testing.T) {
	w := askedToUndo(t, "2026-03-01T11:59:00Z", running("web-1", seedSize))
	w.workload.Annotations[v1alpha1.SkipAnnotation] = "true"
	d := decide(w)
	assert.Empty(t, d.writes)
	assert.Empty(t, d.status.UndoneAt)
	assert.Contains(t, d.blocked(t).Message, "1 wait: pod web-1: the workload has the annotation attune.io/skip")

	alone := running("web-1", recommender.Size{})
	w = askedToUndo(t, "2026-03-01T11:59:00Z", alone)
	d = decide(w)
	assert.NotEmpty(t, d.status.UndoneAt)
	assert.Contains(t, d.told()[0], "Warning ResizeSkipped Pod web-1 cannot be put back to its original size: BestEffort:")
}
