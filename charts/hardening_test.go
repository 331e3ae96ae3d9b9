//go:build helm

package charts

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// policiesOf returns the ValidatingAdmissionPolicies by name.
func policiesOf(r rendered) map[string]*admissionregistrationv1.ValidatingAdmissionPolicy {
	found := map[string]*admissionregistrationv1.ValidatingAdmissionPolicy{}
	for _, policy := range all[*admissionregistrationv1.ValidatingAdmissionPolicy](r) {
		found[policy.Name] = policy
	}
	return found
}

// TestRightsThatRBACCannotNarrow: each right of the operator that is wider than its use has a policy, which applies to the
// operator's accounts only.
func TestRightsThatRBACCannotNarrow(t *testing.T) {
	for set, want := range map[string][]string{
		"certs.provider=cert-manager":                            {"attune-recommendations"},
		"certs.provider=self-signed,node.loadTaint.enabled=true": {"attune-nodes", "attune-recommendations", "attune-secrets", "attune-trust"},
	} {
		for _, how := range both {
			r := render(t, append(strings.Split(set, ","), how)...)
			policies, names := policiesOf(r), []string{}
			for name, policy := range policies {
				names = append(names, name)
				assert.Equal(t, admissionregistrationv1.Fail, *policy.Spec.FailurePolicy, name)
				require.Len(t, policy.Spec.MatchConditions, 1, name)
				assert.Contains(t, policy.Spec.MatchConditions[0].Expression, "request.userInfo.username", name)
				assert.Contains(t, policy.Spec.MatchConditions[0].Expression, "'system:serviceaccount:attune-system:attune'", name)
			}
			assert.ElementsMatch(t, want, names, set)
			bound := []string{}
			for _, binding := range all[*admissionregistrationv1.ValidatingAdmissionPolicyBinding](r) {
				bound = append(bound, binding.Spec.PolicyName)
				assert.Equal(t, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}, binding.Spec.ValidationActions)
			}
			assert.ElementsMatch(t, want, bound)
		}
	}
}

// TestAuthorityIsTheControllers: the webhook reads the serving certificate and not the key that signs.
func TestAuthorityIsTheControllers(t *testing.T) {
	of := rights(t, render(t, "certs.provider=self-signed"))
	assert.NotContains(t, strings.Join(flat(of["attune-webhook"]["attune-system"]), "\n"), "attune-webhook-ca")
	assert.Contains(t, flat(of["attune"]["attune-system"]), "update secrets of attune-webhook-cert,attune-webhook-ca")
	for _, d := range all[*appsv1.Deployment](render(t, "certs.provider=self-signed")) {
		assert.Contains(t, d.Spec.Template.Spec.Containers[0].Args, "--authority-secret=attune-webhook-ca")
	}
}

// TestVolumesHaveTheKeysThatAreRead, and no others of a Secret or ConfigMap.
func TestVolumesHaveTheKeysThatAreRead(t *testing.T) {
	r := render(t, "certs.provider=cert-manager", "usage.prometheus.bearerTokenSecret.name=token", "usage.prometheus.tls.caConfigMap.name=ca", "kubelet.tls.caConfigMap.name=kubelets", "webhook.clientCA.configMap.name=clients")
	want := map[string][]string{"certs": {"tls.crt", "tls.key"}, "prometheus-token": {"token"}, "prometheus-ca": {"ca.crt"}, "kubelet-ca": {"ca.crt"}, "client-ca": {"ca.crt"}}
	seen := []string{}
	for _, d := range all[*appsv1.Deployment](r) {
		for _, volume := range d.Spec.Template.Spec.Volumes {
			var items []corev1.KeyToPath
			switch {
			case volume.Secret != nil:
				items = volume.Secret.Items
			case volume.ConfigMap != nil:
				items = volume.ConfigMap.Items
			default:
				continue
			}
			keys := []string{}
			for _, item := range items {
				assert.Equal(t, item.Key, item.Path)
				keys = append(keys, item.Key)
			}
			assert.Equal(t, want[volume.Name], keys, volume.Name)
			seen = append(seen, volume.Name)
		}
	}
	assert.Len(t, seen, len(want))
}

