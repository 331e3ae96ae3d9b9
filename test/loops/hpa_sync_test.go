package loops

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender/replicas"
	"attune.io/attune/test/kubelet"
)

// hpaSync is how often HPAs are evaluated.
const hpaSync = 15 * time.Second

// exposure is how long pods requested more of a resource than their node had allocated, in spells.
type exposure struct {
	resource corev1.ResourceName
	since    map[string]time.Time
	spells   []time.Duration
}

// watchExposure looks at all pods after each resize that the loops send, and whenever the test does.
func (w *world) watchExposure(resource corev1.ResourceName) (*exposure, func() bool) {
	e := &exposure{resource: resource, since: map[string]time.Time{}}
	look := func() bool {
		for _, pod := range w.pods() {
			if len(pod.Status.ContainerStatuses) == 0 {
				continue
			}
			asked, has := pod.Spec.Containers[0].Resources.Requests[resource], pod.Status.ContainerStatuses[0].AllocatedResources[resource]
			since, exposed := e.since[pod.Name]
			switch ahead := asked.Cmp(has) > 0; {
			case ahead && !exposed:
				e.since[pod.Name] = w.clock.Now()
			case !ahead && exposed:
				delete(e.since, pod.Name)
				e.spells = append(e.spells, w.clock.Since(since))
			}
		}
		return true
	}
	w.resize = func(patch func() error) error {
		err := patch()
		look()
		return err
	}
	return e, look
}

// assertShort: no pod requested for a whole sync period what it had not, and none does now.
func (e *exposure) assertShort(t *testing.T) {
	t.Helper()
	assert.Empty(t, e.since)
	assert.NotEmpty(t, e.spells, "or nothing was tried")
	for _, spell := range e.spells {
		assert.Less(t, spell, hpaSync)
	}
}

const deferring = "The node had condition: [DiskPressure]. "

// A Guaranteed pod below an HPA on memory is OOM-killed, and its node defers the raise, or does not carry it out in time. The
// HPA divides by the request of the spec, so the raise is withdrawn before the HPA is evaluated twice, and tried again less
// and less often.
func TestHPASyncWithdrawsARaiseAfterAnOOMKill(t *testing.T) {
	t.Parallel()
	for name, node := range map[string]kubelet.Options{"deferred": {}, "carried out too late": {ActuateAfter: 5 * time.Minute}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, node)
			w.autoscalers = realHPAs{w.direct}
			w.wire()
			w.usage.of["app"] = used{CPU: 0.4, Memory: 500}
			w.memory["app"] = 400
			w.deployment("web", 1, w.app("cpu=500m,memory=512Mi", "cpu=500m,memory=512Mi"))
			w.startNewPods()
			hpa := cpuHPA(w.namespace, "web")
			hpa.Spec.Metrics[0].Resource.Name = "memory"
			require.NoError(t, w.direct.Create(t.Context(), hpa))
			w.auto("")
			w.run(10*time.Minute, time.Minute)
			require.Equal(t, int64(512), memoryRequest(w.pod()))
			if node.ActuateAfter == 0 {
				w.node.Faults.Rejects = deferring
			}
			var asked []time.Time
			var spells []time.Duration
			w.resize = func(patch func() error) error {
				err := patch()
				if memoryRequest(w.pod()) > 512 {
					asked = append(asked, w.clock.Now())
				} else {
					spells = append(spells, w.clock.Since(asked[len(asked)-1]))
				}
				return err
			}
			w.holds = func(pod *corev1.Pod, _ string) (int64, bool) { return 600, restarts(pod) == 0 }
			w.run(3*time.Hour, 5*time.Second)
			assert.Equal(t, int64(512), memoryRequest(w.pod()))
			assert.Contains(t, results(w.recommendation()), "Withdrawn HPASyncPeriod")
			require.Len(t, spells, len(asked))
			for _, spell := range spells {
				assert.Less(t, spell, hpaSync)
			}
			require.Len(t, asked, 5, "%v", sinceFirst(asked))
			for i, after := range []time.Duration{10, 30, 70, 150} {
				assert.InDelta(t, after*time.Minute, sinceFirst(asked)[i+1], float64(time.Minute))
			}
			w.node.Faults.Rejects = ""
			if node.ActuateAfter == 0 {
				w.until(3*time.Hour, "it is raised once the node has room", func() bool { return memoryRequest(w.pod()) > 512 })
			}
		})
	}
}

// A raise within the range that keeps the number of replicas (Keep) waits for no room either.
func TestHPASyncWithdrawsAStep(t *testing.T) {
	t.Parallel()
	w := scaledWorld(t, "cpu: {maxChangePercent: 300, hpa: Keep}", nil)
	w.usage.of["app"] = used{CPU: 1.5, Memory: 200}
	w.node.Faults.Rejects = deferring
	e, look := w.watchExposure(corev1.ResourceCPU)
	w.run(3*time.Hour, 5*time.Second, look)
	e.assertShort(t)
	assert.LessOrEqual(t, len(e.spells), 4*4, "%v", e.spells)
	assert.Equal(t, []int64{1000}, w.requests())
	assert.Contains(t, results(w.recommendation()), "Withdrawn HPASyncPeriod")
	w.node.Faults.Rejects = ""
	w.until(12*time.Hour, "all pods have it", func() bool { return w.requests()[0] > 1000 })
}

