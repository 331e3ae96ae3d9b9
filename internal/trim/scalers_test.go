package trim_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/trim"
)

// The cache has no labels and managed fields of HPAs and ScaledObjects, but still says which program writes them, and which
// target attune changed.
func TestScalersKeepTheirWriterAndOriginalTarget(t *testing.T) {
	const note = `{"metric":"cpu","original":70,"written":85}`
	of := map[string]client.Object{"HPA": &autoscalingv2.HorizontalPodAutoscaler{}, "ScaledObject": &unstructured.Unstructured{Object: map[string]any{}}}
	of["ScaledObject"].GetObjectKind().SetGroupVersionKind(autoscale.ScaledObjectKind)
	for name, o := range of {
		t.Run(name, func(t *testing.T) {
			o.SetAnnotations(map[string]string{autoscale.OriginalTargetAnnotation: note, "team": "shop"})
			o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "argocd-controller", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{}}`)}})
			want := map[string]string{autoscale.OriginalTargetAnnotation: note, autoscale.WriterAnnotation: "Argo CD"}
			for range 2 { // the cache may trim an object again
				kept, err := trim.Object(o)
				require.NoError(t, err)
				assert.Equal(t, want, kept.(client.Object).GetAnnotations())
				assert.Empty(t, kept.(client.Object).GetManagedFields())
			}
		})
	}
	cpu := autoscalingv2.MetricSpec{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
		Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](85)},
	}}
	whole := &autoscalingv2.HorizontalPodAutoscaler{}
	whole.Spec.Metrics = []autoscalingv2.MetricSpec{{Type: autoscalingv2.ExternalMetricSourceType}, cpu}
	keda := of["ScaledObject"].(*unstructured.Unstructured)
	keda.Object["spec"] = map[string]any{"triggers": []any{map[string]any{"type": "cron"}, map[string]any{"type": "cpu", "metadata": map[string]any{"value": "85"}}}}
	for path, o := range map[string]client.Object{"/spec/metrics/1/resource/target/averageUtilization": whole, "/spec/triggers/1/metadata/value": keda} {
		o.SetAnnotations(map[string]string{autoscale.OriginalTargetAnnotation: note, autoscale.PathAnnotation: "'; echo forged"})
		for range 2 {
			kept, err := trim.Object(o)
			require.NoError(t, err)
			assert.Equal(t, path, kept.(client.Object).GetAnnotations()[autoscale.PathAnnotation], "of the whole object")
		}
	}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{}
	hpa.Spec.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleDown: &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: ptr.To[int32](30)}}
	kept, err := trim.Object(hpa)
	require.NoError(t, err)
	assert.Equal(t, int32(30), *kept.(*autoscalingv2.HorizontalPodAutoscaler).Spec.Behavior.ScaleDown.StabilizationWindowSeconds)
	assert.Empty(t, hpa.Annotations)
}
