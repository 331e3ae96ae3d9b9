//go:build helm

package charts

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"attune.io/attune/internal/answers"
)

func clusterRole(t *testing.T, r rendered, name string) *rbacv1.ClusterRole {
	t.Helper()
	for _, role := range all[*rbacv1.ClusterRole](r) {
		if role.Name == name {
			return role
		}
	}
	require.Fail(t, "no ClusterRole "+name)
	return nil
}

// TestRolesForPeople: nobody gets to write recommendations, and editors of a namespace nothing of the whole cluster's.
func TestRolesForPeople(t *testing.T) {
	r := render(t)
	view, edit := clusterRole(t, r, "attune-view"), clusterRole(t, r, "attune-edit")
	require.Len(t, view.Rules, 2)
	assert.Equal(t, []string{"get", "list", "watch"}, view.Rules[0].Verbs)
	assert.Equal(t, rbacv1.PolicyRule{APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{answers.LeaseName}, Verbs: []string{"get"}},
		view.Rules[1], "status reads whether the operator runs")
	for _, rule := range edit.Rules {
		assert.Equal(t, []string{"attunepolicies", "attunenamespacedefaults"}, rule.Resources)
	}
	assert.Equal(t, "true", view.Labels["rbac.authorization.k8s.io/aggregate-to-view"])
	assert.Equal(t, "true", edit.Labels["rbac.authorization.k8s.io/aggregate-to-edit"])
	assert.NotContains(t, edit.Labels, "rbac.authorization.k8s.io/aggregate-to-view")
	for _, role := range []string{"attune-view", "attune-edit"} {
		for label := range clusterRole(t, render(t, "rbac.aggregate=false"), role).Labels {
			assert.NotContains(t, label, "aggregate-to")
		}
	}
}

// TestUninstallHook has rights of its own, which are few, and they are there before its Job.
func TestUninstallHook(t *testing.T) {
	r := render(t)
	assert.Equal(t, []rbacv1.PolicyRule{
		{APIGroups: []string{"attune.io"}, Resources: []string{"attunepolicies", "attuneclusterpolicies", "attunerecommendations"}, Verbs: []string{"list", "patch"}},
	}, clusterRole(t, r, "attune-uninstall").Rules)
	job := one[*batchv1.Job](t, r)
	assert.Equal(t, "post-delete", job.Annotations["helm.sh/hook"], "a pre-delete hook that fails keeps the release")
	assert.EqualValues(t, 50, *job.Spec.ActiveDeadlineSeconds)
	assert.Equal(t, "0", job.Annotations["helm.sh/hook-weight"])
	assert.Equal(t, "attune-uninstall", job.Spec.Template.Spec.ServiceAccountName)
	assert.NotContains(t, job.Spec.Template.Labels, "app.kubernetes.io/component", "it does not wait for itself")
	assert.Contains(t, job.Spec.Template.Spec.Containers[0].Args, "--service-account="+deployment(t, r, "attune").Spec.Template.Spec.ServiceAccountName)
	assert.Contains(t, job.Spec.Template.Spec.Containers[0].Args, "--timeout=40s", "it says why it fails before the Job is ended")
	slow := one[*batchv1.Job](t, render(t, "uninstall.deadlineSeconds=600"))
	assert.EqualValues(t, 600, *slow.Spec.ActiveDeadlineSeconds)
	assert.Contains(t, slow.Spec.Template.Spec.Containers[0].Args, "--timeout=590s")
	assert.Empty(t, all[*batchv1.Job](render(t, "uninstall.enabled=false")))
}

// TestNetworkPolicy: metrics are for the peers named, the webhooks for whoever the API server may be.
func TestNetworkPolicy(t *testing.T) {
	assert.Empty(t, all[*networkingv1.NetworkPolicy](render(t)))
	r := render(t, "networkPolicy.enabled=true")
	policy := one[*networkingv1.NetworkPolicy](t, r)
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	require.NoError(t, err)
	for _, d := range all[*appsv1.Deployment](r) {
		assert.True(t, selector.Matches(labels.Set(d.Spec.Template.Labels)), d.Name)
	}
	require.Len(t, policy.Spec.Ingress, 2)
	open, metrics := policy.Spec.Ingress[0], policy.Spec.Ingress[1]
	assert.Empty(t, open.From)
	for _, port := range open.Ports {
		assert.NotEqual(t, "metrics", port.Port.StrVal)
	}
	require.Len(t, metrics.From, 1)
	assert.Equal(t, "monitoring", metrics.From[0].NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"])
}
