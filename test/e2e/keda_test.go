package e2e

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/autoscale"
)

// scaledObject is KEDA's of two to four replicas, by CPU utilization.
func scaledObject(d *appsv1.Deployment, percent int) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"scaleTargetRef":  map[string]any{"name": d.Name},
		"minReplicaCount": int64(2), "maxReplicaCount": int64(4),
		"triggers": []any{map[string]any{"type": "cpu", "metricType": "Utilization", "metadata": map[string]any{"value": strconv.Itoa(percent)}}},
	}}}
	o.SetGroupVersionKind(autoscale.ScaledObjectKind)
	o.SetNamespace(d.Namespace)
	o.SetName(d.Name)
	return o
}

// triggerOf is the value of a ScaledObject's first trigger, as the API server has it.
func triggerOf(ctx context.Context, o *unstructured.Unstructured) (int32, error) {
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return 0, err
	}
	triggers, _, _ := unstructured.NestedSlice(o.Object, "spec", "triggers")
	trigger, _ := triggers[0].(map[string]any)
	text, _, err := unstructured.NestedString(trigger, "metadata", "value")
	if err != nil {
		return 0, err
	}
	value, err := strconv.ParseInt(text, 10, 32)
	return int32(value), err
}

// hasTrigger: the first trigger of a ScaledObject has a value.
func hasTrigger(ctx context.Context, o *unstructured.Unstructured, want int32) error {
	has, err := triggerOf(ctx, o)
	if err == nil && has != want {
		err = fmt.Errorf("trigger %d, want %d", has, want)
	}
	return err
}

// writeHPA stands in for KEDA until the test ends: each second, it writes the HPA of a ScaledObject as KEDA does
// (controllers/keda/hpa.go in KEDA 2.21). make test-keda has the same expectations of KEDA itself.
func writeHPA(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	o = o.DeepCopy()
	failures := eachSecond(t, func(ctx context.Context) (error, bool) {
		err := writeHPAOnce(ctx, o)
		return err, err != nil && ctx.Err() == nil
	})
	t.Cleanup(func() {
		if all := failures(); len(all) > 0 {
			t.Logf("the HPA of ScaledObject %s was not written %d times: %v", o.GetName(), len(all), all[0])
		}
	})
}

// writeHPAOnce creates the HPA of a ScaledObject, or replaces the whole of it if something differs.
func writeHPAOnce(ctx context.Context, o *unstructured.Unstructured) error {
	target, err := triggerOf(ctx, o)
	if err != nil {
		return err
	}
	hpa := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.GetNamespace(), Name: "keda-hpa-" + o.GetName(), Annotations: o.GetAnnotations(),
			Labels:          map[string]string{"app.kubernetes.io/managed-by": "keda-operator", "app.kubernetes.io/part-of": o.GetName()},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(o, autoscale.ScaledObjectKind)},
		},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: o.GetName()},
			MinReplicas:    ptr.To[int32](2), MaxReplicas: 4,
			Metrics: []autoscalingv2.MetricSpec{{
				Type:     autoscalingv2.ResourceMetricSourceType,
				Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: percent(target)},
			}},
		},
	}
	maps.Copy(hpa.Labels, o.GetLabels())
	found := &autoscalingv2.HorizontalPodAutoscaler{}
	switch err := env.client.Get(ctx, client.ObjectKeyFromObject(hpa), found); {
	case apierrors.IsNotFound(err):
		return env.client.Create(ctx, hpa)
	case err != nil:
		return err
	case *found.Spec.Metrics[0].Resource.Target.AverageUtilization == target && maps.Equal(found.Annotations, hpa.Annotations):
		return nil
	}
	return env.client.Update(ctx, hpa)
}
