package integration

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/uninstall"
)

// TestSwitchesWithoutTheWebhook: the chart's webhooks point at nothing, and a judgement cannot be had. What must work
// then does.
func TestSwitchesWithoutTheWebhook(t *testing.T) {
	c := newClient(t)
	namespace := newNamespace(t, c)
	existing := policyWith(t, `updateStrategy: {type: Auto}`)
	existing.SetNamespace(namespace)
	existing.SetName("existing")
	controllerutil.AddFinalizer(existing, v1alpha1.CleanupFinalizer)
	require.NoError(t, c.Create(t.Context(), existing))
	defaults := object(t, "AttuneDefaults", `{strategy: Workload}`)
	install(t, c, defaults)
	install(t, c, rendered(t, "ValidatingWebhookConfiguration")...)

	probe := policyWith(t, `updateStrategy: {type: Initial}`)
	probe.SetNamespace(namespace)
	probe.SetName("probe")
	require.Eventually(t, func() bool {
		return apierrors.IsInternalError(c.Create(t.Context(), probe.DeepCopy(), client.DryRunAll))
	}, patience, 20*time.Millisecond, "a policy is not let in unjudged")

	t.Run("the kill switch", func(t *testing.T) {
		require.NoError(t, unstructured.SetNestedField(defaults.Object, true, "spec", "paused"))
		require.NoError(t, c.Update(t.Context(), defaults))
		back := defaults.DeepCopy()
		require.NoError(t, unstructured.SetNestedField(back.Object, false, "spec", "paused"))
		assert.True(t, apierrors.IsInternalError(c.Update(t.Context(), back)), "what is switched on again is judged")
	})
	t.Run("the kill switch, where there are no defaults", func(t *testing.T) {
		require.NoError(t, c.Delete(t.Context(), defaults))
		install(t, c, object(t, "AttuneDefaults", `{paused: true}`))
	})
	t.Run("a policy is paused", func(t *testing.T) {
		require.NoError(t, unstructured.SetNestedField(existing.Object, true, "spec", "paused"))
		require.NoError(t, c.Update(t.Context(), existing))
	})
	t.Run("labels, status and finalizers", func(t *testing.T) {
		existing.SetLabels(map[string]string{"team": "shop"})
		require.NoError(t, c.Update(t.Context(), existing))
		require.NoError(t, unstructured.SetNestedField(existing.Object, "Auto", "status", "mode"))
		require.NoError(t, c.Status().Update(t.Context(), existing))
		require.NoError(t, c.Delete(t.Context(), existing))
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(existing), existing))
		controllerutil.RemoveFinalizer(existing, v1alpha1.CleanupFinalizer)
		require.NoError(t, c.Update(t.Context(), existing))
		assert.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(existing), existing)))
	})
}

// TestOnlyTheOperatorWritesRecommendations, whatever rights others were given.
func TestOnlyTheOperatorWritesRecommendations(t *testing.T) {
	c := newClient(t)
	namespace := newNamespace(t, c)
	install(t, c, rendered(t, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")...)
	operator := as(t, "system:serviceaccount:attune-system:attune", "system:masters")
	tenant := as(t, "tenant", "system:masters")

	forged := func(name string) *v1alpha1.AttuneRecommendation {
		return &v1alpha1.AttuneRecommendation{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       v1alpha1.AttuneRecommendationSpec{Mode: "Auto", Workload: v1alpha1.WorkloadRef{Kind: "Deployment", Name: "web"}},
		}
	}
	require.Eventually(t, func() bool {
		return apierrors.IsForbidden(tenant.Create(t.Context(), forged("probe"), client.DryRunAll))
	}, patience, 20*time.Millisecond, "the rule has not come into force")

	rec := forged("deployment-web")
	require.NoError(t, operator.Create(t.Context(), rec))
	rec.Status.Phase = v1alpha1.PhaseIdle
	require.NoError(t, operator.Status().Update(t.Context(), rec))

	changed := rec.DeepCopy()
	changed.Spec.Workload.Name = "bank"
	assert.ErrorContains(t, tenant.Update(t.Context(), changed), "only the operator may write AttuneRecommendations")
	status := rec.DeepCopy()
	status.Status.Records = []v1alpha1.ResizeRecord{{
		PodName: "x", PodUID: "x", Node: "somebody-else's", Phase: v1alpha1.RecordApplied, WrittenAt: metav1.Now(),
		Prior: []v1alpha1.ContainerResources{{Name: "app"}}, Desired: []v1alpha1.ContainerResources{{Name: "app"}},
	}}
	assert.ErrorContains(t, tenant.Status().Update(t.Context(), status), "only the operator may write AttuneRecommendations")

	controllerutil.AddFinalizer(rec, v1alpha1.RecordsFinalizer)
	require.NoError(t, operator.Update(t.Context(), rec))
	require.NoError(t, tenant.Delete(t.Context(), rec))
	require.NoError(t, tenant.Get(t.Context(), client.ObjectKeyFromObject(rec), rec))
	controllerutil.RemoveFinalizer(rec, v1alpha1.RecordsFinalizer)
	require.NoError(t, tenant.Update(t.Context(), rec), "nothing hangs")
	assert.True(t, apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(rec), rec)))
}

