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
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// overruled returns a view in which another field manager has just changed a size set by attune.
func overruled(t *testing.T) tuning.View {
	t.Helper()
	pod := running("web-1", sizeOf(300, 0, 512, 1024))
	pod.Generation, pod.Status.ObservedGeneration = 3, 3
	w := heading(seen(t, template, pod), template)
	w.Rec.Status.Records = []v1alpha1.ResizeRecord{{
		PodUID: pod.UID, PodName: pod.Name, Phase: v1alpha1.RecordApplied, Generation: 2, TemplateHash: "abc", WrittenAt: metav1.NewTime(now.Add(-time.Minute)),
		Prior:   []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(template)}},
		Desired: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(seedSize)}},
	}}
	return w
}

func TestTwoSupersessionsPauseAndSaySo(t *testing.T) {
	w := overruled(t)
	w.Workload.Annotations[v1alpha1.ResumedAnnotation] = "2026-02-01T00:00:00Z"
	first := tuning.Decide(w)
	assert.Equal(t, int32(1), first.Status.Supersessions)
	assert.Nil(t, first.Status.Paused)

	again := overruled(t)
	again.Workload.Annotations = w.Workload.Annotations
	again.Rec.Status.Supersessions, again.Rec.Status.LastSuperseded = 1, &metav1.Time{Time: now.Add(-time.Hour)}
	d := tuning.Decide(again)
	require.NotNil(t, d.Status.Paused)
	assert.Equal(t, "2026-02-01T00:00:00Z", d.Status.Paused.Resumed)
	c := condition(t, d)
	assert.Equal(t, resize.ReasonWorkloadPaused, c.Reason, "whether or not there is anything to resize")
	assert.Contains(t, c.Message, "kubectl attune resume deployment/web -n shop")
	assert.Contains(t, c.Message, "attune tries again at 2026-03-02T12:00:00Z")
	assert.Len(t, told(d), 2)
	assert.Empty(t, d.Writes)

	forgotten := overruled(t)
	forgotten.Rec.Status.Supersessions, forgotten.Rec.Status.LastSuperseded = 1, &metav1.Time{Time: now.Add(-8 * 24 * time.Hour)}
	assert.Nil(t, tuning.Decide(forgotten).Status.Paused, "the last time is more than a week ago")
}

func TestWhatEndsTheLoopsOwnPause(t *testing.T) {
	paused := func(since time.Duration, resumed string) tuning.Decision {
		w := heading(seen(t, template, running("web-1", sizeOf(4000, 0, 512, 1024))), template)
		w.Workload.Annotations[v1alpha1.ResumedAnnotation] = resumed
		w.Rec.Status.Supersessions = 2
		w.Rec.Status.Paused = &v1alpha1.PausedState{Since: metav1.NewTime(now.Add(-since)), Reason: "twice", Resumed: "before"}
		return tuning.Decide(w)
	}
	goesOn := paused(time.Hour, "before")
	assert.NotNil(t, goesOn.Status.Paused)
	assert.Equal(t, 23*time.Hour, goesOn.After)
	assert.Empty(t, goesOn.Writes)
	for name, ended := range map[string]tuning.Decision{"a person": paused(time.Hour, "2026-03-01T11:00:00Z"), "a day": paused(24*time.Hour, "before")} {
		assert.Nil(t, ended.Status.Paused, name)
		assert.Zero(t, ended.Status.Supersessions, name)
		assert.Len(t, ended.Writes, 1, name)
	}
}

func TestAnotherWriterPausesWithItsName(t *testing.T) {
	resized := func(manager string, ago time.Duration) *corev1.Pod {
		pod := running("web-1", sizeOf(4000, 0, 512, 1024))
		pod.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: manager, Subresource: "resize", Time: &metav1.Time{Time: now.Add(-ago)}}}
		return pod
	}
	decide := func(pod *corev1.Pod, change func(*tuning.View)) tuning.Decision {
		w := heading(seen(t, template, pod), template)
		change(&w)
		return tuning.Decide(w)
	}
	as := func(*tuning.View) {}

	held := decide(resized("cnpg", time.Minute), as)
	require.NotNil(t, held.Status.Paused)
	assert.Contains(t, held.Status.Paused.Reason, `field manager "cnpg" resized pod web-1 in place at 2026-03-01T11:59:00Z. Let only one of the two size this workload`)
	assert.Equal(t, resize.ReasonWorkloadPaused, condition(t, held).Reason)
	assert.Contains(t, condition(t, held).Message, `"cnpg"`)
	assert.Empty(t, held.Writes)

	after := func(w *tuning.View) { // a user resumes the workload
		w.Rec.Status = held.Status
		w.Workload.Annotations[v1alpha1.ResumedAnnotation] = "2026-03-01T12:00:00Z"
	}
	goesOn := decide(resized("cnpg", time.Minute), after)
	assert.Nil(t, goesOn.Status.Paused, "the same write does not pause it again")
	assert.Len(t, goesOn.Writes, 1)
	ahead := decide(resized("cnpg", -time.Minute), as)
	require.NotNil(t, ahead.Status.Paused)
	assert.Nil(t, decide(resized("cnpg", -time.Minute), func(w *tuning.View) { after(w); w.Rec.Status = ahead.Status }).Status.Paused, "the API server's clock may be ahead")

	for name, other := range map[string]tuning.Decision{
		"attune itself":      decide(resized("attune", time.Minute), as),
		"an hour ago":        decide(resized("kubectl-patch", 61*time.Minute), as),
		"of 2096":            decide(resized("kubectl-patch", -70*365*24*time.Hour), as),
		"it is left alone":   decide(resized("cnpg", time.Minute), func(w *tuning.View) { w.Workload.Annotations[v1alpha1.SkipAnnotation] = "true" }),
		"its policy is gone": decide(resized("cnpg", time.Minute), func(w *tuning.View) { w.Policy.Usable = false }),
		"it was released": decide(resized("cnpg", time.Minute), func(w *tuning.View) {
			w.Rec.Spec.Mode, w.Rec.Spec.Seed, w.Rec.Spec.Containers = v1alpha1.UpdateObserve, nil, nil
		}),
		"before the last one":       decide(resized("cnpg", time.Minute/2), func(w *tuning.View) { w.Rec.Status.LastSuperseded = &metav1.Time{Time: now.Add(-time.Second)} }),
		"nothing is changed anyway": decide(resized("cnpg", time.Minute), func(w *tuning.View) { w.Policy.Settings.Resize.Mode = v1alpha1.UpdateInitial }),
	} {
		assert.Nil(t, other.Status.Paused, name)
	}
}

