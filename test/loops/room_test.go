package loops

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/kubelet"
)

// rec is a workload's recommendation.
func (w *world) rec(deployment string) *v1alpha1.AttuneRecommendation {
	w.t.Helper()
	rec := &v1alpha1.AttuneRecommendation{}
	key := client.ObjectKey{Namespace: w.namespace, Name: "deployment-" + deployment}
	require.NoError(w.t, w.direct.Get(w.t.Context(), key, rec))
	return rec
}

// podsOf are a Deployment's.
func (w *world) podsOf(deployment string) []corev1.Pod {
	w.t.Helper()
	return slices.DeleteFunc(w.pods(), func(p corev1.Pod) bool { return p.Labels["app"] != deployment })
}

// container is one of another name than app, so that it may use something else.
func (w *world) container(name, requests, limits string) corev1.Container {
	w.t.Helper()
	c := w.app(requests, limits)
	c.Name = name
	return c
}

// rivals is a world of two workloads that have a CPU each and want 2.4, on a node that has room for one of them to
// grow. It notes when resizes are asked for.
func rivals(t *testing.T) (w *world, asked *[]time.Time) {
	t.Helper()
	w = newWorld(t, kubelet.Options{CPU: "4"})
	w.usage.of["first"], w.usage.of["second"] = used{CPU: 2, Memory: 200}, used{CPU: 2, Memory: 200}
	w.deployment("first", 1, w.container("first", "cpu=1,memory=512Mi", ""))
	w.deployment("second", 1, w.container("second", "cpu=1,memory=512Mi", ""))
	w.startNewPods()
	return w, w.asking(func() error { return nil })
}

// Case 28: two workloads want to grow on a node that has room for one. The other is not even asked for: it says why,
// and goes on when there is room.
func TestLoopsShareTheRoomOfANode(t *testing.T) {
	t.Parallel()
	w, asked := rivals(t)
	w.auto("cpu: {maxChangePercent: 300}")
	w.run(30*time.Minute, time.Minute, func() bool {
		for _, pod := range w.pods() {
			require.False(t, resizeCondition(&pod, corev1.PodResizePending, ""), "the node is never asked for room that it has not")
		}
		return true
	})
	assert.Len(t, *asked, 1)
	assert.Equal(t, int64(2400), cpuRequest(&w.podsOf("first")[0]))
	assert.Equal(t, int64(1000), cpuRequest(&w.podsOf("second")[0]))
	why := blockedBy(w.rec("second"))
	assert.Equal(t, "NoRoom", why.Reason)
	assert.Equal(t, "node "+w.namespace+" has 4 of cpu: other pods take 2400m, and this pod needs 2400m", why.Message)
	assert.Empty(t, results(w.rec("second")), "nothing was tried")

	w.scale("first", 0)
	w.settle()
	w.until(time.Minute, "there is room", func() bool { return cpuRequest(&w.podsOf("second")[0]) == 2400 })
	assert.Len(t, *asked, 2)
}

// Growth that the API server has taken and that the cache does not show yet is not promised to another workload.
func TestLoopsPromiseRoomOnceThoughTheCacheIsBehind(t *testing.T) {
	t.Parallel()
	w, asked := rivals(t)
	before := map[string]corev1.Pod{}
	for _, pod := range w.pods() {
		before[pod.Name] = pod
	}
	w.cached = func(pod corev1.Pod) corev1.Pod { return before[pod.Name] }
	w.auto("cpu: {maxChangePercent: 300}")
	w.pass()
	w.pass()
	require.Len(t, *asked, 1)
	assert.Equal(t, "NoRoom", blockedBy(w.rec("second")).Reason)
}

// Cases 43, 87: a node that assigns CPUs statically says so once; its other pods are left alone, with the reason, and
// those of other nodes go on.
func TestLoopsLearnFromInfeasibleAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{StaticCPU: true})
	w.secondNode(kubelet.Options{})
	w.usage.of["app"] = used{CPU: 1, Memory: 200}
	w.deployment("web", 6, w.app("cpu=500m,memory=512Mi", "cpu=500m,memory=512Mi"))
	w.startNewPods()
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 1m, safetyObservationPeriod: 1m, maxConcurrentResizes: 1, canary: {percentage: 1}}\ncpu: {maxChangePercent: 300}")
	w.run(50*time.Minute, time.Minute)
	assert.ElementsMatch(t, []string{"Withdrawn Infeasible", "Success", "Success", "Success"}, results(w.recommendation()), "one of its pods was tried, once")
	for _, pod := range w.pods() {
		want := map[string]int64{w.namespace: 500, w.other.Name: 1200}[pod.Spec.NodeName]
		assert.Equal(t, want, cpuRequest(&pod), pod.Name)
	}
	why := blockedBy(w.recommendation())
	assert.Equal(t, "StaticCPUManager", why.Reason)
	assert.Equal(t, "the CPU manager of the node has a static policy; only new pods get the new CPU", why.Message)

	// Its kubelet starts anew, with another policy.
	require.NoError(t, w.node.Stop(t.Context()))
	w.run(time.Minute, time.Minute)
	w.node.Reconfigure(func(o *kubelet.Options) { o.StaticCPU = false })
	require.NoError(t, w.node.Start(t.Context(), w.clock.Now()))
	w.until(time.Hour, "its pods are resized after all", func() bool {
		return !slices.ContainsFunc(w.pods(), func(p corev1.Pod) bool { return cpuRequest(&p) != 1200 })
	})
}
