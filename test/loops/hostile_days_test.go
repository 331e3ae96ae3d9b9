package loops

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/test/kubelet"
)

// limitQuota is a quota of CPU limits, in millicores, that changes.
func (w *world) limitQuota(most *int64) {
	w.memoryServer.Validate = func(pod *corev1.Pod) error {
		sum := int64(0)
		for _, p := range w.pods() {
			sum += p.Spec.Containers[0].Resources.Limits.Cpu().MilliValue()
		}
		asks := pod.Spec.Containers[0].Resources.Limits.Cpu().MilliValue()
		if sum+asks > *most {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, pod.Name, fmt.Errorf("exceeded quota: q, requested: limits.cpu=%dm, used: limits.cpu=%dm, limited: limits.cpu=%dm", asks, sum, *most))
		}
		return nil
	}
}

// flow lets time go by, a pass every 30 seconds: ReplicaSets whose pods are rejected try again in every pass.
func (w *world) flow(d time.Duration) {
	for end := w.clock.Now().Add(d); w.clock.Now().Before(end); w.clock.SetTime(w.clock.Now().Add(30 * time.Second)) {
		w.pass()
	}
}

// A quota that has room for the template's pods only, comes and goes each hour for a day, while pods are deleted.
func TestLoopsQuotaThatComesAndGoes(t *testing.T) {
	t.Parallel()
	if server != nil {
		t.Skip("the quota is in memory")
	}
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.3, Memory: 60}
	w.memory["app"] = 60
	w.policy("all", "updateStrategy: {type: Initial}\ncpu: {maxChangePercent: 1000}")
	w.deployment("web", 0, w.app("cpu=100m,memory=64Mi", "cpu=200m,memory=128Mi"))
	w.until(time.Hour, "new pods are sized", func() bool { return len(w.recommendations()) > 0 && w.recommendation().Spec.Seed != nil })
	most := int64(650)
	w.limitQuota(&most)
	w.scale("web", 3)
	writes, events := len(w.link.Calls()), len(w.told.lines)
	missing := 0
	for hour := range 24 {
		most = []int64{650, 0, 650, 5000}[hour%4]
		for _, pod := range w.pods() { // all are created again
			require.NoError(t, w.direct.Delete(t.Context(), &pod, client.GracePeriodSeconds(0)))
		}
		if hour%5 == 0 {
			w.wire() // the leader changes
		}
		w.flow(30 * time.Minute)
		if most > 0 && len(w.pods()) != 3 {
			missing++
			t.Logf("hour %d: quota %d, %d pods, %v", hour, most, len(w.pods()), w.recommendation().Status.AdmissionWithdrawn)
		}
		w.flow(30 * time.Minute)
	}
	t.Log(w.wroteTo(writes), len(w.told.lines)-events)
	assert.Zero(t, missing)
	assert.LessOrEqual(t, len(w.told.lines)-events, 3*24, "events")
	for call, n := range w.wroteTo(writes) {
		assert.LessOrEqual(t, n, 5*24, call)
	}
}

// An HPA is deleted and created again each minute for two hours: one write of each object for each change.
func TestLoopsHPAThatFlaps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.autoscalers = realHPAs{w.direct}
	w.wire()
	w.usage.of["app"] = used{CPU: 0.25, Memory: 200}
	w.memory["app"] = 200
	w.deployment("web", 3, w.app("cpu=1,memory=512Mi", ""))
	w.startNewPods()
	require.NoError(t, w.direct.Create(t.Context(), cpuHPA(w.namespace, "web")))
	w.policy("all", "updateStrategy: {type: Auto}\ncpu: {maxChangePercent: 90}")
	w.run(time.Hour, 5*time.Minute)
	before := len(w.link.Calls())
	for range 60 {
		require.NoError(t, w.direct.Delete(t.Context(), cpuHPA(w.namespace, "web")))
		w.run(time.Minute, time.Minute)
		require.NoError(t, w.direct.Create(t.Context(), cpuHPA(w.namespace, "web")))
		w.run(time.Minute, time.Minute)
	}
	for call, n := range w.wroteTo(before) {
		assert.LessOrEqual(t, n, 2*60, call)
	}
	for _, pod := range w.pods() {
		assert.Equal(t, int64(1000), cpuRequest(&pod))
	}
}

// The mode of the policy becomes Observe while a pod waits for a node with its raised size.
func TestLoopsPolicyThatGoesWhileAPodWaits(t *testing.T) {
	t.Parallel()
	for name, goes := range map[string]func(w *world){
		"Observe": func(w *world) {
			w.change("all", func(s *v1alpha1.AttunePolicySpec) { s.UpdateStrategy.Type = ptr.To(v1alpha1.UpdateObserve) })
		},
		"stays": func(*world) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kubelet.Options{CPU: "2"})
			w.seeded = true
			w.usage.of["app"] = used{CPU: 1.2, Memory: 60}
			w.memory["app"] = 60
			w.policy("all", "updateStrategy: {type: Initial}\ncpu: {maxChangePercent: 1000}")
			w.deployment("web", 0, w.app("cpu=100m,memory=64Mi", ""))
			w.until(time.Hour, "new pods are sized", func() bool { return len(w.recommendations()) > 0 && w.recommendation().Spec.Seed != nil })
			w.scale("web", 3)
			w.run(5*time.Minute, 15*time.Second)
			waiting := 0
			for _, pod := range w.pods() {
				if pod.Spec.NodeName == "" {
					waiting++
				}
			}
			require.Positive(t, waiting)
			goes(w)
			w.run(time.Hour, time.Minute)
			for _, pod := range w.pods() {
				assert.Equal(t, corev1.PodRunning, pod.Status.Phase, "%s %s", pod.Name, pod.Spec.Containers[0].Resources.Requests.Cpu())
			}
		})
	}
}
