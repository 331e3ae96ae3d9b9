package loops

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/test/kubelet"
)

// growing is a world with one pod that is to grow from half a CPU to 1.2.
func growing(t *testing.T, node kubelet.Options, requests, limits string) *world {
	t.Helper()
	w := newWorld(t, node)
	w.usage.of["app"] = used{CPU: 1, Memory: 200}
	w.memory["app"] = 200
	w.deployment("web", 1, w.app(requests, limits))
	w.startNewPods()
	return w
}

const onceAnHour = "updateStrategy: {type: Auto, cooldown: 1h, safetyObservationPeriod: 1m}\ncpu: {maxChangePercent: 300}"

// The node has no room: the resize waits for five minutes, then what was asked for is taken back, so that
// it holds no room and is not granted hours later.
func TestLoopsWithdrawDeferredResizes(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{CPU: "4"}, "cpu=500m,memory=512Mi", "")
	w.node.Faults.Taken = 3200
	w.policy("all", onceAnHour)
	w.settle()
	w.run(20*time.Second, 5*time.Second)
	require.Equal(t, int64(1200), cpuRequest(w.pod()))
	require.True(t, resizeCondition(w.pod(), corev1.PodResizePending, corev1.PodReasonDeferred))
	asked := w.clock.Now()
	w.until(10*time.Minute, "the record is closed", w.idle)
	assert.InDelta(t, 5*time.Minute, w.clock.Since(asked), float64(2*time.Minute))
	assert.Equal(t, int64(500), cpuRequest(w.pod()))
	assert.False(t, resizeCondition(w.pod(), corev1.PodResizePending, ""))
	assert.Equal(t, []string{"Withdrawn Deferred"}, results(w.recommendation()))

	generation := w.pod().Generation
	w.run(50*time.Minute, 5*time.Minute)
	assert.Equal(t, generation, w.pod().Generation, "not again within the cooldown")
	w.node.Faults.Taken = 0
	w.until(3*time.Hour, "there is room at last", func() bool { return w.idle() && cpuRequest(w.pod()) == 1200 })
	assert.Equal(t, []string{"Withdrawn Deferred", "Success"}, results(w.recommendation()))
}

// The node will never do it: taken back at once.
func TestLoopsWithdrawInfeasibleResizes(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{StaticCPU: true}, "cpu=500m,memory=512Mi", "cpu=500m,memory=512Mi")
	w.policy("all", onceAnHour)
	before := w.clock.Now()
	w.until(2*time.Minute, "it was tried and taken back", func() bool {
		return w.idle() && len(results(w.recommendation())) > 0
	})
	assert.Less(t, w.clock.Since(before), 2*time.Minute)
	assert.Equal(t, []string{"Withdrawn Infeasible"}, results(w.recommendation()))
	assert.Equal(t, int64(500), cpuRequest(w.pod()))
	assert.False(t, resizeCondition(w.pod(), corev1.PodResizePending, ""))
}

// What a node would not have cools nothing down: something else is tried at once. The same is asked again after a
// cooldown and then less and less often, whatever was forgotten meanwhile.
func TestLoopsContinueAfterInfeasibleResizes(t *testing.T) {
	t.Parallel()
	refused := func(t *testing.T) *world {
		w := growing(t, kubelet.Options{StaticCPU: true}, "cpu=500m,memory=512Mi", "cpu=500m,memory=512Mi")
		w.policy("all", onceAnHour)
		w.until(2*time.Minute, "it was tried and taken back", func() bool {
			return w.idle() && len(results(w.recommendation())) > 0
		})
		require.Equal(t, []string{"Withdrawn Infeasible"}, results(w.recommendation()))
		require.Nil(t, w.recommendation().Status.CooldownFrom)
		return w
	}
	t.Run("something else", func(t *testing.T) {
		t.Parallel()
		w := refused(t)
		w.usage.of["app"] = used{CPU: 1, Memory: 600}
		w.until(2*time.Minute, "more memory", func() bool { return memoryRequest(w.pod()) > 512 })
		w.until(10*time.Minute, "its watch is over", w.idle)
		assert.Equal(t, []string{"Withdrawn Infeasible", "Success"}, results(w.recommendation()))
		assert.Equal(t, int64(500), cpuRequest(w.pod()))
	})
	t.Run("the same", func(t *testing.T) {
		t.Parallel()
		w := refused(t)
		after := w.clock.Now()
		for _, tc := range []struct {
			by    time.Duration
			times int
		}{{58 * time.Minute, 1}, {65 * time.Minute, 2}, {178 * time.Minute, 2}, {190 * time.Minute, 3}} {
			w.wire()
			w.run(after.Add(tc.by).Sub(w.clock.Now()), time.Minute)
			assert.Len(t, results(w.recommendation()), tc.times, "%s later: %s", tc.by, w.describe())
		}
		assert.Equal(t, int64(500), cpuRequest(w.pod()))
	})
}

