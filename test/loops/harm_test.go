package loops

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/test/kubelet"
)

const lowersMemory = "memory: {allowDecrease: true, maxChangePercent: 90}"

// A pod is killed at its new limit: it gets its old one back, and the limit that killed is never tried
// again, neither on it nor on its siblings.
func TestLoopsRevertAnOOMAndLearn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"] = used{CPU: 0.4, Memory: 200}
	w.memory["app"] = 200
	w.deployment("web", 3, w.app("cpu=500m,memory=512Mi", "memory=1Gi"))
	w.startNewPods()
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 10m, safetyObservationPeriod: 5m}\n"+lowersMemory)
	// What is low has more to hold from its watch on.
	const needs = 600
	victim := ""
	w.until(time.Hour, "a pod is watched at a lower limit", func() bool {
		victim = w.watched()
		return victim != "" && memoryLimit(w.named(victim)) < needs
	})
	killed := memoryLimit(w.named(victim))
	w.memory["app"] = needs
	before := w.clock.Now()
	w.until(5*time.Minute, "the limit is back", func() bool { return memoryLimit(w.named(victim)) >= 1024 })
	assert.LessOrEqual(t, w.clock.Since(before), time.Minute)
	w.until(5*time.Minute, "the record is closed", w.idle)

	rec := w.recommendation()
	assert.Equal(t, []string{"Reverted oomkill"}, results(rec))
	assert.Empty(t, rec.Status.Verified, "a size that killed is not kept")
	floor := resize.FloorsOf(rec.Status.Floors, "app", w.clock.Now())[1].Amount >> 20
	assert.InDelta(t, 1.3*float64(killed), float64(floor), 2)
	target := rec.Spec.Containers[0]
	require.NotNil(t, target.MemoryLimitFloor)
	assert.GreaterOrEqual(t, target.MemoryLimitFloor.Value()>>20, floor-1)
	assert.GreaterOrEqual(t, target.Target.MemoryLimit.Value()>>20, floor-1)
	assert.True(t, w.told.has("Warning Reverted Reverting the resize of pod "+victim+": oomkill"), w.told.lines)

	w.run(6*time.Hour, 15*time.Minute, func() bool {
		for _, pod := range w.pods() {
			require.GreaterOrEqual(t, memoryLimit(&pod), int64(needs), "%s at %s", pod.Name, w.clock.Now())
		}
		return true
	})
	for _, pod := range w.pods() {
		assert.LessOrEqual(t, restarts(&pod), int32(1))
	}
}

// A kill that no resize of ours came before teaches as well, and raises every replica.
func TestLoopsLearnFromAnyOOM(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"] = used{CPU: 0.4, Memory: 150}
	w.memory["app"] = 150
	w.deployment("web", 3, w.app("cpu=500m,memory=256Mi", "memory=256Mi"))
	w.startNewPods()
	w.auto("")
	w.run(30*time.Minute, 5*time.Minute)
	victim := w.pods()[1].Name
	for _, pod := range w.pods() {
		require.Equal(t, int64(256), memoryLimit(&pod), "nothing raises or lowers memory yet")
	}
	w.holds = func(pod *corev1.Pod, _ string) (int64, bool) { return 300, pod.Name == victim }
	killed := w.clock.Now()
	w.until(10*time.Minute, "every replica has 1.3 times the limit that killed", func() bool {
		for _, pod := range w.pods() {
			if limit := runs(&pod).Limits[corev1.ResourceMemory]; limit.Value()>>20 < 332 {
				return false
			}
		}
		return true
	})
	t.Logf("all raised %s after the kill", w.clock.Since(killed))
	for _, pod := range w.pods() {
		assert.LessOrEqual(t, restarts(&pod), int32(2), "in place: only the kernel restarted anything")
	}
	w.run(2*time.Hour, 30*time.Minute)
	assert.NotContains(t, results(w.recommendation()), "Reverted oomkill")
}

// A size that kills is on the first wave's pods alone: not on the rest, nor on any that is born meanwhile.
func TestLoopsStopAtFirstHarm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.4, Memory: 200}
	w.memory["app"] = 600
	w.deployment("web", 20, w.app("cpu=500m,memory=512Mi", "memory=1Gi"))
	w.startNewPods()
	// The kubelet's own check sees the memory before the process grows.
	seen := map[string]time.Time{}
	bad := map[string]bool{}
	w.holds = func(pod *corev1.Pod, _ string) (int64, bool) {
		since, low := seen[pod.Name]
		return 200, !low || w.clock.Since(since) < time.Minute
	}
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 10m, safetyObservationPeriod: 5m, maxConcurrentResizes: 50%}\n"+lowersMemory)
	grown := false
	w.run(4*time.Hour, 10*time.Minute, func() bool {
		for _, pod := range w.pods() {
			if memoryLimit(&pod) < 600 && !bad[pod.Name] {
				bad[pod.Name], seen[pod.Name] = true, w.clock.Now()
			}
		}
		if len(bad) > 0 && !grown {
			grown = true
			w.scale("web", 25)
		}
		return true
	})
	require.True(t, grown)
	assert.Len(t, w.pods(), 25)
	assert.LessOrEqual(t, len(bad), 3, "10 %% of 25: %v", bad)
	assert.NotEmpty(t, bad, "or nothing was tested")
	assert.True(t, w.told.has("Warning Reverted"), w.told.lines)
	for _, pod := range w.pods() {
		assert.GreaterOrEqual(t, memoryLimit(&pod), int64(600), pod.Name)
		if !bad[pod.Name] {
			assert.Zero(t, restarts(&pod), pod.Name)
		}
	}
}

