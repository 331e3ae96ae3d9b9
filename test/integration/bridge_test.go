package integration

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/bridge"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/trim"
	"attune.io/attune/internal/workload"
	"attune.io/attune/test/othercrd"
)

// realVPADefinition is VPA's own CustomResourceDefinition, from its module.
func realVPADefinition(t *testing.T) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	crd, err := othercrd.VPA(t.Context())
	require.NoError(t, err)
	return crd
}

// bridged is a namespace with Deployment web, its recommendation, the chart's rights with bridge.vpa, and the loop that has no
// others.
type bridged struct {
	t    *testing.T
	loop *bridge.Loop
	// admin may do all.
	admin     client.Client
	namespace string
	events    *said
}

const bridgeRole = "attune-bridge-vpa"

func newBridged(t *testing.T, crd *apiextensionsv1.CustomResourceDefinition) *bridged {
	t.Helper()
	definitions := envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}, MaxTime: patience}
	_, err := envtest.InstallCRDs(server, definitions)
	require.NoError(t, err)
	b := &bridged{t: t, admin: newClient(t), events: &said{}}
	t.Cleanup(func() {
		require.NoError(t, envtest.UninstallCRDs(server, definitions))
		gone := &unstructured.Unstructured{}
		gone.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		require.Eventually(t, func() bool {
			return apierrors.IsNotFound(b.admin.Get(context.Background(), client.ObjectKey{Name: crd.Name}, gone))
		}, patience, 20*time.Millisecond, "the next test installs it again")
	})
	b.namespace = newNamespace(t, b.admin)
	install(t, b.admin, renderedWith(t, "bridge.vpa=true", "ClusterRole", "ClusterRoleBinding")...)
	b.relabel(v1alpha1.InjectEnabled)
	b.deployment("web")
	b.recommendation("web", "300m")

	config := rest.CopyConfig(server)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:attune-system:attune"}
	operator, err := client.NewWithWatch(config, client.Options{Scheme: newScheme(t), FieldValidation: metav1.FieldValidationStrict})
	require.NoError(t, err)
	b.loop = b.newLoop(operator)
	return b
}

// newLoop reads what the operator has in caches with the rights of an admin: they are filled by lists and watches.
func (b *bridged) newLoop(operator client.WithWatch) *bridge.Loop {
	b.t.Helper()
	all, err := client.NewWithWatch(server, client.Options{Scheme: newScheme(b.t)})
	require.NoError(b.t, err)
	reads := interceptor.NewClient(all, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*metav1.PartialObjectMetadataList); !ok {
				options = append(options, client.InNamespace(b.namespace))
			}
			if err := c.List(ctx, list, options...); err != nil {
				return err
			}
			if vpas, ok := list.(*unstructured.UnstructuredList); ok {
				for i := range vpas.Items {
					if _, err := trim.Object(&vpas.Items[i]); err != nil {
						return err
					}
				}
			}
			return nil
		},
	})
	writes := interceptor.NewClient(operator, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			return reads.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			return reads.List(ctx, list, options...)
		},
	})
	return bridge.New(bridge.Options{
		Client: writes, VPAs: reads, Live: operator, HasVPAs: func() bool { return true }, Role: bridgeRole, Admission: workload.Admission{Operator: "attune-system"},
		Events: b.events.recorder(), Clock: clock.RealClock{},
	})
}

func (b *bridged) relabel(value string) {
	b.t.Helper()
	ns := &corev1.Namespace{}
	require.NoError(b.t, b.admin.Get(b.t.Context(), client.ObjectKey{Name: b.namespace}, ns))
	metav1.SetMetaDataLabel(&ns.ObjectMeta, v1alpha1.InjectLabel, value)
	require.NoError(b.t, b.admin.Update(b.t.Context(), ns))
}

func (b *bridged) deployment(name string) {
	b.t.Helper()
	labels := map[string]string{"app": name}
	require.NoError(b.t, b.admin.Create(b.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.org/app:1", Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")},
			}}}},
		}},
	}))
}