// TestUninstall: with the rights of the chart's hook and no more, the finalizers are removed, and all else stays as it is.
func TestUninstall(t *testing.T) {
	c := newClient(t)
	namespace := newNamespace(t, c)
	system := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "attune-system"}}
	require.NoError(t, client.IgnoreAlreadyExists(c.Create(t.Context(), system)))
	for _, o := range rendered(t, "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "ServiceAccount", "ValidatingWebhookConfiguration") {
		if o.GetName() == "attune-uninstall" || o.GetKind() == "ValidatingWebhookConfiguration" {
			install(t, c, o)
		}
	}
	install(t, c, rendered(t, "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")...)
	policy := policyWith(t, `paused: true`)
	policy.SetNamespace(namespace)
	policy.SetName("left")
	policy.SetFinalizers([]string{"example.com/other", v1alpha1.CleanupFinalizer})
	require.NoError(t, c.Create(t.Context(), policy))
	operator := as(t, "system:serviceaccount:attune-system:attune", "system:masters")
	rec := &v1alpha1.AttuneRecommendation{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployment-web", Finalizers: []string{v1alpha1.RecordsFinalizer}},
		Spec:       v1alpha1.AttuneRecommendationSpec{Mode: "Auto", Workload: v1alpha1.WorkloadRef{Kind: "Deployment", Name: "web"}},
	}
	require.NoError(t, operator.Create(t.Context(), rec))

	failed := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "attune-system", Name: "attune-evicted", Labels: map[string]string{"app.kubernetes.io/name": "attune"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "attune", Image: "attune"}}, TerminationGracePeriodSeconds: ptr.To(int64(0))},
	}
	require.NoError(t, c.Create(t.Context(), failed))
	t.Cleanup(func() { assert.NoError(t, c.Delete(context.Background(), failed)) })
	failed.Status.Phase = corev1.PodFailed
	require.NoError(t, c.Status().Update(t.Context(), failed), "a pod that was evicted stays, and is waited for by nobody")

	config := rest.CopyConfig(server)
	config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:attune-system:attune-uninstall"}
	api, err := metadata.NewForConfig(config)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	options := uninstall.Options{Namespace: "attune-system", Patience: patience, Selector: "app.kubernetes.io/name=attune", ServiceAccount: "attune", Out: io.Discard}
	// A right that was just granted is not known at once.
	require.Eventually(t, func() bool {
		err = uninstall.Run(ctx, api, options)
		return !apierrors.IsForbidden(err)
	}, patience, 50*time.Millisecond)
	require.NoError(t, err)

	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(policy), policy))
	assert.Equal(t, []string{"example.com/other"}, policy.GetFinalizers())
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(rec), rec))
	assert.Empty(t, rec.Finalizers)

	require.NoError(t, uninstall.Run(ctx, api, options), "again: there is nothing left to do")
	policy.SetFinalizers(nil)
	require.NoError(t, c.Update(t.Context(), policy))
}