// Case 26: from 1.36 on the API server itself refuses what no node of that size can hold. Nothing has changed then,
// so nothing cools down; it is asked again later, and less and less often.
func TestLoopsAcceptRejectionOfTooLargeSizes(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{CPU: "4"}, "cpu=500m,memory=512Mi", "")
	var asked []time.Time
	w.resize = func(patch func() error) error {
		asked = append(asked, w.clock.Now())
		// The node shrinks between the loop's look and its patch.
		w.nodeHas("1")
		err := patch()
		require.ErrorContains(t, err, "didn't have enough allocatable resources")
		w.nodeHas("4")
		return err
	}
	w.policy("all", onceAnHour)
	w.run(65*time.Minute, 5*time.Minute)
	var after []time.Duration
	for _, at := range asked {
		after = append(after, at.Sub(asked[0]))
	}
	assert.Equal(t, []time.Duration{0, 10 * time.Minute, 30 * time.Minute}, after, "%s", w.describe())
	rec := w.recommendation()
	assert.Equal(t, []string{"Failed NodeCapacity"}, results(rec), "told once")
	assert.Equal(t, "web", rec.Status.History[0].Workload)
	assert.Empty(t, rec.Finalizers)
	assert.Equal(t, int64(500), cpuRequest(w.pod()))
	assert.True(t, w.told.has("NodeCapacity"), w.told.lines)
	assert.Equal(t, "RefusedByAPIServer", blockedBy(rec).Reason)

	w.resize = nil
	w.until(time.Hour, "it fits at last", func() bool { return w.idle() && cpuRequest(w.pod()) == 1200 })
}

// nodeHas makes the node one of so much CPU, and waits until the API server goes by that: a real one learns of nodes by
// watching.
func (w *world) nodeHas(cpu string) {
	w.t.Helper()
	require.NoError(w.t, w.node.SetAllocatable(w.t.Context(), cpu, "4Gi"))
	if w.memoryServer != nil {
		return
	}
	pod := w.pod()
	ask := func(millicores int64) error {
		patch := fmt.Appendf(nil, `{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":"%dm"}}}]}}`, millicores)
		return w.direct.SubResource("resize").Patch(w.t.Context(), pod.DeepCopy(), client.RawPatch(types.StrategicMergePatchType, patch), client.DryRunAll)
	}
	has := resource.MustParse(cpu)
	require.EventuallyWithT(w.t, func(c *assert.CollectT) {
		assert.NoError(c, ask(has.MilliValue()))
		assert.ErrorContains(c, ask(has.MilliValue()+1), "didn't have enough allocatable resources")
	}, 30*time.Second, 20*time.Millisecond)
}

// blockedBy is why the pods of a workload are not resized; empty: nothing keeps them.
func blockedBy(rec *v1alpha1.AttuneRecommendation) metav1.Condition {
	c := meta.FindStatusCondition(rec.Status.Conditions, v1alpha1.ConditionResizeBlocked)
	if c == nil || c.Status != metav1.ConditionTrue {
		return metav1.Condition{}
	}
	return *c
}