func (b *bridged) recommendation(name, cpu string) *v1alpha1.AttuneRecommendation {
	b.t.Helper()
	id := workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: b.namespace, Name: name}
	amount := resource.MustParse(cpu)
	rec := &v1alpha1.AttuneRecommendation{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: id.RecommendationName()},
		Spec: v1alpha1.AttuneRecommendationSpec{
			Workload: v1alpha1.WorkloadRef{Kind: id.Kind, Name: id.Name}, Policy: v1alpha1.PolicyRef{Name: "all"}, Mode: v1alpha1.UpdateAuto,
			Containers: []v1alpha1.ContainerTarget{{Name: "app", Confidence: "1", Target: v1alpha1.Resources{CPURequest: &amount}}},
			Seed: &v1alpha1.Seed{Revision: "r1", ValidUntil: metav1.NewTime(time.Now().Add(time.Hour)), Containers: []v1alpha1.ContainerSeed{{
				Name: "app", CPURequest: &amount, CPUBoost: &v1alpha1.CPUBoost{Multiplier: "2"},
			}}},
		},
	}
	require.NoError(b.t, b.admin.Create(b.t.Context(), rec))
	return rec
}

// change changes a recommendation as it is now.
func (b *bridged) change(name string, change func(*v1alpha1.AttuneRecommendation)) {
	b.t.Helper()
	rec := &v1alpha1.AttuneRecommendation{}
	require.NoError(b.t, b.admin.Get(b.t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "deployment-" + name}, rec))
	change(rec)
	require.NoError(b.t, b.admin.Update(b.t.Context(), rec))
}

func (b *bridged) pass() {
	b.t.Helper()
	require.NoError(b.t, b.loop.Pass(b.t.Context()))
}

// vpa returns a VPA; nil: there is none of the name.
func (b *bridged) vpa(name string) *unstructured.Unstructured {
	b.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(autoscale.VPAKind)
	err := b.admin.Get(b.t.Context(), client.ObjectKey{Namespace: b.namespace, Name: name}, u)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(b.t, err)
	return u
}

// foreign makes a VPA of a user's.
func (b *bridged) foreign(name, target, mode string) *unstructured.Unstructured {
	b.t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"targetRef":    map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
		"updatePolicy": map[string]any{"updateMode": mode},
	}}}
	u.SetGroupVersionKind(autoscale.VPAKind)
	u.SetName(name)
	u.SetNamespace(b.namespace)
	require.NoError(b.t, b.admin.Create(b.t.Context(), u))
	return u
}

// at reads one field.
func at[T any](t *testing.T, u *unstructured.Unstructured, path ...string) T {
	t.Helper()
	require.NotNil(t, u)
	value, found, err := unstructured.NestedFieldNoCopy(u.Object, path...)
	require.NoError(t, err)
	require.True(t, found, path)
	typed, ok := value.(T)
	require.True(t, ok, "%v is %T", path, value)
	return typed
}

func mode(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	return at[string](t, u, "spec", "updatePolicy", "updateMode")
}

func targetCPU(t *testing.T, u *unstructured.Unstructured) string {
	t.Helper()
	app := at[[]any](t, u, "status", "recommendation", "containerRecommendations")[0].(map[string]any)
	return app["target"].(map[string]any)["cpu"].(string)
}

