package integration

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/test/othercrd"
)

func rollout(name string, spec map[string]any) *unstructured.Unstructured {
	of := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	of.SetGroupVersionKind(workload.ArgoGroupVersion.WithKind("Rollout"))
	of.SetName(name)
	return of
}

// templateOf a container with these requests, as the text that a user wrote.
func templateOf(cpu, memory string) map[string]any {
	return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{
		"name": "app", "image": "example.org/app:1", "resources": map[string]any{"requests": map[string]any{"cpu": cpu, "memory": memory}},
	}}}}
}

// TestRollouts: Argo Rollouts are sized as Deployments are, also where a Deployment has their template; one that cannot
// be read, which the CRD lets through, is left alone and does not stop the others.
func TestRollouts(t *testing.T) {
	install := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{othercrd.Open(workload.ArgoGroupVersion.WithKind("Rollout"))}, MaxTime: patience}
	_, err := envtest.InstallCRDs(server, install)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, envtest.UninstallCRDs(server, install)) })
	a := &autoscaled{t: t, client: newClient(t), rollouts: true}
	a.namespace = newNamespace(t, a.client)
	a.create(rollout("web", map[string]any{"replicas": int64(2), "template": templateOf("100m", "128Mi")}))
	a.create(rollout("broken", map[string]any{"template": templateOf("100m", "a lot")}))
	a.create(rollout("shared", map[string]any{"workloadRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "parked"}}))
	labels := map[string]string{"app": "parked"}
	a.create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "parked"}, Spec: appsv1.DeploymentSpec{
		Replicas: ptr.To[int32](0), Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "example.org/main:1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("300m"), "memory": resource.MustParse("1Gi")}},
		}}}},
	}})
	policy := policyWith(t, "updateStrategy: {type: Auto}")
	policy.SetName("all")
	require.NoError(t, unstructured.SetNestedMap(policy.Object, map[string]any{"kind": "Rollout"}, "spec", "targetRef"))
	a.create(policy)
	a.startLoops()

	containers := func(t *assert.CollectT, name string) (names []string) {
		rec := &v1alpha1.AttuneRecommendation{}
		require.NoError(t, a.client.Get(a.t.Context(), client.ObjectKey{Namespace: a.namespace, Name: name}, rec))
		for _, c := range rec.Spec.Containers {
			names = append(names, c.Name)
			assert.NotNil(t, c.Target.CPURequest)
		}
		return names
	}
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		assert.Equal(t, []string{"app"}, containers(t, "rollout-web"))
		assert.Equal(t, []string{"main"}, containers(t, "rollout-shared"), "the template of the Deployment")
		p := &v1alpha1.AttunePolicy{}
		require.NoError(t, a.client.Get(a.t.Context(), client.ObjectKey{Namespace: a.namespace, Name: "all"}, p))
		require.NotNil(t, p.Status.Workloads)
		ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		require.NotNil(t, ready)
		assert.Equal(t, metav1.ConditionTrue, ready.Status, ready.Message)
	}, patience, 100*time.Millisecond)
	rec := &v1alpha1.AttuneRecommendation{}
	err = a.client.Get(t.Context(), client.ObjectKey{Namespace: a.namespace, Name: "rollout-broken"}, rec)
	require.NoError(t, client.IgnoreNotFound(err))
	assert.Empty(t, rec.Spec.Containers, "what cannot be read has no size")

	a.create(&autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "scaler"}, Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: workload.ArgoGroupVersion.String(), Kind: "Rollout", Name: "web"},
		MinReplicas:    ptr.To[int32](2), MaxReplicas: 9,
		Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
			Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70)},
		}}},
	}})
	a.untilBlocked("HPA", "web/app: cpu: HorizontalPodAutoscaler scaler scales on the cpu utilization")
}
