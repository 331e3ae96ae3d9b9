package integration

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/uninstall"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/test/othercrd"
)

// scalers are an HPA of a user, and a ScaledObject with the HPA that KEDA creates of it, all with a target of 70 %.
type scalers struct {
	t         *testing.T
	client    client.Client
	namespace string
}

func newScalers(t *testing.T) scalers {
	t.Helper()
	s := scalers{t, newClient(t), ""}
	s.namespace = newNamespace(t, s.client)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"scaleTargetRef": map[string]any{"name": "queue"},
		"triggers": []any{
			map[string]any{"type": "cron", "metadata": map[string]any{"timezone": "UTC"}},
			map[string]any{"type": "cpu", "metricType": "Utilization", "metadata": map[string]any{"value": "70"}},
		},
	}}}
	object.SetGroupVersionKind(autoscale.ScaledObjectKind)
	object.SetNamespace(s.namespace)
	object.SetName("queue")
	require.NoError(t, s.client.Create(t.Context(), object))
	for _, name := range []string{"web", "keda-hpa-queue"} {
		hpa := &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: name}, MaxReplicas: 9,
				Metrics: []autoscalingv2.MetricSpec{{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricSource{
					Name: "cpu", Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: ptr.To[int32](70)},
				}}},
			},
		}
		if name != "web" {
			hpa.OwnerReferences = []metav1.OwnerReference{{APIVersion: "keda.sh/v1alpha1", Kind: "ScaledObject", Name: "queue", UID: object.GetUID(), Controller: ptr.To(true)}}
		}
		require.NoError(t, s.client.Create(t.Context(), hpa))
	}
	return s
}

func (s scalers) get(c client.Client, name string) (*unstructured.Unstructured, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	if name == "queue" {
		o.SetGroupVersionKind(autoscale.ScaledObjectKind)
	}
	return o, c.Get(s.t.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, o)
}

// target is that of an object, with the annotation of attune.
func (s scalers) target(name string) string {
	s.t.Helper()
	o, err := s.get(s.client, name)
	require.NoError(s.t, err)
	text, err := o.MarshalJSON()
	require.NoError(s.t, err)
	for _, percent := range []string{"60", "70", "85"} {
		if strings.Contains(string(text), `"averageUtilization":`+percent) || strings.Contains(string(text), `"value":"`+percent+`"`) {
			return percent + o.GetAnnotations()[autoscale.OriginalTargetAnnotation]
		}
	}
	return ""
}

func patch(ctx context.Context, c client.Client, o *unstructured.Unstructured, change *autoscale.Rewrite) error {
	return c.Patch(ctx, o.DeepCopy(), client.RawPatch(types.JSONPatchType, change.Patch), client.FieldOwner(podview.FieldManager))
}

const retargetNote = `{"metric":"cpu","original":70,"written":85}`

// TestRetargetRights: with the chart value hpa.retarget, the operator changes targets and the hook restores them.
func TestRetargetRights(t *testing.T) {
	keda := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{othercrd.Open(autoscale.ScaledObjectKind)}, MaxTime: patience}
	_, err := envtest.InstallCRDs(server, keda)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, envtest.UninstallCRDs(server, keda)) })
	t.Run("operator", operatorChangesTargets)
	t.Run("uninstall", uninstallRestoresTargets)
}

// operatorChangesTargets of the version that it read and no other, and none without the right.
func operatorChangesTargets(t *testing.T) {
	s := newScalers(t)
	operator := as(t, "system:serviceaccount:attune-system:attune")
	binding := autoscale.Binding{Resource: recommender.CPU, Original: 70}
	for _, name := range []string{"web", "queue"} {
		o, err := s.get(s.client, name)
		require.NoError(t, err)
		change, err := binding.Rewrite(o, 85)
		require.NoError(t, err)
		assert.True(t, apierrors.IsForbidden(patch(t.Context(), operator, o, change)), "no right was granted")
	}
	for _, o := range renderedWith(t, "certs.provider=self-signed,hpa.retarget=true", "ClusterRole", "ClusterRoleBinding") {
		if o.GetName() == "attune" {
			install(t, s.client, o)
		}
	}
	for _, name := range []string{"web", "queue"} {
		require.Eventually(t, func() bool {
			_, err := s.get(operator, name)
			return !apierrors.IsForbidden(err)
		}, patience, patience/6000, "the right is known a moment later")
		o, err := s.get(operator, name)
		require.NoError(t, err)
		change, err := binding.Rewrite(o, 85)
		require.NoError(t, err)
		newer := o.DeepCopy()
		newer.SetLabels(map[string]string{"team": "shop"})
		require.NoError(t, s.client.Update(t.Context(), newer))
		assert.True(t, apierrors.IsConflict(patch(t.Context(), operator, o, change)), "%s: another version", name)
		change, err = binding.Rewrite(newer, 85)
		require.NoError(t, err)
		require.NoError(t, patch(t.Context(), operator, newer, change))
		assert.Equal(t, "85"+retargetNote, s.target(name))
	}
}

// uninstallRestoresTargets with the rights of the chart's hook. KEDA writes the HPA of a ScaledObject.
func uninstallRestoresTargets(t *testing.T) {
	s := newScalers(t)
	for _, o := range renderedWith(t, "certs.provider=self-signed,hpa.retarget=true", "ClusterRole", "ClusterRoleBinding") {
		if o.GetName() == "attune-uninstall" && o.GetNamespace() == "" {
			install(t, s.client, o)
		}
	}
	for _, name := range []string{"web", "queue", "keda-hpa-queue"} {
		o, err := s.get(s.client, name)
		require.NoError(t, err)
		change, err := autoscale.Binding{Resource: recommender.CPU, Original: 70}.Rewrite(o, 85)
		require.NoError(t, err)
		require.NoError(t, patch(t.Context(), s.client, o, change))
	}
	config := rest.CopyConfig(server)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:attune-system:attune-uninstall"}
	api, err := metadata.NewForConfig(config)
	require.NoError(t, err)
	out := &strings.Builder{}
	options := uninstall.Options{Namespace: "attune-system", Selector: "app.kubernetes.io/name=attune", Out: out, Retargeted: true}
	options.Objects, err = dynamic.NewForConfig(config)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		err = uninstall.Run(t.Context(), api, options)
		return err == nil || !strings.Contains(err.Error(), "forbidden")
	}, patience, patience/6000, "the right is known a moment later")
	require.NoError(t, err)
	assert.Equal(t, []string{"70", "70", "85" + retargetNote}, []string{s.target("web"), s.target("queue"), s.target("keda-hpa-queue")})
	assert.Contains(t, out.String(), "HorizontalPodAutoscaler "+s.namespace+"/web: target 85 % -> 70 %")
	require.NoError(t, uninstall.Run(t.Context(), api, options), "again: there is nothing left to do")
}
