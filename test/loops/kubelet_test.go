package loops

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/kubelet"
)

// What the played kubelet does with resizes that nobody of ours asked for: the rest relies on it.

// ask resizes a pod's only container.
func (w *world) ask(name, resources string) error {
	w.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"app","resources":%s}]}}`, resources)
	return w.direct.SubResource("resize").Patch(w.t.Context(), w.named(name), client.RawPatch(types.StrategicMergePatchType, []byte(patch)))
}

func requests(cpu string) string { return fmt.Sprintf(`{"requests":{"cpu":%q}}`, cpu) }

func TestPlayedKubeletKeepsItsLedgers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{CPU: "4"})
	w.statefulSet("db", 3, w.app("cpu=1,memory=100Mi", ""))
	w.startNewPods()
	require.NoError(t, w.ask("db-0", requests("3500m")))
	w.settle()
	require.NoError(t, w.ask("db-1", requests("1500m")))
	w.settle()
	first := w.named("db-0")
	require.True(t, resizeCondition(first, corev1.PodResizePending, corev1.PodReasonDeferred))
	assert.Equal(t, first.Generation, first.Status.ObservedGeneration)
	status := first.Status.ContainerStatuses[0]
	assert.Equal(t, "1", status.AllocatedResources.Cpu().String(), "what is asked for is not allocated")

	// What waits on one pod takes nothing from another; allocated shows before it is carried out.
	second := w.named("db-1")
	status = second.Status.ContainerStatuses[0]
	require.True(t, resizeCondition(second, corev1.PodResizeInProgress, ""))
	assert.Equal(t, "1500m", status.AllocatedResources.Cpu().String())
	assert.Equal(t, "1", status.Resources.Requests.Cpu().String())
	w.run(2*time.Second, time.Second)
	running := runs(w.named("db-1"))
	assert.Equal(t, "1500m", running.Requests.Cpu().String())
	assert.False(t, resizeCondition(w.named("db-1"), corev1.PodResizeInProgress, ""))

	// Room that a neighbour frees goes to who waits, without being asked.
	require.NoError(t, w.ask("db-1", requests("100m")))
	require.NoError(t, w.ask("db-2", requests("100m")))
	w.run(time.Minute, time.Second)
	running = runs(w.named("db-0"))
	assert.Equal(t, "3500m", running.Requests.Cpu().String())

	err := w.ask("db-0", requests("5"))
	require.ErrorContains(t, err, "didn't have enough allocatable resources", "the API server itself")
}

func TestPlayedKubeletRefusesALimitBelowUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.memory["app"] = 300
	w.statefulSet("db", 1, w.app("cpu=1,memory=100Mi", "memory=512Mi"))
	w.startNewPods()
	limits := func(mib int) string { return fmt.Sprintf(`{"limits":{"memory":"%dMi"}}`, mib) }
	require.NoError(t, w.ask("db-0", limits(200)))
	w.run(30*time.Second, time.Second)
	pod := w.named("db-0")
	require.True(t, resizeCondition(pod, corev1.PodResizeInProgress, corev1.PodReasonError))
	running := runs(pod)
	assert.Equal(t, "512Mi", running.Limits.Memory().String())
	assert.Greater(t, len(w.node.Failures), 1, "it tries again")

	// A crash now starts it with what is allocated, and the kernel kills it there.
	w.node.Crash(pod, "app", w.clock.Now())
	w.run(10*time.Second, time.Second)
	running = runs(w.named("db-0"))
	assert.Equal(t, "200Mi", running.Limits.Memory().String())
	w.run(time.Second, time.Second)
	ended := w.named("db-0").Status.ContainerStatuses[0].LastTerminationState.Terminated
	require.NotNil(t, ended)
	assert.Equal(t, "OOMKilled", ended.Reason)
	require.NoError(t, w.ask("db-0", limits(512)))
	w.run(30*time.Second, time.Second)
	assert.False(t, resizeCondition(w.named("db-0"), corev1.PodResizeInProgress, ""))
	before := restarts(w.named("db-0"))
	w.run(5*time.Minute, 5*time.Second)
	assert.Equal(t, before, restarts(w.named("db-0")))
}

// A kubelet that starts again looks as if all had just begun, and decides about what was infeasible anew.
func TestPlayedKubeletStartsAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{Minor: 33, CPU: "4"})
	w.statefulSet("db", 1, w.app("cpu=1,memory=100Mi", ""))
	w.startNewPods()
	w.node.Faults.Taken = 3000
	require.NoError(t, w.ask("db-0", requests("2")))
	w.settle()
	since := func() time.Time {
		for _, c := range w.named("db-0").Status.Conditions {
			if c.Type == corev1.PodResizePending {
				return c.LastTransitionTime.Time
			}
		}
		return time.Time{}
	}
	deferred := w.clock.Now()
	require.True(t, deferred.Equal(since()))
	assert.Zero(t, w.named("db-0").Status.ObservedGeneration, "1.33 reports none")
	w.run(10*time.Minute, time.Minute)
	require.True(t, deferred.Equal(since()), "trying again is no transition")
	require.NoError(t, w.node.Stop(t.Context()))
	require.NoError(t, w.node.Start(t.Context(), w.clock.Now()))
	w.settle()
	assert.True(t, w.clock.Now().Equal(since()))
}
