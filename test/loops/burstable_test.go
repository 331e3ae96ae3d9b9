package loops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/test/kubelet"
)

// Pods whose limits stay use all of both limits: one request stays just below its limit, because their QoS class cannot
// change. Running and new pods have the same size, and nothing is resized or written again and again for the rest.
func TestLoopsKeepARequestBelowItsLimit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		requests, limits string
		cpu, memory      float64
		wantCPU          int64
		wantMemory       string
	}{
		"CPU":                 {"cpu=100m,memory=64Mi", "cpu=500m,memory=512Mi", 0.49, 480, 499, "512Mi"},
		"CPU of a few units":  {"cpu=2m,memory=64Mi", "cpu=10m,memory=512Mi", 0.0099, 480, 9, "512Mi"},
		"memory, CPU is full": {"cpu=500m,memory=64Mi", "cpu=500m,memory=512Mi", 0.49, 480, 500, "536870911"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kubelet.Options{})
			w.usage.of["app"] = used{CPU: tc.cpu, Memory: tc.memory}
			w.memory["app"] = int64(tc.memory)
			w.seeded = true
			w.deployment("web", 2, w.app(tc.requests, tc.limits))
			w.settle()
			w.auto("cpu: {maxChangePercent: 1000, controlledValues: RequestsOnly}\nmemory: {maxChangePercent: 1000, controlledValues: RequestsOnly}")
			w.run(6*time.Hour, 5*time.Minute)

			sizesOf := func() (generations int64) {
				for _, pod := range w.pods() {
					has := pod.Spec.Containers[0].Resources
					assert.Equal(t, tc.wantCPU, has.Requests.Cpu().MilliValue(), w.describe())
					assert.Equal(t, tc.wantMemory, has.Requests.Memory().String())
					assert.Equal(t, corev1.PodQOSBurstable, pod.Status.QOSClass)
					assert.Zero(t, restarts(&pod))
					generations += pod.Generation
				}
				return generations
			}
			settled := sizesOf()
			w.writes = 0
			w.run(24*time.Hour, 10*time.Minute)
			assert.Equal(t, settled, sizesOf(), "no further resize in a day")
			assert.LessOrEqual(t, float64(w.writes), writesAMinute*24*60, "in a day in which nothing changes")
			assert.EqualValues(t, 2, w.recommendation().Status.Pods.AtTarget)
			assert.False(t, w.told.has("Guaranteed"), "%v", w.told.lines)

			require.NoError(t, w.direct.Delete(t.Context(), &w.pods()[0]))
			w.run(2*time.Hour, 10*time.Minute)
			require.Len(t, w.pods(), 2)
			sizesOf()
		})
	}
}
