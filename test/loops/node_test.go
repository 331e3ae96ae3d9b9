package loops

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/test/kubelet"
)

// sharedNode is a node of some CPU whose workloads a, b and c share it: base 1, peaks 3, 2 and 2.
func sharedNode(t *testing.T, cpu, more string) *world {
	t.Helper()
	w := newWorld(t, kubelet.Options{CPU: cpu})
	w.seeded = true
	w.memory["app"] = 100
	for name, peak := range map[string]float64{"a": 3, "b": 2, "c": 2} {
		w.usage.of[name+"/app"] = used{CPU: peak, Memory: 100}
		w.usage.own[name+"-"] = used{CPU: 1, Memory: 100}
	}
	w.policy("all", "strategy: Node\nmemory: {allowDecrease: true}\nupdateStrategy: {type: Auto, safetyObservationPeriod: 1m}\n"+more)
	return w
}

func (w *world) threeWorkloads() {
	w.t.Helper()
	for _, name := range []string{"a", "b", "c"} {
		w.deployment(name, 1, w.app("cpu=100m,memory=64Mi", ""))
	}
	w.startNewPods()
	// Deployments exist before their recommendations do: the pods that were born first were not seeded.
	for _, pod := range w.pods() {
		require.NoError(w.t, w.direct.Delete(w.t.Context(), &pod))
	}
}

// held is what the containers of the workloads' first pods ask of CPU, by workload.
func (w *world) held() map[string]int64 {
	out := map[string]int64{}
	for _, pod := range w.pods() {
		out[pod.Labels["app"]] = cpuRequest(&pod)
	}
	return out
}

// The golden case on a real API server: a pod is born with its peak, and its node lowers it to base 1 plus its part
// of the reserve of 2, the largest spike.
func TestNodeSharesItsSpikeHeadroom(t *testing.T) {
	t.Parallel()
	w := sharedNode(t, "8", "")
	w.threeWorkloads()
	w.settle()
	assert.Equal(t, map[string]int64{"a": 3000, "b": 2000, "c": 2000}, w.held(), "the peaks")
	for _, pod := range w.pods() {
		assert.EqualValues(t, 100, memoryRequest(&pod), pod.Name)
		assert.EqualValues(t, 200, memoryLimit(&pod), pod.Name, "twice the most in 7 days")
		assert.NotContains(t, pod.Spec.Containers[0].Resources.Limits, corev1.ResourceCPU)
	}
	want := map[string]int64{"a": 2000, "b": 1500, "c": 1500}
	w.until(10*time.Minute, "base plus a part of the reserve", func() bool { return assert.ObjectsAreEqual(want, w.held()) && w.idle() })
	for _, pod := range w.pods() {
		assert.Zero(t, restarts(&pod))
		assert.EqualValues(t, 200, memoryLimit(&pod))
	}

	// An idle node stays as it is.
	before := map[string]string{}
	for _, pod := range w.pods() {
		before[pod.Name] = pod.ResourceVersion
	}
	w.run(3*time.Hour, 5*time.Minute)
	for _, pod := range w.pods() {
		assert.Equal(t, before[pod.Name], pod.ResourceVersion, "nobody wrote %s", pod.Name)
	}
	for _, rec := range w.recommendations() {
		assert.Equal(t, v1alpha1.StrategyNode, rec.Spec.Strategy)
		assert.Equal(t, v1alpha1.RankingNever, rec.Spec.EvictionRanking, "evictions are off")
	}
}