// Where the policy allows it, a pod moves to another node after its node deferred the raise twice, ten minutes apart. Until then
// the raise does not wait in the spec.
func TestHPASyncMovesPodsAfterTheSecondTime(t *testing.T) {
	t.Parallel()
	w := cramped(t, 2)
	w.autoscalers = realHPAs{w.direct}
	w.wire()
	hpa := cpuHPA(w.namespace, "web")
	require.NoError(t, w.direct.Create(t.Context(), hpa))
	w.usage.now = w.clock.Now
	w.usage.spans = map[string][]replicas.Span{" cpu": {{Ready: 2, Least: 5, Greatest: 50, LeastAt: w.clock.Now().Unix(), GreatestAt: w.clock.Now().Unix()}}}
	w.policy("all", recreate[:len(recreate)-1]+", hpa: Keep}")
	e, look := w.watchExposure(corev1.ResourceCPU)
	w.run(3*time.Hour, 10*time.Second, look)
	e.assertShort(t)
	assert.ElementsMatch(t, []string{"Withdrawn HPASyncPeriod", "Evicted Deferred", "Withdrawn HPASyncPeriod", "Evicted Deferred"}, results(w.recommendation()), w.describe())
	assert.Equal(t, []int64{1200}, w.requests())
}

// hasLess has four replicas below an HPA, one of which was lowered with Keep. Then another threshold makes the range void, so
// that no further pod is lowered, and the node has no room any more.
func hasLess(t *testing.T) (w *world, lowered string) {
	w = scaledWorld(t, fmt.Sprintf(keepCPU, "Keep"), func(w *world) []corev1.Container {
		return []corev1.Container{w.app("cpu=1,memory=512Mi", "cpu=1200m,memory=1Gi")}
	})
	w.until(6*time.Hour, "the first pod is resized", func() bool { return len(w.requests()) == 2 })
	hpa := minFour(w.namespace, "web")
	require.NoError(t, w.direct.Get(t.Context(), client.ObjectKeyFromObject(hpa), hpa))
	hpa.Spec.Metrics[0].Resource.Target.AverageUtilization = ptr.To[int32](20)
	require.NoError(t, w.direct.Update(t.Context(), hpa))
	pods := w.pods()
	i := slices.IndexFunc(pods, func(pod corev1.Pod) bool { return cpuRequest(&pod) < 1000 })
	return w, pods[i].Name
}

// takeRoom leaves so much CPU less than the pods request, in millicores.
func (w *world) takeRoom(less int64) {
	node := &corev1.Node{}
	require.NoError(w.t, w.direct.Get(w.t.Context(), client.ObjectKey{Name: w.namespace}, node))
	free := node.Status.Allocatable.Cpu().MilliValue()
	for _, pod := range w.pods() {
		free -= cpuRequest(&pod)
	}
	w.node.Faults.Taken = free - less
}

// An undo finds no room: the requests do not wait in the spec, and the limits, which need no room, are restored at once. The
// requests follow when there is room.
func TestHPASyncUndoWithoutRoom(t *testing.T) {
	t.Parallel()
	w, lowered := hasLess(t)
	w.until(time.Hour, "the observation is over", w.idle)
	w.takeRoom(0)
	less := cpuRequest(w.named(lowered))
	w.annotate(map[string]string{v1alpha1.UndoAnnotation: "2026-01-01T00:00:00Z"})
	e, look := w.watchExposure(corev1.ResourceCPU)
	w.run(2*time.Hour, 5*time.Second, look)
	e.assertShort(t)
	assert.LessOrEqual(t, len(e.spells), 6, "%v", e.spells)
	limits := runs(w.named(lowered)).Limits
	assert.Equal(t, "1200m", limits.Cpu().String())
	assert.Equal(t, less, cpuRequest(w.named(lowered)))
	assert.Empty(t, w.recommendation().Status.UndoneAt)
	w.node.Faults.Taken = 0
	w.until(4*time.Hour, "undone", func() bool { return w.recommendation().Status.UndoneAt != "" })
	assert.Equal(t, []int64{1000}, w.requests())
}

// A revert finds no room: the pod has its limits again at once, and its request is what its node allocated, so that the HPA
// divides by what the pod has. The revert goes on, and is complete when there is room.
func TestHPASyncRevertWithoutRoom(t *testing.T) {
	t.Parallel()
	w, lowered := hasLess(t)
	w.until(time.Hour, "it is observed", func() bool { return w.watched() == lowered })
	less := cpuRequest(w.named(lowered))
	w.takeRoom(0)
	w.ready = func(pod *corev1.Pod) bool { return pod.Name != lowered || runsCPU(pod) == 0 || runsCPU(pod) >= 1000 }
	e, look := w.watchExposure(corev1.ResourceCPU)
	w.run(90*time.Minute, 5*time.Second, look)
	e.assertShort(t)
	assert.LessOrEqual(t, len(e.spells), 19, "%v", e.spells)
	limits := runs(w.named(lowered)).Limits
	assert.Equal(t, "1200m", limits.Cpu().String())
	assert.Equal(t, less, cpuRequest(w.named(lowered)))
	assert.False(t, w.idle(), "the revert goes on")
	w.node.Faults.Taken = 0
	w.until(30*time.Minute, "reverted", func() bool { return w.idle() && w.requests()[0] == 1000 })
	assert.Contains(t, results(w.recommendation()), "Reverted notready")
}
