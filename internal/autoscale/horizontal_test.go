package autoscale_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
)

func TestWhichMetricsBindWhichRequests(t *testing.T) {
	cpu := func(container string, percent int32) autoscale.Binding {
		return autoscale.Binding{HPA: "web", Container: container, Resource: recommender.CPU, Percent: percent}
	}
	memory := func(container string, percent int32) autoscale.Binding {
		return autoscale.Binding{HPA: "web", Container: container, Resource: recommender.Memory, Percent: percent}
	}
	pods := autoscalingv2.MetricSpec{Type: autoscalingv2.PodsMetricSourceType, Pods: &autoscalingv2.PodsMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "requests_per_second"}, Target: averageValue("100"),
	}}
	object := autoscalingv2.MetricSpec{Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricSource{
		DescribedObject: autoscalingv2.CrossVersionObjectReference{Kind: "Ingress", Name: "web"},
		Metric:          autoscalingv2.MetricIdentifier{Name: "hits"}, Target: averageValue("100"),
	}}
	external := autoscalingv2.MetricSpec{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricSource{
		Metric: autoscalingv2.MetricIdentifier{Name: "s0-kafka"}, Target: averageValue("5"),
	}}
	for _, tc := range []struct {
		name    string
		metrics []autoscalingv2.MetricSpec
		want    []autoscale.Binding
	}{
		{"CPU utilization", []autoscalingv2.MetricSpec{ofPods("cpu", utilization(70))}, []autoscale.Binding{cpu("", 70)}},
		{"memory utilization", []autoscalingv2.MetricSpec{ofPods("memory", utilization(75))}, []autoscale.Binding{memory("", 75)}},
		{"both", []autoscalingv2.MetricSpec{ofPods("cpu", utilization(70)), ofPods("memory", utilization(75))}, []autoscale.Binding{cpu("", 70), memory("", 75)}},
		{"CPU of one container", []autoscalingv2.MetricSpec{ofContainer("app", "cpu", utilization(60))}, []autoscale.Binding{cpu("app", 60)}},
		{"memory of one container", []autoscalingv2.MetricSpec{ofContainer("app", "memory", utilization(60))}, []autoscale.Binding{memory("app", 60)}},
		{"no metrics are 80 % of CPU", nil, []autoscale.Binding{cpu("", 80)}},
		{"an average value of CPU", []autoscalingv2.MetricSpec{ofPods("cpu", averageValue("500m"))}, nil},
		{"an average value of a container's memory", []autoscalingv2.MetricSpec{ofContainer("app", "memory", averageValue("1Gi"))}, nil},
		{"a utilization without a figure", []autoscalingv2.MetricSpec{ofPods("cpu", autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType})}, []autoscale.Binding{cpu("", 0)}},
		{"another resource", []autoscalingv2.MetricSpec{ofPods("ephemeral-storage", utilization(70))}, nil},
		{"a metric of pods", []autoscalingv2.MetricSpec{pods}, nil},
		{"a metric of an object", []autoscalingv2.MetricSpec{object}, nil},
		{"an external metric", []autoscalingv2.MetricSpec{external}, nil},
		{"KEDA with a queue and a CPU trigger", []autoscalingv2.MetricSpec{external, ofPods("cpu", utilization(50))}, []autoscale.Binding{cpu("", 50)}},
		{"a resource metric without its source", []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType}}, nil},
		{"a container metric without its source", []autoscalingv2.MetricSpec{{Type: autoscalingv2.ContainerResourceMetricSourceType}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			of := hpa("web", tc.metrics...)
			assert.Equal(t, tc.want, autoscale.Bindings(&of, web()))
		})
	}
}

func TestWhichWorkloadAnHPAScales(t *testing.T) {
	owned := web()
	owned.Name = "web-inner"
	owned.OwnedBy = workload.Owner{GroupKind: schema.GroupKind{Group: "example.org", Kind: "Shop"}, Name: "web"}
	job := workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindJob, Name: "web"}}
	cloneSet := workload.Workload{Identity: workload.Identity{Kind: "CloneSet.apps.kruise.io", Name: "web"}}
	ref := func(apiVersion, kind, name string) autoscalingv2.CrossVersionObjectReference {
		return autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: name}
	}
	for _, tc := range []struct {
		name string
		ref  autoscalingv2.CrossVersionObjectReference
		of   workload.Workload
		want bool
	}{
		{"the workload", ref("apps/v1", "Deployment", "web"), web(), true},
		{"any version", ref("apps/v1beta1", "Deployment", "web"), web(), true},
		{"the former group", ref("extensions/v1beta1", "Deployment", "web"), web(), true},
		{"no version", ref("", "Deployment", "web"), web(), true},
		{"another name", ref("apps/v1", "Deployment", "web-2"), web(), false},
		{"another kind", ref("apps/v1", "StatefulSet", "web"), web(), false},
		{"another group", ref("apps.kruise.io/v1", "Deployment", "web"), web(), false},
		{"a Job", ref("batch/v1", "Job", "web"), job, true},
		{"a Job of another group", ref("apps/v1", "Job", "web"), job, false},
		{"of a kind that is added", ref("apps.kruise.io/v1alpha1", "CloneSet", "web"), cloneSet, true},
		{"of a kind that is added, by another group", ref("apps/v1", "CloneSet", "web"), cloneSet, false},
		{"the object that owns it", ref("example.org/v1", "Shop", "web"), owned, true},
		{"another object of that kind", ref("example.org/v1", "Shop", "web-2"), owned, false},
		{"nothing, where nothing owns it", ref("", "", ""), web(), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			of := hpa("web", ofPods("cpu", utilization(70)))
			of.Spec.ScaleTargetRef = tc.ref
			assert.Equal(t, tc.want, len(autoscale.Bindings(&of, tc.of)) > 0)
			if tc.want {
				assert.Contains(t, autoscale.TargetKeys(tc.of), autoscale.TargetKey(&of), "it is found by its key")
			}
		})
	}
}

