package loops

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/test/kubelet"
	"attune.io/attune/usage"
)

// Ten replicas at defaults finish a resize step of 50 % in ten waves of one pod, each after the observation of the one
// before, and without a cooldown between them. The next step waits for the cooldown.
func TestLoopsFinishAStepOfTenReplicasWithoutCooldowns(t *testing.T) {
	t.Parallel()
	w := shrinking(t, 10)
	asked := w.asking(func() error { return nil })
	w.policy("all", "updateStrategy: {type: Auto}")
	w.until(3*time.Hour, "the step begins", func() bool { return len(*asked) > 0 })
	began := w.clock.Now()
	w.until(75*time.Minute, "ten replicas are resized and observed", func() bool {
		assert.LessOrEqual(t, len(w.recommendation().Status.Records), 1, "one pod at a time")
		return w.lowered() == 10 && w.idle()
	})
	for i := 1; i < 10; i++ {
		assert.GreaterOrEqual(t, (*asked)[i].Sub((*asked)[i-1]), 5*time.Minute, "a clean observation between two waves")
	}
	for _, pod := range w.pods() {
		assert.Equal(t, int64(250), cpuRequest(&pod), "one step")
	}
	ended := w.clock.Now()
	w.t.Logf("the step took %s", ended.Sub(began))
	w.until(3*time.Hour, "the next step", func() bool { return len(*asked) > 10 })
	assert.GreaterOrEqual(t, (*asked)[10].Sub((*asked)[9]), time.Hour, "the cooldown separates two steps")
	require.Equal(t, v1alpha1.PhaseResizing, w.recommendation().Status.Phase)
}

// A resize step goes on without a cooldown after a restart of the operator, and takes along a pod that is created
// meanwhile.
func TestLoopsContinueAStep(t *testing.T) {
	t.Parallel()
	for name, happens := range map[string]struct {
		does func(*world)
		pods int
	}{
		"after a restart":                {func(w *world) { w.wire() }, 4},
		"with a pod created in the step": {func(w *world) { w.scale("web", 5); w.startNewPods() }, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := shrinking(t, 4)
			w.policy("all", "updateStrategy: {type: Auto}")
			w.until(4*time.Hour, "one pod is observed, the second one is resized", func() bool { return w.lowered() == 2 })
			happens.does(w)
			w.until(50*time.Minute, "the other pods follow without a cooldown of an hour", func() bool { return w.lowered() == happens.pods && w.idle() })
			for _, pod := range w.pods() {
				assert.Equal(t, int64(250), cpuRequest(&pod), "one step")
			}
		})
	}
}

// A regression ends the step: no pod follows before the cooldown.
func TestLoopsEndAStepAtARegression(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.usage.of["app"] = used{CPU: 0.4, Memory: 200}
	w.memory["app"] = 200
	w.deployment("web", 4, w.app("cpu=500m,memory=512Mi", "memory=1Gi"))
	w.startNewPods()
	w.policy("all", "updateStrategy: {type: Auto}\n"+lowersMemory)
	w.until(3*time.Hour, "the second wave is observed", func() bool { return len(w.recommendation().Status.Verified) > 0 && w.watched() != "" })
	assert.Nil(t, w.recommendation().Status.Backoff)
	w.memory["app"] = 900
	w.until(time.Hour, "reverted", func() bool { return w.told.has("Warning Reverted") })
	w.run(50*time.Minute, time.Minute)
	untouched := countOf(w.pods(), func(p *corev1.Pod) bool { return p.Generation == 1 })
	assert.Equal(t, int64(2), untouched, "no wave follows")
}

// recentUsages yields the present usage of the pods' containers as the samples of the last minutes.
type recentUsages struct{ w *world }

func (r recentUsages) Read(_ context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	for _, pod := range r.w.pods() {
		used := r.w.usage.of["app"]
		series := usage.Series{Namespace: pod.Namespace, Pod: pod.Name, Container: "app"}
		for at := query.Start; !at.After(query.End); at = at.Add(query.Step) {
			series.CPU = append(series.CPU, usage.Sample{At: at.UnixMilli(), Value: used.CPU})
		}
		yield(series)
	}
	return usage.Report{}, nil
}

// A starved container (33m used, 10m requested) reaches its target two minutes after it has one, also in a cooldown of
// an hour and past the cap of 50 %. Without recent usage it takes a step an hour.
func TestLoopsRaiseAStarvedContainerAtOnce(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		w := newWorld(t, kubelet.Options{})
		w.usage.of["app"] = used{CPU: 0.033, Memory: 200}
		w.memory["app"] = 200
		w.deployment("web", 1, w.app("cpu=10m,memory=512Mi", ""))
		w.startNewPods()
		if known {
			w.workloads.Recently = func(policy.Settings) (usage.Source, error) { return recentUsages{w}, nil }
		}
		w.run(15*time.Minute, time.Minute) // usage from before the pod is not its own
		w.policy("all", "updateStrategy: {type: Auto}")
		w.until(time.Hour, "a target", func() bool {
			return len(w.recommendations()) > 0 && len(w.recommendation().Spec.Containers) > 0 && w.recommendation().Spec.Containers[0].Target.CPURequest != nil
		})
		target := w.recommendation().Spec.Containers[0].Target.CPURequest.MilliValue()
		require.Greater(t, target, int64(33))
		if known {
			w.until(2*time.Minute, "at the target", func() bool { return cpuRequest(w.pod()) == target })
			continue
		}
		w.run(2*time.Hour, time.Minute)
		assert.Less(t, cpuRequest(w.pod()), int64(33), "two steps of 50 %")
	}
}
