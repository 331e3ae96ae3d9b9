package plane

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/test/kubelet"
)

// An HPA brings utilization of the request to its target: at once when it grows, though no more than four more or twice
// as many at a time, and five minutes later when it falls; a tenth is tolerated.
func TestAutoscaler(t *testing.T) {
	l := newLab(t, 2, kubelet.Options{})
	load := int64(200) // millicores of all pods together; each asks for 100m
	l.CPU = func(*corev1.Pod, string, time.Time) (int64, bool) {
		return load / max(1, int64(len(l.pods("web-")))), true
	}
	d := deployment("web", 4)
	l.create(d)
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas = ptr.To[int32](2), 20
	hpa.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](50)},
	}}}
	l.create(hpa)
	has := func(want int32, when string) {
		t.Helper()
		assert.Equal(t, want, *read(l, d).Spec.Replicas, when)
	}
	l.run(10 * time.Minute)
	has(4, "200m of 400m is 50 %")
	load = 215
	l.run(10 * time.Minute)
	has(4, "within the tolerance")
	load = 800
	l.run(16 * time.Second)
	has(8, "twice as many")
	l.run(time.Minute)
	has(16, "800m at 50m each")
	load = 100
	l.run(4 * time.Minute)
	has(16, "not yet")
	l.run(3 * time.Minute)
	has(2, "100m at 50m each")
	assert.Equal(t, int32(2), read(l, hpa).Status.CurrentReplicas)
}

// An HPA on memory utilization asks for as many replicas as its formula, with utilization in whole percent; a pod that is
// Pending counts where more replicas are asked for, and the metric that asks for the most decides.
func TestAutoscalerByMemory(t *testing.T) {
	l := newLab(t, 2, kubelet.Options{})
	load, cpu := int64(2000<<20), int64(0) // of all pods together
	l.Memory = func(*corev1.Pod, string, time.Time) (int64, bool) {
		return load / max(1, int64(len(l.pods("web-")))), true
	}
	l.CPU = func(*corev1.Pod, string, time.Time) (int64, bool) { return cpu, cpu > 0 }
	d := deployment("web", 10)
	d.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
	}
	l.create(d)
	hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas = ptr.To[int32](2), 20
	by := func(name corev1.ResourceName, percent int32) autoscalingv2.MetricSpec {
		return autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: name, Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
		}}
	}
	hpa.Spec.Metrics = []autoscalingv2.MetricSpec{by(corev1.ResourceMemory, 80), by(corev1.ResourceCPU, 50)}
	l.create(hpa)
	has := func(want int32, when string) {
		t.Helper()
		assert.Equal(t, want, *read(l, d).Spec.Replicas, when)
	}
	load = 1000 << 20
	l.run(10 * time.Minute)
	has(10, "39 % of 80 % is less, but the CPU is not known")
	cpu = 25
	l.run(10 * time.Minute)
	has(5, "1000Mi over 80 % of 256Mi each; half as much of the CPU as is wanted")
	load = 3000 << 20
	l.run(2 * time.Minute)
	has(15, "3000Mi over 80 % of 256Mi each")
}
