package loops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/kubelet"
)

// Findings 13 and 14 of a review: with autoPromote off, the first wave is the only one with less than the template, also
// among new pods, and status says how to go on.
func TestCanaryWaitsForPromotion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	w.seeded = true
	w.usage.of["app"] = used{CPU: 0.1, Memory: 200}
	w.memory["app"] = 200
	w.deployment("web", 10, w.app("cpu=500m,memory=1Gi", ""))
	w.startNewPods()
	w.policy("all", "updateStrategy: {type: Canary, cooldown: 10m, safetyObservationPeriod: 5m, canary: {percentage: 10, autoPromote: false}}\nmemory: {allowDecrease: true, maxChangePercent: 90}"+lowersCPU)
	below := func() (n int) {
		for _, pod := range w.pods() {
			if cpuRequest(&pod) < 500 || memoryRequest(&pod) < 1024 {
				n++
			}
		}
		return n
	}
	w.run(6*time.Hour, 20*time.Minute)
	assert.Equal(t, 1, below())
	assert.Equal(t, "AwaitsPromotion", blockedBy(w.recommendation()).Reason)
	assert.Contains(t, blockedBy(w.recommendation()).Message, "kubectl attune promote deployment/web -n "+w.namespace)
	w.writes = 0
	w.run(24*time.Hour, 20*time.Minute)
	assert.LessOrEqual(t, float64(w.writes), writesAMinute*24*60, "at rest")

	// Usage falls: the canary goes on alone.
	w.usage.of["app"] = used{CPU: 0.06, Memory: 120}
	w.memory["app"] = 120
	w.run(24*time.Hour, 20*time.Minute)
	assert.Equal(t, 1, below(), "no second pod tries a size")

	// A rollout creates new pods: none has less than the template.
	w.edit(&appsv1.Deployment{}, func(o client.Object) {
		o.(*appsv1.Deployment).Spec.Template.Annotations = map[string]string{"version": "2"}
	})
	w.run(10*time.Minute, time.Minute)
	for _, pod := range w.pods() {
		assert.True(t, pod.Generation > 1 || memoryRequest(&pod) == 1024, "a rollout does not promote")
	}
	w.run(3*time.Hour, 20*time.Minute)
	assert.Equal(t, 1, below(), "the first wave begins again")
	assert.Equal(t, "AwaitsPromotion", blockedBy(w.recommendation()).Reason)

	w.annotate(map[string]string{"attune.io/promote": w.clock.Now().UTC().Format(time.RFC3339)})
	w.run(6*time.Hour, 20*time.Minute)
	assert.Equal(t, 10, below(), w.describe())
	assert.Empty(t, blockedBy(w.recommendation()).Reason)
	w.edit(&appsv1.Deployment{}, func(o client.Object) {
		o.(*appsv1.Deployment).Spec.Template.Annotations = map[string]string{"version": "3"}
	})
	w.run(10*time.Minute, time.Minute)
	assert.Equal(t, 10, below(), "new pods have the promoted size")

	// A later target is promoted on its own, and new pods keep the promoted one until then.
	w.usage.of["app"] = used{CPU: 0.02, Memory: 60}
	w.memory["app"] = 60
	w.run(12*time.Hour, 20*time.Minute)
	least := 0
	for _, pod := range w.pods() {
		if memoryRequest(&pod) < 120 {
			least++
		}
	}
	assert.Equal(t, 1, least, w.describe())
	assert.Equal(t, "AwaitsPromotion", blockedBy(w.recommendation()).Reason)
	w.annotate(map[string]string{"attune.io/promote": ""})
	w.edit(&appsv1.Deployment{}, func(o client.Object) {
		o.(*appsv1.Deployment).Spec.Template.Annotations = map[string]string{"version": "4"}
	})
	w.run(10*time.Minute, time.Minute)
	for _, pod := range w.pods() {
		assert.True(t, pod.Generation > 1 || memoryRequest(&pod) >= 120, "not below the promoted size")
		assert.Less(t, memoryRequest(&pod), int64(1024))
	}
}