// named is a pod by its name.
func (w *world) named(name string) *corev1.Pod {
	w.t.Helper()
	for _, pod := range w.pods() {
		if pod.Name == name {
			return &pod
		}
	}
	require.Fail(w.t, fmt.Sprintf("no pod %s", name))
	return nil
}

func (w *world) scale(name string, replicas int32) {
	w.t.Helper()
	d := &appsv1.Deployment{}
	require.NoError(w.t, w.direct.Get(w.t.Context(), client.ObjectKey{Namespace: w.namespace, Name: name}, d))
	d.Spec.Replicas = &replicas
	require.NoError(w.t, w.direct.Update(w.t.Context(), d))
}

// A kill is answered at once, whatever the workload cools down from: the pod that was killed gets more.
func TestLoopsAnswerAnOOMInACooldown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"] = used{CPU: 1, Memory: 150}
	w.memory["app"] = 150
	w.deployment("web", 2, w.app("cpu=500m,memory=256Mi", "memory=256Mi"))
	w.startNewPods()
	w.policy("all", "updateStrategy: {type: Auto, cooldown: 10h, safetyObservationPeriod: 1m}\ncpu: {maxChangePercent: 300}")
	w.until(time.Hour, "a resize is finished", func() bool { return w.idle() && len(results(w.recommendation())) > 0 })
	require.Equal(t, v1alpha1.PhaseCooldown, w.recommendation().Status.Phase)
	victim, other := w.pods()[0].Name, w.pods()[1].Name
	w.holds = func(pod *corev1.Pod, _ string) (int64, bool) { return 300, pod.Name == victim }
	w.until(time.Minute, "the pod that was killed has more", func() bool {
		limit := runs(w.named(victim)).Limits[corev1.ResourceMemory]
		return limit.Value()>>20 >= 300
	})
	assert.LessOrEqual(t, restarts(w.named(victim)), int32(1))
	assert.Equal(t, int64(256), memoryLimit(w.named(other)), "nothing happened to it: it waits for its turn")
}

// A container without a CPU limit whose request was lowered needs more than that. On a node whose CPU is in use it gets
// its old request back, and the workload learns from it; where there is CPU to spare it does well with the new one.
func TestLoopsRevertThrottledPods(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		needs, busy float64
		limit       string
		want        string
	}{
		"more than its request, on a busy node":         {0.45, 0.95, "", "Reverted throttle"},
		"more than its request, on an idle node":        {0.45, 0.4, "", "Success"},
		"no more than its request, on a busy node":      {0.2, 0.95, "", "Success"},
		"more than its request, on a node nobody knows": {0.45, 0, "", "Success"},
		"nobody knows what it needs, on a busy node":    {0, 0.95, "", "Success"},
		"with a CPU limit, on a busy node":              {0.45, 0.95, "cpu=1", "Success"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kubelet.Options{})
			w.usage.of["app"] = used{CPU: 0.2, Memory: 200}
			w.usage.own["web-"] = used{CPU: tc.needs, Memory: 200}
			w.usage.busy[w.node.Name] = tc.busy
			w.memory["app"] = 200
			w.deployment("web", 1, w.app("cpu=500m,memory=512Mi", tc.limit))
			w.startNewPods()
			w.policy("all", "updateStrategy: {type: Auto, cooldown: 10h, safetyObservationPeriod: 1m}\ncpu: {maxChangePercent: 90}")
			w.until(10*time.Minute, "it is watched with less", func() bool { return !w.idle() && cpuRequest(w.pod()) < 450 })
			lowered := cpuRequest(w.pod())
			w.until(time.Hour, "the watch is over", w.idle)

			rec := w.recommendation()
			require.Equal(t, []string{tc.want}, results(rec))
			floor := resize.FloorsOf(rec.Status.Floors, "app", w.clock.Now())[recommender.CPU]
			if tc.want == "Success" {
				assert.Equal(t, lowered, cpuRequest(w.pod()))
				assert.Zero(t, floor.Amount)
				return
			}
			assert.Equal(t, int64(500), cpuRequest(w.pod()))
			assert.Equal(t, "throttle", floor.Reason)
			assert.InDelta(t, 1.3*float64(lowered), float64(floor.Amount), 2)
			assert.True(t, w.told.has("container app uses 450m of CPU, more than its request of "), w.told.lines)
			assert.True(t, w.told.has("on a node whose CPU is 95 % busy"), w.told.lines)
		})
	}
}