// A limit below what the container holds: the kubelet refuses to go there, and a crash meanwhile would
// start it there. The limit is given up, the rest is done.
func TestLoopsAbandonALimitBelowUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"] = used{CPU: 0.1, Memory: 200}
	w.memory["app"] = 900
	w.deployment("web", 1, w.app("cpu=500m,memory=512Mi", "memory=1Gi"))
	w.startNewPods()
	w.auto(lowersMemory)
	w.run(time.Hour, time.Minute)
	require.NotEmpty(t, w.node.Failures, "the kubelet was never asked")
	assert.Contains(t, w.node.Failures[0], "below current usage")
	assert.LessOrEqual(t, len(w.node.Failures), 2, "or it is asked again and again: %s", w.describe())
	pod := w.pod()
	assert.True(t, w.idle())
	assert.Equal(t, int64(1024), memoryLimit(pod))
	allocated := w.node.Allocated(pod, "app").Limits[corev1.ResourceMemory]
	assert.Equal(t, int64(1024), allocated.Value()>>20)
	assert.Less(t, cpuRequest(pod), int64(300), "CPU is lowered all the same")
	assert.Zero(t, restarts(pod))
	assert.False(t, resizeCondition(pod, corev1.PodResizeInProgress, ""))
}

// A pod that goes away in the middle of a resize leaves nothing behind; the one after it is another pod.
func TestLoopsForgetAPodThatIsGone(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{ActuateAfter: 30 * time.Second}, "cpu=500m,memory=512Mi", "")
	w.auto("cpu: {maxChangePercent: 300}")
	w.settle()
	first := w.pod()
	require.Len(t, w.recommendation().Status.Records, 1)
	require.NoError(t, w.direct.Delete(t.Context(), first))
	w.settle()
	second := w.pod()
	require.NotEqual(t, first.UID, second.UID)
	for _, record := range w.recommendation().Status.Records {
		assert.NotEqual(t, first.UID, record.PodUID)
	}
	w.until(10*time.Minute, "the new pod is sized", func() bool { return w.idle() && cpuRequest(w.pod()) == 1200 })
	assert.Equal(t, []string{"Success"}, results(w.recommendation()), "the pod that went is no failure")
	assert.Empty(t, w.recommendation().Finalizers)
}

// A StatefulSet's pod is replaced under its name between the decision and the patch: the patch does not
// reach the new one.
func TestLoopsNeverResizeAnotherPodOfTheSameName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"] = used{CPU: 1, Memory: 200}
	w.statefulSet("db", 1, w.app("cpu=500m,memory=512Mi", ""))
	w.startNewPods()
	w.policy("all", "targetRef: {kind: StatefulSet}\n"+onceAnHour)
	var refused error
	first := w.pod()
	w.resize = func(patch func() error) error {
		w.resize = nil
		require.NoError(t, w.direct.Delete(t.Context(), w.pod()))
		require.NoError(t, w.node.Sync(t.Context(), w.clock.Now()))
		require.NoError(t, w.plane.Sync(t.Context(), w.clock.Now()))
		refused = patch()
		return refused
	}
	w.settle()
	require.ErrorContains(t, refused, "uid")
	second := w.pod()
	require.Equal(t, first.Name, second.Name)
	require.NotEqual(t, first.UID, second.UID)
	assert.Equal(t, int64(500), cpuRequest(second), "the patch was another pod's")
	assert.Empty(t, w.recommendation().Status.Records)
	w.until(3*time.Hour, "the new pod is sized on its own account", func() bool { return w.idle() && cpuRequest(w.pod()) == 1200 })
	assert.Equal(t, second.UID, w.pod().UID)
}