// TestBridge: with the chart's rights and VPA's real kind there is one object for a recommendation, written where something
// changes and at no other time, and gone with the recommendation.
func TestBridge(t *testing.T) {
	b := newBridged(t, realVPADefinition(t))
	others := b.foreign("sizer", "web", "Recreate")
	b.pass()
	first := b.vpa("attune-deployment-web")
	assert.Equal(t, "Initial", mode(t, first))
	assert.Equal(t, "300m", targetCPU(t, first))
	assert.Equal(t, "True", at[[]any](t, first, "status", "conditions")[0].(map[string]any)["status"])
	app := at[[]any](t, first, "spec", "resourcePolicy", "containerPolicies")[0].(map[string]any)
	assert.Equal(t, map[string]any{"cpu": map[string]any{"type": "Quantity", "quantity": "300m"}}, app["startupBoost"], "VPA's kind keeps it")
	role := &rbacv1.ClusterRole{}
	require.NoError(t, b.admin.Get(t.Context(), client.ObjectKey{Name: bridgeRole}, role))
	assert.Equal(t, []metav1.OwnerReference{{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: bridgeRole, UID: role.UID}}, first.GetOwnerReferences())

	b.pass()
	b.change("web", func(r *v1alpha1.AttuneRecommendation) { r.Spec.DataUntil = ptr.To(metav1.Now()) })
	b.pass()
	assert.Equal(t, first.GetResourceVersion(), b.vpa("attune-deployment-web").GetResourceVersion(), "nothing that is said has changed")

	lost := first.DeepCopy()
	unstructured.RemoveNestedField(lost.Object, "status", "recommendation")
	require.NoError(t, b.admin.Status().Update(t.Context(), lost))
	b.pass()
	assert.Equal(t, first.Object["status"], b.vpa("attune-deployment-web").Object["status"], "what was lost is said again")

	b.change("web", func(r *v1alpha1.AttuneRecommendation) {
		r.Spec.Seed.Containers[0].CPURequest = ptr.To(resource.MustParse("400m"))
		r.Spec.Containers[0].Target.CPURequest = ptr.To(resource.MustParse("400m"))
	})
	b.pass()
	second := b.vpa("attune-deployment-web")
	assert.Equal(t, "400m", targetCPU(t, second))
	assert.Equal(t, first.GetUID(), second.GetUID())

	b.change("web", func(r *v1alpha1.AttuneRecommendation) { r.Spec.Seed = nil })
	b.pass()
	third := b.vpa("attune-deployment-web")
	assert.Equal(t, "Off", mode(t, third))
	assert.NotContains(t, third.Object["spec"], "resourcePolicy")
	b.pass()
	assert.Equal(t, third.GetResourceVersion(), b.vpa("attune-deployment-web").GetResourceVersion())

	require.NoError(t, b.admin.Delete(t.Context(), &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "deployment-web"}}))
	b.pass()
	assert.Nil(t, b.vpa("attune-deployment-web"))
	assert.Equal(t, others.GetResourceVersion(), b.vpa("sizer").GetResourceVersion(), "a user's own is left alone")
}

// TestBridgeDoesNotChangeForeignObjects: an object of somebody else that has the name is never written, and neither is one of the
// operator's own that somebody has taken over, once it was let go. The workload's recommendation tells of it.
func TestBridgeDoesNotChangeForeignObjects(t *testing.T) {
	b := newBridged(t, realVPADefinition(t))
	theirs := b.foreign("attune-deployment-web", "web", "Initial")
	b.pass()
	b.pass()
	assert.Equal(t, theirs.GetResourceVersion(), b.vpa("attune-deployment-web").GetResourceVersion())
	assert.Equal(t, []string{"VPANotPublished deployment-web: the recommendation is not published, " +
		"because another VerticalPodAutoscaler has the name attune-deployment-web. Delete or rename it"}, b.events.notes())
	require.NoError(t, b.admin.Delete(t.Context(), theirs))
	b.pass()
	ours := b.vpa("attune-deployment-web")
	assert.Equal(t, "Initial", mode(t, ours))
	web := workload.Workload{Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: b.namespace, Name: "web"}}
	assert.False(t, autoscale.Sizes(ours, web), "it does not hold the workload")

	require.NoError(t, unstructured.SetNestedField(ours.Object, "Recreate", "spec", "updatePolicy", "updateMode"))
	require.NoError(t, b.admin.Update(t.Context(), ours))
	require.NoError(t, b.admin.Delete(t.Context(), &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "deployment-web"}}))
	require.NotEmpty(t, ours.GetOwnerReferences())
	b.pass()
	taken := b.vpa("attune-deployment-web")
	require.NotNil(t, taken)
	assert.Empty(t, taken.GetOwnerReferences(), "it stays when the bridge's ClusterRole goes")
	assert.Empty(t, taken.GetLabels(), "who deletes the operator's own by their label leaves it")
	assert.Equal(t, ours.Object["spec"], taken.Object["spec"])
	assert.Equal(t, ours.Object["status"], taken.Object["status"])
	assert.True(t, autoscale.Sizes(taken, web), "it is a VPA as any other one")
	b.pass()
	assert.Equal(t, taken.GetResourceVersion(), b.vpa("attune-deployment-web").GetResourceVersion(), "it is written this once")
}

