package loops

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/test/kubelet"
)

// cpuHPA is an HPA of the Deployment web on CPU utilization.
func cpuHPA(namespace, name string) *autoscalingv2.HorizontalPodAutoscaler {
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas = ptr.To[int32](2), 40
	hpa.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70)},
	}}}
	return hpa
}

// Case B7: an HPA on CPU is deleted, fixed or created again, as KEDA and deploy tools do. CPU is not resized while it is
// away, and the block is over a day later.
func TestAnHPAThatGoesAwayStillBlocks(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]struct {
		fixed   bool
		lasting time.Duration
		back    string
	}{
		"deleted for 3 hours":             {lasting: 3 * time.Hour, back: "keda-hpa-web"},
		"fixed for 3 hours":               {fixed: true, lasting: 3 * time.Hour},
		"created again after 30 seconds":  {lasting: 30 * time.Second, back: "keda-hpa-web"},
		"renamed with a gap of 2 minutes": {lasting: 2 * time.Minute, back: "web"},
		"deleted for ever":                {lasting: 23 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, kubelet.Options{})
			w.autoscalers = realHPAs{w.direct}
			w.wire()
			w.seeded = true
			w.usage.of["app"] = used{CPU: 0.25, Memory: 200}
			w.memory["app"] = 200
			w.deployment("web", 3, w.app("cpu=1,memory=512Mi", ""))
			w.startNewPods()
			hpa := cpuHPA(w.namespace, "keda-hpa-web")
			require.NoError(t, w.direct.Create(t.Context(), hpa))
			w.policy("all", "updateStrategy: {type: Auto}\ncpu: {maxChangePercent: 90}")
			w.run(3*time.Hour, 5*time.Minute)
			setMost := func(most int32) {
				require.NoError(t, w.direct.Get(t.Context(), client.ObjectKeyFromObject(hpa), hpa))
				hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas = ptr.To(min(most, 3)), most
				require.NoError(t, w.direct.Update(t.Context(), hpa))
			}
			if away.fixed {
				setMost(3)
			} else {
				require.NoError(t, w.direct.Delete(t.Context(), hpa))
			}
			w.run(away.lasting/2, min(5*time.Minute, away.lasting/6))
			w.wire() // the operator restarts
			w.run(away.lasting/2, min(5*time.Minute, away.lasting/6))
			switch {
			case away.fixed:
				setMost(40)
			case away.back != "":
				require.NoError(t, w.direct.Create(t.Context(), cpuHPA(w.namespace, away.back)))
			}
			w.run(30*time.Minute, 5*time.Minute)
			for _, pod := range w.pods() {
				assert.Equal(t, int64(1000), cpuRequest(&pod), pod.Name)
			}
			assert.Len(t, w.recommendation().Spec.HPABindings, 1)
			if away.back == "" && !away.fixed {
				w.until(2*time.Hour, "a day later nothing blocks", func() bool {
					return slices.ContainsFunc(w.pods(), func(p corev1.Pod) bool { return cpuRequest(&p) < 1000 })
				})
				assert.Empty(t, w.recommendation().Spec.HPABindings)
			}
		})
	}
}