func TestTheSentenceOfABinding(t *testing.T) {
	of := hpa("web-scaler", ofPods("cpu", utilization(70)), ofContainer("app", "memory", utilization(60)))
	of.Spec.Metrics = append(of.Spec.Metrics, ofPods("cpu", autoscalingv2.MetricTarget{}))
	var sentences []string
	for _, b := range autoscale.Bindings(&of, web()) {
		sentences = append(sentences, b.String())
	}
	assert.Equal(t, []string{
		"HorizontalPodAutoscaler web-scaler scales on the cpu utilization (target 70 % of the request): another request would change the number of replicas",
		"HorizontalPodAutoscaler web-scaler scales on the memory utilization of container app (target 60 % of the request): another request would change the number of replicas",
		"HorizontalPodAutoscaler web-scaler scales on the cpu utilization: another request would change the number of replicas",
	}, sentences)
}

// desired is the number of replicas that an HPA wants, by the published formula: N if the ratio of usage to the target
// is within the tolerance of 1, or else ⌈N × ratio⌉, within its bounds.
func desired(of *autoscalingv2.HorizontalPodAutoscaler, replicas int32, usage, request, target, tolerance float64) int32 {
	ratio := usage / (request * target)
	next := float64(replicas)
	if math.Abs(ratio-1) > tolerance {
		next = math.Ceil(float64(replicas) * ratio)
	}
	least := float64(ptr.Deref(of.Spec.MinReplicas, 1))
	return int32(min(max(next, least), float64(of.Spec.MaxReplicas)))
}

// Without a binding, no request and no usage changes the number of replicas that the HPA wants.
func TestAnUnboundRequestNeverChangesTheReplicas(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	free := 0
	for range 20000 {
		of := hpa("web", ofPods("cpu", utilization(70)))
		of.Spec.MinReplicas, of.Spec.MaxReplicas = ptr.To(1+draw.Int32N(4)), 1+draw.Int32N(4)
		if draw.IntN(4) == 0 {
			of.Spec.MinReplicas = nil
		}
		least := ptr.Deref(of.Spec.MinReplicas, 1)
		if least > of.Spec.MaxReplicas || len(autoscale.Bindings(&of, web())) > 0 {
			continue
		}
		free++
		replicas, usage, target, tolerance := 1+draw.Int32N(20), draw.Float64()*5, 0.1+draw.Float64(), draw.Float64()/2
		before := desired(&of, replicas, usage, 0.01+draw.Float64(), target, tolerance)
		after := desired(&of, replicas, usage, 0.01+draw.Float64(), target, tolerance)
		require.Equal(t, before, after, "%v", of.Spec)
	}
	require.Greater(t, free, 1000, "the draws hardly ever left a request free")
}

func TestWhichHPAsAskForOneNumberOnly(t *testing.T) {
	for _, tc := range []struct {
		name  string
		least *int32
		most  int32
		binds bool
	}{
		{"2 to 10", ptr.To[int32](2), 10, true},
		{"9 to 10", ptr.To[int32](9), 10, true},
		{"3 to 3", ptr.To[int32](3), 3, false},
		{"the default minimum is 1", nil, 1, false},
		{"the default minimum and more", nil, 2, true},
		{"to zero", ptr.To[int32](0), 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			of := hpa("web", ofPods(corev1.ResourceCPU, utilization(70)))
			of.Spec.MinReplicas, of.Spec.MaxReplicas = tc.least, tc.most
			assert.Equal(t, tc.binds, len(autoscale.Bindings(&of, web())) > 0)
		})
	}
	frozen := hpa("web", ofPods("cpu", utilization(70)))
	disabled := &autoscalingv2.HPAScalingRules{SelectPolicy: ptr.To(autoscalingv2.DisabledPolicySelect)}
	frozen.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: disabled, ScaleDown: disabled}
	assert.NotEmpty(t, autoscale.Bindings(&frozen, web()), "an HPA that is frozen for now is thawed one day")
}