// Somebody else resizes what we resized. Nobody is fought: the second time the workload is paused, and
// says why.
func TestLoopsDoNotOverwriteAForeignWriter(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	w.auto("cpu: {maxChangePercent: 300}")
	w.until(10*time.Minute, "our resize is watched", func() bool {
		records := w.recommendation().Status.Records
		return len(records) > 0 && records[0].Phase == v1alpha1.RecordWatching
	})
	w.theirs(w.pod(), "700m")
	w.settle()
	require.True(t, w.idle())
	require.Equal(t, int64(700), cpuRequest(w.pod()), "theirs stands")
	w.run(2*time.Hour, 15*time.Minute)
	rec := w.recommendation()
	require.NotNil(t, rec.Status.Paused)
	assert.Contains(t, rec.Status.Paused.Reason, `"database-operator" resized pod `+w.pod().Name+" in place")
	assert.Equal(t, v1alpha1.PhasePaused, rec.Status.Phase)
	assert.Equal(t, int64(700), cpuRequest(w.pod()))
	assert.Equal(t, []string{"Superseded Superseded"}, results(rec))
	assert.Nil(t, rec.Spec.Seed)
	blocked := meta.FindStatusCondition(w.thePolicy("all").Status.Conditions, v1alpha1.ConditionResizeBlocked)
	require.NotNil(t, blocked)
	assert.Equal(t, "WorkloadPaused", blocked.Reason)
	assert.Contains(t, blocked.Message, `"database-operator"`)

	// The pause ends after a day. What the other wrote before stands no longer in the way: attune tries once more.
	w.until(26*time.Hour, "attune tries again", func() bool { return cpuRequest(w.pod()) != 700 })
}

// The process ends between the record and the patch: the record is closed, and the resize is decided anew.
func TestLoopsCloseRecordsThatWereNeverSent(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	w.auto("cpu: {maxChangePercent: 300}")
	w.resize = func(func() error) error { return context.DeadlineExceeded }
	w.settle()
	require.Len(t, w.recommendation().Status.Records, 1)
	require.Equal(t, v1alpha1.RecordWritten, w.recommendation().Status.Records[0].Phase)
	require.NotEmpty(t, w.recommendation().Finalizers)
	w.resize = nil
	w.wire()
	before := w.clock.Now()
	w.until(3*time.Minute, "the resize is made after all", func() bool { return cpuRequest(w.pod()) == 1200 })
	assert.GreaterOrEqual(t, w.clock.Since(before), time.Minute, "as long as the first patch may be on its way")
	w.until(10*time.Minute, "the record is closed", w.idle)
	assert.Equal(t, []string{"Success"}, results(w.recommendation()))
}

// The process ends between the patch and its answer: the resize is taken on, and not made twice.
func TestLoopsAdoptResizesThatArrived(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	w.auto("cpu: {maxChangePercent: 300}")
	sent := 0
	w.resize = func(patch func() error) error {
		sent++
		return errors.Join(patch(), context.DeadlineExceeded)
	}
	w.settle()
	w.wire()
	w.until(10*time.Minute, "the record is closed", w.idle)
	pod := w.pod()
	assert.Equal(t, 1, sent)
	assert.Equal(t, int64(1200), cpuRequest(pod))
	assert.Equal(t, int64(2), pod.Generation, "resized once")
	assert.Equal(t, []string{"Success"}, results(w.recommendation()))
}

// An early "done" is not believed, a late status is waited for, and a node that is gone is given up.
func TestLoopsWithAKubeletThatIsNotOnTime(t *testing.T) {
	t.Parallel()
	t.Run("premature", func(t *testing.T) {
		w := growing(t, kubelet.Options{ActuateAfter: 12 * time.Second}, "cpu=500m,memory=512Mi", "")
		w.node.Faults.PrematureClear = true
		w.auto("cpu: {maxChangePercent: 300}")
		w.until(5*time.Minute, "watched", func() bool {
			records := w.recommendation().Status.Records
			return len(records) > 0 && records[0].Phase == v1alpha1.RecordWatching
		})
		running := runs(w.pod())
		assert.Equal(t, int64(1200), running.Requests.Cpu().MilliValue())
	})
	t.Run("late", func(t *testing.T) {
		w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
		w.node.Faults.StatusLag = 20 * time.Second
		w.auto("cpu: {maxChangePercent: 300}")
		w.until(10*time.Minute, "sized", func() bool { return w.idle() && cpuRequest(w.pod()) == 1200 })
		assert.Equal(t, []string{"Success"}, results(w.recommendation()))
	})
	t.Run("stopped", func(t *testing.T) {
		w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
		w.policy("all", onceAnHour)
		w.resize = func(patch func() error) error {
			w.resize = nil
			require.NoError(t, w.node.Stop(t.Context()))
			return patch()
		}
		w.settle()
		require.Equal(t, int64(1200), cpuRequest(w.pod()))
		w.until(5*time.Minute, "the ask is taken back", func() bool { return cpuRequest(w.pod()) == 500 })
		assert.False(t, w.idle(), "nobody has seen that yet")
		require.NoError(t, w.node.Start(t.Context(), w.clock.Now()))
		w.until(5*time.Minute, "the record is closed", w.idle)
		assert.Equal(t, []string{"Withdrawn Unobserved"}, results(w.recommendation()))
	})
}