// TestAccountsHaveAnnotationsOfTheirOwn: a cloud identity of the controller is not the webhook's.
func TestAccountsHaveAnnotationsOfTheirOwn(t *testing.T) {
	of := func(set ...string) map[string]string {
		found := map[string]string{}
		for _, account := range all[*corev1.ServiceAccount](render(t, set...)) {
			if account.Annotations["role"] != "" {
				found[account.Name] = account.Annotations["role"]
			}
		}
		return found
	}
	assert.Equal(t, map[string]string{"attune": "reader"}, of("serviceAccount.annotations.role=reader"))
	assert.Equal(t, map[string]string{"attune": "reader"}, of("serviceAccount.annotations.role=reader", "webhook.separate=false"))
	assert.Equal(t, map[string]string{"attune-webhook": "a", "attune-scraper": "b"}, of("serviceAccount.webhook.annotations.role=a", "serviceAccount.scraper.annotations.role=b"))
}

func TestEgress(t *testing.T) {
	policy := one[*networkingv1.NetworkPolicy](t, render(t, "networkPolicy.enabled=true"))
	assert.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}, policy.Spec.PolicyTypes)
	assert.Empty(t, policy.Spec.Egress)
	policy = one[*networkingv1.NetworkPolicy](t, render(t, "networkPolicy.enabled=true", "networkPolicy.egress[0].ports[0].port=6443", "uninstall.enabled=false"))
	assert.Equal(t, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}, policy.Spec.PolicyTypes)
	require.Len(t, policy.Spec.Egress, 1)
	assert.EqualValues(t, 6443, policy.Spec.Egress[0].Ports[0].Port.IntVal)
	assert.Len(t, policy.Spec.Ingress, 2, "as without it")
}

func TestHostUsers(t *testing.T) {
	for _, value := range []bool{true, false} {
		r := render(t, map[bool]string{true: "hostUsers=true", false: "hostUsers=false"}[value])
		for _, d := range all[*appsv1.Deployment](r) {
			assert.Equal(t, value, *d.Spec.Template.Spec.HostUsers, d.Name)
		}
		assert.Equal(t, value, *one[*batchv1.Job](t, r).Spec.Template.Spec.HostUsers)
	}
}

// TestFailedUninstallLeavesNoRights: its account and roles go, its Job stays for the log and ends by itself.
func TestFailedUninstallLeavesNoRights(t *testing.T) {
	const key = "helm.sh/hook-delete-policy"
	r := render(t, "watchNamespaces={team-a}")
	granted := 0
	for _, object := range r.typed {
		o := object.(metav1.Object)
		if !strings.HasPrefix(o.GetName(), "attune-uninstall") {
			continue
		}
		policies := strings.Split(o.GetAnnotations()[key], ",")
		assert.Contains(t, policies, "hook-succeeded", o.GetName())
		assert.Contains(t, policies, "before-hook-creation", o.GetName())
		if grantsRights(object) {
			granted++
			assert.Contains(t, policies, "hook-failed", o.GetName())
		}
	}
	assert.Equal(t, 5, granted)
	job := one[*batchv1.Job](t, r)
	assert.False(t, slices.Contains(strings.Split(job.Annotations[key], ","), "hook-failed"))
	assert.EqualValues(t, 24*60*60, *job.Spec.TTLSecondsAfterFinished)
	assert.False(t, *job.Spec.Template.Spec.EnableServiceLinks)
}

func grantsRights(object runtime.Object) bool {
	switch object.(type) {
	case *corev1.ServiceAccount, *rbacv1.Role, *rbacv1.RoleBinding, *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding:
		return true
	}
	return false
}