// A raise is made at once, where the pods hold less than they need however small it is; a lowering waits for 15 minutes after the last one.
func TestNodeRaisesAtOnceAndLowersSeldom(t *testing.T) {
	t.Parallel()
	w := sharedNode(t, "16", "")
	w.threeWorkloads()
	w.until(10*time.Minute, "the golden sizes", func() bool { return w.held()["a"] == 2000 && w.idle() })

	w.usage.own["b-"] = used{CPU: 1.02, Memory: 100}
	w.until(10*time.Minute, "b is raised although by less than the dead band", func() bool { return w.held()["b"] > 1500 && w.idle() })
	raised := w.held()["b"]
	w.usage.own["b-"] = used{CPU: 1, Memory: 100}
	w.run(time.Hour, 5*time.Minute)
	assert.Equal(t, raised, w.held()["b"], "nor is it lowered by less than the dead band")

	var lowered []time.Time
	last, flips := w.held()["c"], 0
	w.run(9*time.Hour, 5*time.Minute, func() bool {
		if now := w.held()["c"]; now != last {
			if now < last {
				lowered = append(lowered, w.clock.Now())
			}
			last = now
		}
		if flips++; flips%4 < 2 {
			w.usage.own["c-"] = used{CPU: 2, Memory: 100}
		} else {
			w.usage.own["c-"] = used{CPU: 1, Memory: 100}
		}
		return true
	})
	require.Greater(t, len(lowered), 2, "demands went up and down")
	for i := 1; i < len(lowered); i++ {
		assert.GreaterOrEqual(t, lowered[i].Sub(lowered[i-1]), 15*time.Minute)
	}
}

// What the policy does not size is counted as it is, and so is a pod whose template says so.
func TestNodeDoesNotChangeOtherPods(t *testing.T) {
	t.Parallel()
	w := sharedNode(t, "16", "")
	w.statefulSet("other", 1, w.app("cpu=300m,memory=64Mi", ""))
	w.deployment("guaranteed", 1, w.app("cpu=1500m,memory=256Mi", "cpu=1500m,memory=256Mi"))
	w.usage.of["guaranteed/app"] = used{CPU: 0.2, Memory: 100}
	w.threeWorkloads()
	w.until(10*time.Minute, "the golden sizes", func() bool { return w.held()["a"] == 2000 && w.idle() })
	found := 0
	for _, pod := range w.pods() {
		switch pod.Labels["app"] {
		case "guaranteed":
			found++
			assert.EqualValues(t, 200, cpuRequest(&pod), "request and limit are the peak, at admission")
			assert.EqualValues(t, 200, pod.Spec.Containers[0].Resources.Limits.Cpu().MilliValue())
			assert.EqualValues(t, 1, pod.Generation, "and it is never resized")
		case "other":
			found++
			assert.EqualValues(t, 300, cpuRequest(&pod), "no policy sizes it")
		}
	}
	assert.Equal(t, 2, found)
}

// twoOfTwo is a node of 8 CPUs that Deployments a and b of two pods each share, base 1 and peak 2, so that all four
// peaks fit; policies let it evict. Another node has room.
func twoOfTwo(t *testing.T, eviction string, edit func(name string, d *appsv1.Deployment)) *world {
	t.Helper()
	w := newWorld(t, kubelet.Options{CPU: "8"})
	w.seeded = true
	w.label()
	w.workloads.Evictions = true
	w.memory["app"] = 100
	w.policy("all", "strategy: Node\nnode: {eviction: "+eviction+"}\nmemory: {allowDecrease: true}\nupdateStrategy: {type: Auto, safetyObservationPeriod: 1m}\n")
	for _, name := range []string{"a", "b"} {
		w.usage.of[name+"/app"] = used{CPU: 2, Memory: 100}
		w.usage.own[name+"-"] = used{CPU: 1, Memory: 100}
		d := w.deployment(name, 2, w.app("cpu=100m,memory=64Mi", ""))
		if edit != nil {
			edit(name, d)
			require.NoError(t, w.direct.Update(t.Context(), d))
		}
	}
	w.startNewPods()
	for _, pod := range w.pods() {
		require.NoError(t, w.direct.Delete(t.Context(), &pod))
	}
	w.until(10*time.Minute, "everybody's base and a quarter of the reserve of 2", func() bool {
		return w.cpuOn(w.node.Name) == "a 1500, a 1500, b 1500, b 1500" && w.idle()
	})
	w.addSecondNode("16")
	return w
}

// cpuOn is what the pods of a node ask of CPU, by workload.
func (w *world) cpuOn(node string) string {
	var of []string
	for _, pod := range w.pods() {
		if pod.Spec.NodeName == node && pod.DeletionTimestamp == nil {
			of = append(of, fmt.Sprintf("%s %d", pod.Labels["app"], cpuRequest(&pod)))
		}
	}
	slices.Sort(of)
	return strings.Join(of, ", ")
}

