package loops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/kubelet"
)

// annotate writes annotations on Deployment web; an empty value takes one away.
func (w *world) annotate(annotations map[string]string) {
	w.t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(w.t, w.direct.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: "web"}, d))
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	for name, value := range annotations {
		d.Annotations[name] = value
		if value == "" {
			delete(d.Annotations, name)
		}
	}
	require.NoError(w.t, w.direct.Update(w.t.Context(), d))
}

// Pods in all stages, sized, watched and not yet begun, get their original resources back in place. It is
// done once; new pods are as their template says; resume lets attune begin again.
func TestLoopsUndo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.1, Memory: 200}
	w.memory["app"] = 100
	w.deployment("web", 4, w.app("cpu=500m,memory=512Mi", "cpu=1,memory=1Gi"))
	w.startNewPods()
	original := w.pods()[0].Spec.Containers[0].Resources
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 1m, safetyObservationPeriod: 5m}\ncpu: {maxChangePercent: 90}\n"+lowersMemory)
	changed := func() (n int) {
		for _, pod := range w.pods() {
			if pod.Generation > 1 {
				n++
			}
		}
		return n
	}
	w.until(2*time.Hour, "one pod is kept, and the next one is watched", func() bool { return changed() >= 2 && !w.idle() })
	uids := map[types.UID]bool{}
	for _, pod := range w.pods() {
		uids[pod.UID] = true
	}

	w.annotate(map[string]string{v1alpha1.UndoAnnotation: "2026-01-01T00:00:00Z"})
	w.until(10*time.Minute, "undone", func() bool { return w.recommendation().Status.UndoneAt == "2026-01-01T00:00:00Z" })
	for _, pod := range w.pods() {
		assert.True(t, uids[pod.UID])
		assert.Zero(t, restarts(&pod))
		assert.Equal(t, original, pod.Spec.Containers[0].Resources, pod.Name)
		assert.Equal(t, original, runs(&pod), pod.Name)
	}
	assert.Contains(t, results(w.recommendation()), "Undone Undo")
	assert.True(t, w.idle())
	assert.Empty(t, w.recommendation().Finalizers)
	assert.Equal(t, "Undone", w.condition("all", v1alpha1.ConditionResizeBlocked).Reason)

	// A person resizes one of them by hand, and scales up: neither is touched.
	w.theirs(&w.pods()[0], "700m")
	w.scale("web", 5)
	w.writes = 0
	w.run(12*time.Hour, time.Hour)
	sizes := map[int64]int{}
	for _, pod := range w.pods() {
		sizes[cpuRequest(&pod)]++
	}
	assert.Equal(t, map[int64]int{700: 1, 500: 4}, sizes)

	// kubectl attune resume ends the undo, and the pause that the person's resize began.
	w.annotate(map[string]string{v1alpha1.UndoAnnotation: "", v1alpha1.ResumedAnnotation: "2026-01-01T00:00:00Z"})
	w.until(3*time.Hour, "sized again", func() bool { return cpuRequest(&w.pods()[1]) < 500 || cpuRequest(&w.pods()[2]) < 500 })
}

// crowdedOut is a world whose pod had 2 CPUs, was given 120m, and is to be put back where there is no room for 2 any more.
func crowdedOut(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, kubelet.Options{CPU: "4"})
	w.usage.of["app"] = used{CPU: 0.1, Memory: 200}
	w.deployment("web", 1, w.app("cpu=2,memory=512Mi", ""))
	w.startNewPods()
	w.auto("cpu: {maxChangePercent: 95}")
	w.until(time.Hour, "sized", func() bool { return w.idle() && cpuRequest(w.pod()) == 120 })
	w.node.Faults.Taken = 3000
	w.annotate(map[string]string{v1alpha1.UndoAnnotation: "2026-01-01T00:00:00Z"})
	return w
}

// There is no room for the original size: it is asked for as long as it takes, and taken when there is some.
func TestLoopsUndoWaitsForRoom(t *testing.T) {
	t.Parallel()
	w := crowdedOut(t)
	w.run(3*time.Hour, 10*time.Minute)
	pod := w.pod()
	assert.True(t, resizeCondition(pod, corev1.PodResizePending, corev1.PodReasonDeferred))
	assert.Equal(t, int64(2000), cpuRequest(pod))
	assert.Empty(t, w.recommendation().Status.UndoneAt)

	w.node.Faults.Taken = 0
	w.until(10*time.Minute, "undone", func() bool { return w.recommendation().Status.UndoneAt != "" })
	running := runs(w.pod())
	assert.Equal(t, "2", running.Requests.Cpu().String())
}

// Nobody wants the undo any more while it still waits: it is taken back, and holds no room.
func TestLoopsResumeAnUndoThatWaits(t *testing.T) {
	t.Parallel()
	w := crowdedOut(t)
	w.run(10*time.Minute, time.Minute)
	require.Equal(t, int64(2000), cpuRequest(w.pod()))
	w.annotate(map[string]string{v1alpha1.UndoAnnotation: ""})
	w.until(5*time.Minute, "taken back", func() bool { return w.idle() })
	assert.Equal(t, int64(120), cpuRequest(w.pod()))
	assert.False(t, resizeCondition(w.pod(), corev1.PodResizePending, ""))
}

// Another writer changed what attune had set: the workload is left alone, and says so with the writer's name and the
// command that ends it, until a person resumes it.
func TestLoopsResumeEndsTheirOwnPause(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	w.auto("cpu: {maxChangePercent: 300}")
	theirs := 0
	w.run(6*time.Hour, time.Minute, func() bool {
		if pod := w.pod(); cpuRequest(pod) == 1200 && !w.idle() {
			w.theirs(pod, "700m")
			theirs++
		}
		return true
	})
	assert.Equal(t, 1, theirs)
	assert.Equal(t, int64(700), cpuRequest(w.pod()))
	rec := w.recommendation()
	require.NotNil(t, rec.Status.Paused, "%s", w.describe())
	assert.Equal(t, v1alpha1.PhasePaused, rec.Status.Phase)
	blocked := w.condition("all", v1alpha1.ConditionResizeBlocked)
	assert.Equal(t, "WorkloadPaused", blocked.Reason)
	assert.Contains(t, blocked.Message, "web: paused since")
	assert.Contains(t, blocked.Message, "kubectl attune resume deployment/web")
	assert.True(t, w.told.has(`Warning ResizeSkipped Paused: field manager "database-operator" resized pod`), w.told.lines)

	w.annotate(map[string]string{v1alpha1.ResumedAnnotation: "2026-01-01T00:00:00Z"})
	w.until(10*time.Minute, "resized again", func() bool { return cpuRequest(w.pod()) == 1200 })
	w.until(10*time.Minute, "kept", w.idle)
	assert.Nil(t, w.recommendation().Status.Paused)
}
