package tuning_test

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
	"attune.io/attune/tuning"
)

// sharing returns a Deployment whose pods' nodes grant each pod a size.
func sharing(t *testing.T, granted recommender.Size, pods ...*corev1.Pod) tuning.View {
	t.Helper()
	w := seen(t, sizeOf(500, 0, 200, 400), pods...)
	w.Rec.Spec.Strategy, w.Policy.Settings.Strategy = v1alpha1.StrategyNode, v1alpha1.StrategyNode
	w.Rec.Spec.Containers = []v1alpha1.ContainerTarget{{Name: "app", Demand: &v1alpha1.ContainerDemand{MemoryMax7d: ptr.To(resource.MustParse("200Mi"))}}}
	w.Grants, w.Past.WaitingSince = map[types.UID]board.Pod{}, map[types.UID]time.Time{}
	for _, pod := range pods {
		w.Grants[pod.UID] = board.Pod{Sizes: map[string]recommender.Size{"app": granted}}
	}
	return w
}

// There are records for some of the pods at a time. The other pods keep their place and are not blocked.
func TestPodsThatWaitKeepTheirPlaces(t *testing.T) {
	var pods []*corev1.Pod
	for i := range 120 {
		pods = append(pods, running(fmt.Sprintf("web-%03d", i), sizeOf(500, 0, 200, 400)))
	}
	w := sharing(t, sizeOf(400, 0, 0, 0), pods...)
	last := pods[119]
	w.Past.WaitingSince[last.UID] = now.Add(-2 * time.Hour)
	d := tuning.Decide(w)
	began := len(d.Status.Records)
	require.Greater(t, began, 30)
	assert.True(t, tuning.RecordOf(d.Status, last) != nil, "who waits for longest goes first")
	waits := d.ByNode.WaitingSince
	assert.Len(t, waits, 120-began)
	assert.NotContains(t, waits, last.UID)
	assert.Len(t, d.ByNode.Held, began, "those that are being resized")

	// A minute later their waiting time continues, also while their nodes grant nothing.
	w.Rec.Status, w.Past.WaitingSince, w.Now = d.Status, waits, now.Add(time.Minute)
	w.Grants = nil
	d = tuning.Decide(w)
	assert.Equal(t, waits, d.ByNode.WaitingSince)
}

// A grant never restarts a container, so a slow memory increase restarts no pod. An OOM-killed container still gets
// more memory, also if its node grants nothing.
func TestGrantsRestartNothing(t *testing.T) {
	pod := running("web-1", sizeOf(500, 0, 200, 400))
	pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	for memory := recommender.Amount(200); memory < 220; memory++ {
		d := tuning.Decide(sharing(t, sizeOf(0, 0, memory, 2*memory), pod))
		assert.Empty(t, d.Writes, "%d MiB", memory)
	}
	d := tuning.Decide(sharing(t, sizeOf(600, 0, 219, 438), pod))
	require.Len(t, d.Writes, 1)
	assert.False(t, d.Writes[0].Plan.Restarts)
	assert.Equal(t, sizeOf(600, 0, 200, 400), d.Writes[0].Plan.Moves[0].To)

	endedBefore(pod, "OOMKilled", 1, time.Minute)
	w := sharing(t, recommender.Size{}, pod, running("web-2", sizeOf(500, 0, 200, 400)))
	d = tuning.Decide(w)
	require.Len(t, d.Writes, 1)
	assert.True(t, d.Writes[0].Plan.Urgent)
	assert.Equal(t, sizeOf(500, 0, 200, 1040), d.Writes[0].Plan.Moves[0].To, "twice 1.3 times the limit that killed; the request stays")
}

// A transient reason freezes a pod. Any other reason also makes it not evictable.
func TestWhatHoldsAPod(t *testing.T) {
	for name, c := range map[string]struct {
		edit        func(*tuning.View)
		held, stays string
	}{
		"nothing":      {func(*tuning.View) {}, "", ""},
		"a rollout":    {func(w *tuning.View) { w.Workload.Rollout.InProgress, w.Workload.Rollout.Reason = true, "1 of 2" }, resize.ReasonRolloutInProgress, ""},
		"a pause":      {func(w *tuning.View) { w.Workload.Annotations[v1alpha1.PausedAnnotation] = "true" }, resize.ReasonWorkloadPaused, resize.ReasonWorkloadPaused},
		"a skip":       {func(w *tuning.View) { w.Workload.Annotations[v1alpha1.SkipAnnotation] = "true" }, resize.ReasonSkipped, resize.ReasonSkipped},
		"too large":    {func(w *tuning.View) { w.Workload.Annotations[workload.TooLargeAnnotation] = "true" }, resize.ReasonTooLarge, resize.ReasonTooLarge},
		"another mode": {func(w *tuning.View) { w.Policy.Settings.Resize.Mode = v1alpha1.UpdateInitial }, resize.ReasonMode, resize.ReasonMode},
	} {
		t.Run(name, func(t *testing.T) {
			w := sharing(t, recommender.Size{}, running("web-1", sizeOf(500, 0, 200, 400)), running("web-2", sizeOf(500, 0, 200, 400)))
			c.edit(&w)
			d := tuning.Decide(w)
			assert.Equal(t, c.held, d.ByNode.Held["web-1"])
			assert.Equal(t, c.stays, d.ByNode.NotEvictable["web-1"])
		})
	}
}