func (w *world) evictedRows() (rows []v1alpha1.HistoryEntry) {
	for _, rec := range w.recommendations() {
		for _, row := range rec.Status.History {
			if row.Result == lifecycle.ResultEvicted {
				rows = append(rows, row)
			}
		}
	}
	return rows
}

// When a's pods need 3 CPUs each there is room for one of b's alone: the other is evicted, and its successor is born
// with its peak on another node. Nobody else goes.
func TestNodeEvictsPodThatDoesNotFit(t *testing.T) {
	t.Parallel()
	w := twoOfTwo(t, "Enabled", nil)
	w.usage.own["a-"] = used{CPU: 3, Memory: 100}
	w.until(30*time.Minute, "one of b is found another node", func() bool {
		assert.GreaterOrEqual(t, readyPods(w.pods()), 3, "one at a time")
		return w.cpuOn(w.node.Name) == "a 3000, a 3000, b 2000" && w.cpuOn(w.other.Name) == "b 2000" && w.idle()
	})
	for _, pod := range w.pods() {
		if pod.Spec.NodeName == w.other.Name {
			assert.Contains(t, pod.Annotations, v1alpha1.SeededAnnotation)
			assert.EqualValues(t, 1, pod.Generation, "born so")
		}
	}
	assert.True(t, w.told.has("Normal Evicting Evicting pod b-"), w.told.lines)
	assert.True(t, w.told.has("Normal Evicted Evicted pod b-"), w.told.lines)
	uids := w.uids()
	w.run(3*time.Hour, 5*time.Minute)
	assert.Equal(t, uids, w.uids(), "nobody else goes")
	rows := w.evictedRows()
	require.Len(t, rows, 1, "%v", rows)
	assert.Equal(t, resize.ReasonDoesNotFit, rows[0].Reason)
	assert.Equal(t, lifecycle.MethodEviction, rows[0].Method)
}

// Somebody else goes in place of a pod that nobody may disrupt.
func TestNodeEvictsAnotherPodThanAProtectedOne(t *testing.T) {
	t.Parallel()
	w := twoOfTwo(t, "Enabled", func(name string, d *appsv1.Deployment) {
		if name == "b" {
			d.Spec.Template.Annotations = map[string]string{"karpenter.sh/do-not-disrupt": "true"}
		}
	})
	w.usage.own["a-"] = used{CPU: 3, Memory: 100}
	w.until(30*time.Minute, "one of a is found another node", func() bool {
		return w.cpuOn(w.node.Name) == "a 3000, b 2000, b 2000" && strings.HasPrefix(w.cpuOn(w.other.Name), "a ") && w.idle()
	})
	for _, row := range w.evictedRows() {
		assert.Contains(t, row.Pod, "a-")
	}
}

// A PodDisruptionBudget keeps whom it keeps: nobody is deleted, and nobody else goes instead.
func TestNodeHonoursAPodDisruptionBudget(t *testing.T) {
	t.Parallel()
	w := twoOfTwo(t, "Enabled", nil)
	budget := w.keepsBoth("b")
	uids := w.uids()
	w.usage.own["a-"] = used{CPU: 3, Memory: 100}
	w.run(70*time.Minute, time.Minute)
	assert.Equal(t, uids, w.uids())
	assert.True(t, w.told.has("Warning EvictionDenied Eviction of pod b-"), w.told.lines)
	assert.Empty(t, w.evictedRows())

	w.allowDisruption(budget)
	w.until(time.Hour, "one may go at last", func() bool { return w.cpuOn(w.other.Name) == "b 2000" && w.idle() })
}

// Nobody goes where no policy lets him: the node is overcommitted, says so, and its room goes to what is lacking of the
// bases, so that no scheduler sees it.
func TestNodeEvictsNoPodWithoutPermission(t *testing.T) {
	t.Parallel()
	w := twoOfTwo(t, "Disabled", nil)
	uids := w.uids()
	w.usage.own["a-"] = used{CPU: 3, Memory: 100}
	w.run(time.Hour, 5*time.Minute)
	assert.Equal(t, uids, w.uids())
	assert.Equal(t, "a 2500, a 2500, b 1500, b 1500", w.cpuOn(w.node.Name))
	assert.True(t, w.told.has("Warning NodeOvercommitted cpu: the pods that share this node need 10"), w.told.lines)
	assert.False(t, w.told.has("Evict"), w.told.lines)
}