// theirs is another writer's resize.
func (w *world) theirs(pod *corev1.Pod, cpu string) {
	w.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"containers":[{"name":"app","resources":{"requests":{"cpu":%q}}}]}}`, cpu)
	require.NoError(w.t, w.direct.SubResource("resize").Patch(w.t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, []byte(patch)), client.FieldOwner("database-operator")))
}

// resizeCondition: the pod has the condition, with a reason if one is given.
func resizeCondition(pod *corev1.Pod, kind corev1.PodConditionType, reason string) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind && (reason == "" || c.Reason == reason) {
			return true
		}
	}
	return false
}

// A policy that is deleted while a pod is watched goes when the watch has ended.
func TestLoopsFinishTheWatchOfADeletedPolicy(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	w.auto("cpu: {maxChangePercent: 300}")
	w.run(30*time.Second, 10*time.Second)
	require.False(t, w.idle())
	require.NoError(t, w.direct.Delete(t.Context(), w.thePolicy("all")))
	w.settle()
	require.NotEmpty(t, w.thePolicy("all").Finalizers)
	w.run(30*time.Minute, time.Minute)
	assert.Equal(t, []string{"Success"}, results(w.recommendation()))
	assert.Empty(t, w.recommendation().Finalizers)
	policies := &v1alpha1.AttunePolicyList{}
	require.NoError(t, w.direct.List(t.Context(), policies, client.InNamespace(w.namespace)))
	assert.Empty(t, policies.Items)
}

// Case 38: a runtime refuses every growth of its containers. What it did not carry out is taken back, and its node is
// asked for growth again only a cooldown later, and told so meanwhile; once it is whole, the pod is sized.
func TestLoopsRememberARuntimeThatRefuses(t *testing.T) {
	t.Parallel()
	w := growing(t, kubelet.Options{}, "cpu=500m,memory=512Mi", "")
	w.node.Faults.Error = "NRI says no"
	w.policy("all", onceAnHour)
	w.until(time.Hour, "it was tried and taken back", func() bool {
		return w.idle() && len(results(w.recommendation())) > 0
	})
	tried := w.clock.Now()
	require.Equal(t, int64(500), cpuRequest(w.pod()))
	require.Len(t, results(w.recommendation()), 1, "%s", w.describe())
	w.run(50*time.Minute, 5*time.Minute)
	assert.Len(t, results(w.recommendation()), 1, "not again within the cooldown: %s", w.describe())
	w.until(time.Hour, "it is tried again", func() bool { return len(results(w.recommendation())) > 1 && w.idle() })
	assert.Greater(t, w.clock.Since(tried), 50*time.Minute)
	w.run(65*time.Minute, 5*time.Minute)
	assert.Len(t, results(w.recommendation()), 2, "and then later still")
	blocked := blockedBy(w.recommendation())
	assert.Equal(t, resize.ReasonNodeBlocked, blocked.Reason)
	assert.Contains(t, blocked.Message, "NRI says no")
	assert.Equal(t, int64(500), cpuRequest(w.pod()))
	w.node.Faults.Error = ""
	w.until(4*time.Hour, "the runtime is whole", func() bool { return w.idle() && cpuRequest(w.pod()) == 1200 })
}
