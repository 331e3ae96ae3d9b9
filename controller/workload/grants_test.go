package workload

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// sharing is the world of a Deployment whose pods' nodes grant each of them a size.
func sharing(t *testing.T, granted recommender.Size, pods ...*corev1.Pod) world {
	t.Helper()
	w := seen(t, sizeOf(500, 0, 200, 400), pods...)
	w.rec.Spec.Strategy, w.settings.Strategy = v1alpha1.StrategyNode, v1alpha1.StrategyNode
	w.rec.Spec.Containers = []v1alpha1.ContainerTarget{{Name: "app", Demand: &v1alpha1.ContainerDemand{MemoryMax7d: ptr.To(resource.MustParse("200Mi"))}}}
	w.granted, w.waits = map[types.UID]board.Pod{}, map[types.UID]time.Time{}
	for _, pod := range pods {
		w.granted[pod.UID] = board.Pod{Sizes: map[string]recommender.Size{"app": granted}}
	}
	return w
}

// There are records for a part of the pods at a time; the others keep their places, and are held by nothing.
func TestPodsThatWaitKeepTheirPlaces(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 120 {
		pods = append(pods, running(fmt.Sprintf("web-%03d", i), sizeOf(500, 0, 200, 400)))
	}
	w := sharing(t, sizeOf(400, 0, 0, 0), pods...)
	last := pods[119]
	w.waits[last.UID] = now.Add(-2 * time.Hour)
	d := decide(w)
	began := len(d.status.Records)
	require.Greater(t, began, 30)
	assert.True(t, hasRecord(d.status.Records, last), "who waits for longest goes first")
	waits := d.stillWaiting(w)
	assert.Len(t, waits, 120-began)
	assert.NotContains(t, waits, last.UID)
	assert.Len(t, d.held, began, "those that are being resized")

	// A minute later they wait since then, also where their nodes want nothing of them for the moment.
	w.rec.Status, w.waits, w.now = d.status, waits, now.Add(time.Minute)
	w.granted = nil
	d = decide(w)
	assert.Equal(t, waits, d.stillWaiting(w))
}

// A raise or a lowering that restarts the container is none of a grant's: memory that creeps up restarts nobody. What
// the kernel killed is given more all the same, also where its node grants nothing.
func TestGrantsRestartNothing(t *testing.T) {
	pod := running("web-1", sizeOf(500, 0, 200, 400))
	pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	for memory := recommender.Amount(200); memory < 220; memory++ {
		d := decide(sharing(t, sizeOf(0, 0, memory, 2*memory), pod))
		assert.Empty(t, d.writes, "%d MiB", memory)
	}
	d := decide(sharing(t, sizeOf(600, 0, 219, 438), pod))
	require.Len(t, d.writes, 1)
	assert.False(t, d.writes[0].plan.Restarts)
	assert.Equal(t, sizeOf(600, 0, 200, 400), d.writes[0].plan.Moves[0].To)

	endedBefore(pod, "OOMKilled", 1, time.Minute)
	w := sharing(t, recommender.Size{}, pod, running("web-2", sizeOf(500, 0, 200, 400)))
	d = decide(w)
	require.Len(t, d.writes, 1)
	assert.True(t, d.writes[0].plan.Urgent)
	assert.Equal(t, sizeOf(500, 0, 520, 1040), d.writes[0].plan.Moves[0].To, "1.3 times the limit that killed, and twice that")
}

// What passes by itself freezes a pod; what does not keeps it from being evicted as well.
func TestWhatHoldsAPod(t *testing.T) {
	for name, c := range map[string]struct {
		edit        func(*world)
		held, stays string
	}{
		"nothing":      {func(*world) {}, "", ""},
		"a rollout":    {func(w *world) { w.workload.Rollout.InProgress, w.workload.Rollout.Reason = true, "1 of 2" }, resize.ReasonRolloutInProgress, ""},
		"a pause":      {func(w *world) { w.workload.Annotations[v1alpha1.PausedAnnotation] = "true" }, resize.ReasonWorkloadPaused, resize.ReasonWorkloadPaused},
		"a skip":       {func(w *world) { w.workload.Annotations[v1alpha1.SkipAnnotation] = "true" }, resize.ReasonSkipped, resize.ReasonSkipped},
		"too large":    {func(w *world) { w.workload.Annotations[workload.TooLargeAnnotation] = "true" }, resize.ReasonTooLarge, resize.ReasonTooLarge},
		"another mode": {func(w *world) { w.settings.Resize.Mode = v1alpha1.UpdateInitial }, resize.ReasonMode, resize.ReasonMode},
	} {
		t.Run(name, func(t *testing.T) {
			w := sharing(t, recommender.Size{}, running("web-1", sizeOf(500, 0, 200, 400)), running("web-2", sizeOf(500, 0, 200, 400)))
			c.edit(&w)
			d := decide(w)
			assert.Equal(t, c.held, d.held["web-1"])
			assert.Equal(t, c.stays, d.stays["web-1"])
		})
	}
}