// TestBridgeIsRefusedIfVPAIsInstalled: where VPA's admission controller is registered, nothing is published, until it is gone.
func TestBridgeIsRefusedIfVPAIsInstalled(t *testing.T) {
	b := newBridged(t, realVPADefinition(t))
	others := b.foreign("sizer", "web", "Recreate")
	b.pass()
	require.NotNil(t, b.vpa("attune-deployment-web"))
	registered := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: autoscale.VPAWebhook}}
	require.NoError(t, b.admin.Create(t.Context(), registered))
	t.Cleanup(func() { assert.NoError(t, client.IgnoreNotFound(b.admin.Delete(context.Background(), registered))) })
	b.pass()
	assert.Nil(t, b.vpa("attune-deployment-web"))
	assert.Equal(t, others.GetResourceVersion(), b.vpa("sizer").GetResourceVersion())
	b.pass()
	assert.Nil(t, b.vpa("attune-deployment-web"))
	require.NoError(t, b.admin.Delete(t.Context(), registered))
	b.pass()
	assert.NotNil(t, b.vpa("attune-deployment-web"))
}

// TestBridgeWithoutItsRole: without the owner nothing is written that nobody would take away.
func TestBridgeWithoutItsRole(t *testing.T) {
	b := newBridged(t, realVPADefinition(t))
	b.loop.Role = "attune-bridge-gone"
	require.Error(t, b.loop.Pass(t.Context()))
	assert.Nil(t, b.vpa("attune-deployment-web"))
}

// TestBridgeWithAnOlderKind: fields that an older VPA does not know are dropped by the API server, and not written again and
// again.
func TestBridgeWithAnOlderKind(t *testing.T) {
	crd := realVPADefinition(t)
	for i := range crd.Spec.Versions {
		spec := crd.Spec.Versions[i].Schema.OpenAPIV3Schema.Properties["spec"]
		delete(spec.Properties, "startupBoost")
		policy := spec.Properties["resourcePolicy"].Properties["containerPolicies"].Items.Schema
		delete(policy.Properties, "startupBoost")
	}
	b := newBridged(t, crd)
	loose, err := client.NewWithWatch(server, client.Options{Scheme: newScheme(t)})
	require.NoError(t, err)
	b.loop = b.newLoop(loose)
	b.pass()
	first := b.vpa("attune-deployment-web")
	app := at[[]any](t, first, "spec", "resourcePolicy", "containerPolicies")[0].(map[string]any)
	assert.NotContains(t, app, "startupBoost")
	b.pass()
	assert.Equal(t, first.GetResourceVersion(), b.vpa("attune-deployment-web").GetResourceVersion())
}

// TestBridgeIsBounded: a pass writes no more than its share, and objects that cannot be written keep no others waiting.
func TestBridgeIsBounded(t *testing.T) {
	b := newBridged(t, realVPADefinition(t))
	for i := range 4 {
		b.recommendation(fmt.Sprintf("a%d", i), "200m")
	}
	refuses, err := client.NewWithWatch(server, client.Options{Scheme: newScheme(t)})
	require.NoError(t, err)
	tries := 0
	b.loop = b.newLoop(interceptor.NewClient(refuses, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			tries++
			if o.GetName() != "attune-deployment-web" {
				return apierrors.NewForbidden(autoscale.VPAKind.GroupVersion().WithResource("verticalpodautoscalers").GroupResource(), o.GetName(), errors.New("exceeded quota"))
			}
			return c.Create(ctx, o, options...)
		},
	}))
	b.loop.MostWrites = 2
	for pass := range 2 {
		require.Error(t, b.loop.Pass(t.Context()), "two are refused")
		assert.Equal(t, 2*(pass+1), tries)
	}
	require.NoError(t, b.loop.Pass(t.Context()), "those that were refused rest")
	assert.Equal(t, 5, tries)
	assert.NotNil(t, b.vpa("attune-deployment-web"))
}
