package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"attune.io/attune/certs"
)

const trusted = "attune-trusted"

// stolen is a client with a token of a ServiceAccount, as an attacker has it who broke into the pod.
func stolen(t *testing.T, namespace, account string) kubernetes.Interface {
	t.Helper()
	admin, err := kubernetes.NewForConfig(server)
	require.NoError(t, err)
	request, err := admin.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	config := rest.AnonymousClientConfig(server)
	config.BearerToken = request.Status.Token
	clients, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	return clients
}

// inForce waits until the API server applies a policy, which it does not do from the first moment on.
func inForce(t *testing.T, refused func() error) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		assert.ErrorContains(t, refused(), "ValidatingAdmissionPolicy")
	}, patience, 100*time.Millisecond)
}

var dryRun = []string{metav1.DryRunAll}

// TestStolenTokenBecomesNoOtherAccount: with the controller's own token, no Secret can be made that Kubernetes fills with
// another account's token, and the controller's Secrets cannot be handed to the garbage collector to make room for one.
func TestStolenTokenBecomesNoOtherAccount(t *testing.T) {
	namespace := newNamespace(t, newClient(t))
	installRights(t, namespace)
	admin, err := kubernetes.NewForConfig(server)
	require.NoError(t, err)
	secrets := stolen(t, namespace, trusted).CoreV1().Secrets(namespace)
	secret := func(name string, change func(*corev1.Secret)) *corev1.Secret {
		made := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"tls.crt": []byte("x")}}
		change(made)
		return made
	}
	create := func(made *corev1.Secret) error {
		_, err := secrets.Create(t.Context(), made, metav1.CreateOptions{DryRun: dryRun})
		return err
	}
	inForce(t, func() error { return create(secret("other", func(*corev1.Secret) {})) })

	const own, authority = trusted + "-webhook-cert", trusted + "-webhook-ca"
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "no-such", UID: "00000000-0000-0000-0000-000000000000"}}
	metadata := map[string]func(*corev1.Secret){
		"an owner":      func(s *corev1.Secret) { s.OwnerReferences = owner },
		"an annotation": func(s *corev1.Secret) { s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "default"} },
		"a label":       func(s *corev1.Secret) { s.Labels = map[string]string{"app": "x"} },
		"a finalizer":   func(s *corev1.Secret) { s.Finalizers = []string{"example.com/stay"} },
		"immutable":     func(s *corev1.Secret) { s.Immutable = ptr.To(true) },
	}
	creations := map[string]func(*corev1.Secret){
		"another name": func(s *corev1.Secret) { s.Name = "other" },
		"no name":      func(s *corev1.Secret) { s.Name, s.GenerateName = "", own },
		"another type": func(s *corev1.Secret) { s.Type = "example.com/other" },
		"TLS": func(s *corev1.Secret) {
			s.Type, s.Data = corev1.SecretTypeTLS, map[string][]byte{"tls.crt": {}, "tls.key": {}}
		},
		"a token": func(s *corev1.Secret) {
			s.Type, s.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: "default"}
		},
		"bootstrap":    func(s *corev1.Secret) { s.Type = corev1.SecretTypeBootstrapToken },
		"the CA's key": func(s *corev1.Secret) { s.Data["ca.key"] = []byte("x") },
	}
	for what, change := range metadata {
		creations[what] = change
	}
	for what, change := range creations {
		assert.ErrorContains(t, create(secret(own, change)), "ValidatingAdmissionPolicy", what)
	}
	for _, name := range []string{own, authority} {
		require.NoError(t, create(secret(name, func(*corev1.Secret) {})))
		made, err := secrets.Create(t.Context(), secret(name, func(*corev1.Secret) {}), metav1.CreateOptions{})
		require.NoError(t, err)
		for what, change := range metadata {
			changed := made.DeepCopy()
			change(changed)
			_, err := secrets.Update(t.Context(), changed, metav1.UpdateOptions{})
			assert.ErrorContains(t, err, "ValidatingAdmissionPolicy", what)
		}
		assert.True(t, apierrors.IsForbidden(secrets.Delete(t.Context(), name, metav1.DeleteOptions{})))
	}
	made, err := secrets.Get(t.Context(), own, metav1.GetOptions{})
	require.NoError(t, err)
	made.Data["ca.key"] = []byte("x")
	_, err = secrets.Update(t.Context(), made, metav1.UpdateOptions{})
	assert.ErrorContains(t, err, "must not be in the Secret that the webhook reads")

	// Labels that a user has put there stay, and do not keep the controller from writing.
	labelled, err := admin.CoreV1().Secrets(namespace).Patch(t.Context(), own, types.MergePatchType, []byte(`{"metadata":{"labels":{"team":"x"},"annotations":{"a":"b"}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	labelled.Data["tls.crt"] = []byte("y")
	_, err = secrets.Update(t.Context(), labelled, metav1.UpdateOptions{})
	require.NoError(t, err)

	// The webhook's token reads the serving Secret, and nothing else.
	webhook := stolen(t, namespace, trusted+"-webhook").CoreV1().Secrets(namespace)
	_, err = webhook.Get(t.Context(), own, metav1.GetOptions{})
	require.NoError(t, err)
	_, err = webhook.Get(t.Context(), authority, metav1.GetOptions{})
	assert.True(t, apierrors.IsForbidden(err))
	_, err = webhook.Update(t.Context(), labelled, metav1.UpdateOptions{})
	assert.True(t, apierrors.IsForbidden(err))

	// Other users are not held up.
	for what, change := range metadata {
		other := secret("of-a-user", change)
		_, err := admin.CoreV1().Secrets(namespace).Create(t.Context(), other, metav1.CreateOptions{DryRun: dryRun})
		assert.NoError(t, err, what)
	}
}

// TestCertificatesRotateUnderThePolicy: with its own token and the policies in force, the controller takes over the Secret of a
// version that kept everything in one, moves the key, and renews both certificates.
func TestCertificatesRotateUnderThePolicy(t *testing.T) {
	namespace := newNamespace(t, newClient(t))
	installRights(t, namespace)
	admin, err := kubernetes.NewForConfig(server)
	require.NoError(t, err)
	dnsNames := []string{trusted + "-webhook." + namespace + ".svc"}
	clients := stolen(t, namespace, trusted)
	inForce(t, func() error {
		_, err := clients.CoreV1().Secrets(namespace).Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "other"}}, metav1.CreateOptions{DryRun: dryRun})
		return err
	})
	for _, kind := range []corev1.SecretType{corev1.SecretTypeOpaque, corev1.SecretTypeTLS} {
		t.Run(string(kind), func(t *testing.T) {
			now := clocktesting.NewFakeClock(time.Now())
			before, err := certs.Issue(now.Now(), certs.Replace, nil, dnsNames)
			require.NoError(t, err)
			if kind == corev1.SecretTypeTLS {
				delete(before, "ca.key") // as cert-manager writes it
			}
			secrets := admin.CoreV1().Secrets(namespace)
			earlier := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: trusted + "-webhook-cert", Annotations: map[string]string{"cert-manager.io/certificate-name": "x"}}, Type: kind, Data: before}
			_, err = secrets.Create(t.Context(), earlier, metav1.CreateOptions{})
			require.NoError(t, err)
			t.Cleanup(func() {
				for _, name := range []string{trusted + "-webhook-cert", trusted + "-webhook-ca"} {
					assert.NoError(t, secrets.Delete(context.Background(), name, metav1.DeleteOptions{}))
				}
			})
			run := func(at clock.WithTicker, holds func(serving, authority map[string][]byte) bool) {
				t.Helper()
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				s := certs.NewSelfSigned(certs.Config{
					Client: clients, Namespace: namespace, Secret: trusted + "-webhook-cert", Authority: trusted + "-webhook-ca", DNSNames: dnsNames,
					Mutating: trusted, Validating: trusted, Clock: at, Log: logr.Discard(),
				})
				go func() { ended <- s.Start(ctx) }()
				require.Eventually(t, func() bool {
					now.Step(time.Minute)
					serving, err := secrets.Get(t.Context(), trusted+"-webhook-cert", metav1.GetOptions{})
					require.NoError(t, err)
					authority, err := secrets.Get(t.Context(), trusted+"-webhook-ca", metav1.GetOptions{})
					return err == nil && s.Ready(nil) == nil && holds(serving.Data, authority.Data)
				}, patience, 20*time.Millisecond)
				stop()
				require.NoError(t, <-ended)
			}
			var moved, signs string
			run(now, func(serving, authority map[string][]byte) bool {
				moved, signs = string(serving["tls.crt"]), string(authority["ca.key"])
				return serving["ca.key"] == nil && signs != ""
			})
			if kind == corev1.SecretTypeOpaque {
				assert.Equal(t, string(before["tls.crt"]), moved, "the certificate stays")
				assert.Equal(t, string(before["ca.key"]), signs, "and its authority")
			}
			now.Step(61 * 24 * time.Hour)
			run(now, func(serving, authority map[string][]byte) bool {
				return string(serving["tls.crt"]) != moved && string(authority["ca.key"]) == signs
			})
			now.Step(2434 * 24 * time.Hour)
			run(now, func(serving, authority map[string][]byte) bool {
				return string(authority["ca.key"]) != signs && string(serving["ca.crt"]) == string(authority["ca.crt"])
			})
		})
	}
}

// TestStolenTokenChangesNoNode, except for attune's own taint, which keeps new pods away and evicts none.
func TestStolenTokenChangesNoNode(t *testing.T) {
	namespace := newNamespace(t, newClient(t))
	installRights(t, namespace, "node.loadTaint.enabled=true")
	admin, err := kubernetes.NewForConfig(server)
	require.NoError(t, err)
	const key = "attune.io/overloaded"
	theirs := corev1.Taint{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}
	by := metav1.Now().Rfc3339Copy()
	evicting := corev1.Taint{Key: "node.kubernetes.io/unreachable", Effect: corev1.TaintEffectNoExecute, TimeAdded: &by}
	ours := corev1.Taint{Key: key, Value: "true", Effect: corev1.TaintEffectNoSchedule}
	made, err := admin.CoreV1().Nodes().Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "stolen-", Labels: map[string]string{"pool": "db"}, Annotations: map[string]string{"a": "b"}},
		Spec:       corev1.NodeSpec{ProviderID: "x", PodCIDR: "10.0.0.0/24", PodCIDRs: []string{"10.0.0.0/24"}, Taints: []corev1.Taint{theirs, evicting}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		assert.NoError(t, admin.CoreV1().Nodes().Delete(context.Background(), made.Name, metav1.DeleteOptions{}))
	})
	// Admission adds a taint to a node that is not ready.
	made.Spec.Taints = []corev1.Taint{theirs, evicting}
	made, err = admin.CoreV1().Nodes().Update(t.Context(), made, metav1.UpdateOptions{})
	require.NoError(t, err)
	nodes := stolen(t, namespace, trusted).CoreV1().Nodes()
	patch := func(kind types.PatchType, body string, subresources ...string) error {
		_, err := nodes.Patch(t.Context(), made.Name, kind, []byte(body), metav1.PatchOptions{}, subresources...)
		return err
	}
	taints := func(list ...corev1.Taint) string {
		raw, err := json.Marshal(list)
		require.NoError(t, err)
		return fmt.Sprintf(`{"spec":{"taints":%s}}`, raw)
	}
	inForce(t, func() error {
		_, err := nodes.Patch(t.Context(), made.Name, types.MergePatchType, []byte(`{"metadata":{"labels":{"probe":"x"}}}`), metav1.PatchOptions{DryRun: dryRun})
		return err
	})
	other := func(change func(*corev1.Taint), of corev1.Taint) corev1.Taint {
		change(&of)
		return of
	}
	for what, body := range map[string]string{
		"a label":                 `{"metadata":{"labels":{"pool":"web"}}}`,
		"a label less":            `{"metadata":{"labels":null}}`,
		"an annotation":           `{"metadata":{"annotations":{"x":"y"}}}`,
		"a finalizer":             `{"metadata":{"finalizers":["example.com/stay"]}}`,
		"an owner":                `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"0"}]}}`,
		"cordoned":                `{"spec":{"unschedulable":true}}`,
		"no taints":               `{"spec":{"taints":null}}`,
		"one taint less":          taints(evicting, ours),
		"another value":           taints(other(func(t *corev1.Taint) { t.Value = "web" }, theirs), evicting),
		"another effect":          taints(other(func(t *corev1.Taint) { t.Effect = corev1.TaintEffectNoExecute }, theirs), evicting),
		"another taint":           taints(theirs, evicting, corev1.Taint{Key: "x", Effect: corev1.TaintEffectNoSchedule}),
		"its key, and evicting":   taints(theirs, evicting, other(func(t *corev1.Taint) { t.Effect = corev1.TaintEffectNoExecute }, ours)),
		"its taint and a label":   `{"metadata":{"labels":{"x":"y"}},` + taints(theirs, evicting, ours)[1:],
		"its taint and cordoning": `{"spec":{"unschedulable":true,` + taints(theirs, evicting, ours)[len(`{"spec":{`):],
	} {
		assert.ErrorContains(t, patch(types.MergePatchType, body), "may change only its own taint", what)
	}
	assert.True(t, apierrors.IsForbidden(patch(types.MergePatchType, `{"status":{"phase":"Running"}}`, "status")), "it has no right to the status")
	require.NoError(t, patch(types.MergePatchType, `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`), "the API server ignores the status here")

	node := func() *corev1.Node {
		found, err := admin.CoreV1().Nodes().Get(t.Context(), made.Name, metav1.GetOptions{})
		require.NoError(t, err)
		return found
	}
	assert.Equal(t, made.Spec, node().Spec)
	assert.Equal(t, made.Labels, node().Labels)
	assert.Equal(t, made.Status.Conditions, node().Status.Conditions)
	require.NoError(t, patch(types.MergePatchType, taints(theirs, evicting, ours)))
	assert.Equal(t, append(made.Spec.Taints, ours), node().Spec.Taints)
	require.NoError(t, patch(types.MergePatchType, taints(theirs, evicting)))
	assert.Equal(t, made.Spec, node().Spec)

	// A taint of this key with another effect is somebody else's.
	foreign := corev1.Taint{Key: key, Effect: corev1.TaintEffectPreferNoSchedule}
	_, err = admin.CoreV1().Nodes().Patch(t.Context(), made.Name, types.MergePatchType, []byte(taints(foreign)), metav1.PatchOptions{})
	require.NoError(t, err, "other users are not held up")
	assert.ErrorContains(t, patch(types.MergePatchType, `{"spec":{"taints":null}}`), "may change only its own taint")
	require.NoError(t, patch(types.MergePatchType, taints(foreign, ours)))

	// A node without any taint.
	_, err = admin.CoreV1().Nodes().Patch(t.Context(), made.Name, types.MergePatchType, []byte(`{"spec":{"taints":null}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, patch(types.MergePatchType, taints(ours)))
	require.NoError(t, patch(types.MergePatchType, `{"spec":{"taints":null}}`))
}