// A user patches two replicas with a reconcile in between. Both count as one reason, and the pause ends once.
func TestOneHandThatResizesTwoPods(t *testing.T) {
	resized := func(name string, at time.Time) *corev1.Pod {
		pod := running(name, sizeOf(4000, 0, 512, 1024))
		pod.ManagedFields = []metav1.ManagedFieldsEntry{podview.ResizedEntry("kubectl-patch", at)}
		return pod
	}
	first := tuning.Decide(heading(seen(t, template, resized("web-1", now.Add(-time.Second))), template))
	require.NotNil(t, first.Status.Paused)
	for name, c := range map[string]struct {
		later   time.Duration
		resumed string
	}{"a person resumes it": {time.Hour, "x"}, "by itself": {24 * time.Hour, ""}} {
		w := heading(seen(t, template, resized("web-1", now.Add(-time.Second)), resized("web-2", now.Add(2*time.Second))), template)
		w.Now, w.Rec.Status = now.Add(c.later), first.Status
		w.Workload.Annotations[v1alpha1.ResumedAnnotation] = c.resumed
		assert.Nil(t, tuning.Decide(w).Status.Paused, name)
	}
}

// A stored time in the future, by any clock, does not hide later resizes by other field managers.
func TestAWriterAfterATimeOfTheFuture(t *testing.T) {
	pod := running("web-1", sizeOf(4000, 0, 512, 1024))
	pod.ManagedFields = []metav1.ManagedFieldsEntry{podview.ResizedEntry("cnpg", now.Add(time.Second))}
	w := heading(seen(t, template, pod), template)
	w.Rec.Status.LastSuperseded = &metav1.Time{Time: now.Add(70 * 365 * 24 * time.Hour)}
	assert.NotNil(t, tuning.Decide(w).Status.Paused)
}

func TestOperatorsThatTakeTurnsPauseAndSaySo(t *testing.T) {
	tookOver := map[string]bool{}
	of := func(operator string, before v1alpha1.AttuneRecommendationStatus) tuning.Decision {
		w := heading(seen(t, template, running("web-1", sizeOf(4000, 0, 512, 1024))), template)
		w.Operator.Namespace, w.Rec.Status, w.Past.TookOver = operator, before, tookOver[operator]
		return tuning.Decide(w)
	}
	first := of("attune-system", v1alpha1.AttuneRecommendationStatus{})
	assert.Equal(t, "attune-system", first.Status.Operator)
	assert.Zero(t, first.Status.Supersessions, "nobody had it")
	same := of("attune-system", first.Status)
	assert.Zero(t, same.Status.Supersessions, "another process of the same release")
	moved := of("attune-other", same.Status)
	assert.Equal(t, "attune-other", moved.Status.Operator)
	assert.Zero(t, moved.Status.Supersessions, "a release may move")
	movedBack := of("attune-system", moved.Status)
	assert.Zero(t, movedBack.Status.Supersessions, "and back: this process never managed the workload")
	assert.Nil(t, movedBack.Status.Paused)

	tookOver["attune-system"], tookOver["attune-other"] = true, true
	turn := of("attune-other", movedBack.Status)
	assert.Equal(t, int32(1), turn.Status.Supersessions, "the other operator took the workload from this process")
	assert.Nil(t, turn.Status.Paused)
	back := of("attune-system", turn.Status)
	require.NotNil(t, back.Status.Paused)
	assert.Contains(t, back.Status.Paused.Reason, "the operators in namespaces attune-other and attune-system both size this workload. Uninstall one of them")
	c := condition(t, back)
	assert.Equal(t, resize.ReasonWorkloadPaused, c.Reason)
	assert.Empty(t, back.Writes)
	stays := of("attune-other", back.Status)
	assert.Equal(t, "attune-system", stays.Status.Operator, "no further turn while it is paused")
	assert.Equal(t, int32(2), stays.Status.Supersessions)
}
