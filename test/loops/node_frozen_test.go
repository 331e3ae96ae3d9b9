package loops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/kubelet"
)

// fullNode is a node of 8 CPUs on which a and b, two pods each with base 1 and peak 2, need and hold the 6 that another
// pod leaves. Another node has room.
func fullNode(t *testing.T, eviction string) *world {
	t.Helper()
	w := newWorld(t, kubelet.Options{CPU: "8"})
	w.seeded = true
	w.label()
	w.workloads.Evictions = true
	w.memory["app"] = 100
	w.policy("all", "strategy: Node\nnode: {eviction: "+eviction+"}\nmemory: {allowDecrease: true}\nupdateStrategy: {type: Auto, safetyObservationPeriod: 5m}\n")
	for _, name := range []string{"a", "b"} {
		w.usage.of[name+"/app"] = used{CPU: 2, Memory: 100}
		w.usage.own[name+"-"] = used{CPU: 1, Memory: 100}
		w.deployment(name, 2, w.app("cpu=100m,memory=64Mi", ""))
	}
	w.startNewPods()
	for _, pod := range w.pods() {
		require.NoError(t, w.direct.Delete(t.Context(), &pod))
	}
	w.until(time.Hour, "everybody's base and a quarter of the reserve of 2", func() bool {
		return w.cpuOn(w.node.Name) == "a 1500, a 1500, b 1500, b 1500" && w.idle()
	})
	w.statefulSet("other", 1, w.app("cpu=2,memory=64Mi", ""))
	w.run(20*time.Minute, 5*time.Minute)
	w.addSecondNode("16")
	w.run(20*time.Minute, 5*time.Minute)
	require.Equal(t, "a 1500, a 1500, b 1500, b 1500, other 2000", w.cpuOn(w.node.Name))
	return w
}

// Where somebody needs less than before nobody goes, although the room is taken until his resize was watched, and no
// node is said to be overcommitted.
func TestNodeWithLessDemandEvictsNoPod(t *testing.T) {
	t.Parallel()
	for _, eviction := range []string{"Enabled", "Disabled"} {
		t.Run(eviction, func(t *testing.T) {
			t.Parallel()
			w := fullNode(t, eviction)
			uids := w.uids()
			w.usage.own["b-"] = used{CPU: .5, Memory: 100}
			w.run(40*time.Minute, time.Minute)
			assert.Equal(t, uids, w.uids())
			assert.Empty(t, w.evictedRows())
			assert.False(t, w.told.has("Evict"), w.told.lines)
			assert.False(t, w.told.has("NodeOvercommitted"), w.told.lines)
		})
	}
}

// A pause, a skip or a rollout of one workload moves nobody of another.
func TestNodeWithAPausedWorkloadEvictsNoPod(t *testing.T) {
	t.Parallel()
	w := fullNode(t, "Enabled")
	uids, before := w.uids(), w.cpuOn(w.node.Name)
	w.annotateWorkload("b", v1alpha1.SkipAnnotation, "true")
	w.run(30*time.Minute, time.Minute)
	assert.Equal(t, uids, w.uids())
	assert.Equal(t, before, w.cpuOn(w.node.Name), "and nothing is resized")
	assert.False(t, w.told.has("Evict"), w.told.lines)
	assert.False(t, w.told.has("NodeOvercommitted"), w.told.lines)
}

// At constant demand pods are at rest: one base that moves by a fiftieth is no reason to resize everybody.
func TestNodeComesToRest(t *testing.T) {
	t.Parallel()
	w := sharedNode(t, "16", "")
	w.threeWorkloads()
	w.until(time.Hour, "the golden sizes", func() bool { return w.held()["a"] == 2000 && w.idle() })
	w.run(30*time.Minute, 5*time.Minute)
	before := w.generations()
	w.usage.own["b-"] = used{CPU: 1.02, Memory: 100}
	w.run(3*time.Hour, 5*time.Minute)
	made := w.generations() - before
	assert.LessOrEqual(t, made, int64(3))
}

// Memory that creeps up restarts no container whose resizePolicy would: it is sized at birth alone.
func TestNodeRestartsNoContainer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{CPU: "32"})
	w.seeded = true
	w.label()
	w.memory["app"] = 200
	w.usage.of["app"] = used{CPU: .5, Memory: 200}
	w.usage.own["web-"] = used{CPU: .2, Memory: 200}
	w.policy("all", "strategy: Node\nupdateStrategy: {type: Auto, safetyObservationPeriod: 5m}\n")
	app := w.app("cpu=500m,memory=256Mi", "")
	app.ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}, {ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired}}
	w.deployment("web", 3, app)
	w.startNewPods()
	for _, pod := range w.pods() {
		require.NoError(t, w.direct.Delete(t.Context(), &pod))
	}
	w.run(time.Hour, 5*time.Minute)
	for memory := 200.; memory < 219; memory *= 1.005 {
		w.usage.of["app"] = used{CPU: .5, Memory: memory}
		w.usage.own["web-"] = used{CPU: .2, Memory: memory}
		w.run(10*time.Minute, 5*time.Minute)
	}
	for _, pod := range w.pods() {
		assert.Zero(t, restarts(&pod), pod.Name)
	}
}

func (w *world) annotateWorkload(name, key, value string) {
	w.t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(w.t, w.direct.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, d))
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[key] = value
	require.NoError(w.t, w.direct.Update(w.t.Context(), d))
}
