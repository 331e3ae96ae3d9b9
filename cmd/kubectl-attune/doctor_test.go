package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/cmd/kubectl-attune/doctor"
)

// authority returns a bundle with one certificate that expires at until.
func authority(t *testing.T, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.Add(-time.Hour), NotAfter: until, IsCA: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// hooks returns the configurations of attune's webhooks with one CA bundle.
func hooks(bundle []byte) []client.Object {
	asked := admissionv1.WebhookClientConfig{CABundle: bundle, Service: &admissionv1.ServiceReference{Name: "attune-webhook", Namespace: "attune-system"}}
	return []client.Object{
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "attune"}, Webhooks: []admissionv1.MutatingWebhook{{Name: "pods.attune.io", ClientConfig: asked}}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "attune"}, Webhooks: []admissionv1.ValidatingWebhook{{Name: "settings.attune.io", ClientConfig: asked}}},
	}
}

// definition returns a CustomResourceDefinition of the group attune.io.
func definition(plural string) client.Object {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + ".attune.io", Labels: map[string]string{"attune.io/crds": "chart"}}}
}

// sizer returns a VerticalPodAutoscaler of Deployment/web.
func sizer() client.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "autoscaling.k8s.io/v1", "kind": "VerticalPodAutoscaler",
		"metadata": map[string]any{"namespace": "shop", "name": "web"},
		"spec":     map[string]any{"targetRef": map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}},
	}}
}

// mayAll grants the caller every right except patch. The webhooks answer the doctor's probes.
var mayAll = probed(func(o client.Object) error {
	if pod, ok := o.(*corev1.Pod); ok {
		pod.Annotations[v1alpha1.ProbeAnnotation] = v1alpha1.ProbeAnswered
		return nil
	}
	return errors.New(`admission webhook "settings.attune.io" denied the request: updateStrategy.schedule.timezone Attune/DoctorProbe is not a known time zone`)
})

// probed is mayAll with another answer to dry runs.
func probed(answer func(client.Object) error) interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if review, asked := o.(*authorizationv1.SelfSubjectAccessReview); asked {
				review.Status.Allowed = review.Spec.ResourceAttributes.Verb != "patch"
				return nil
			}
			var with client.CreateOptions
			if with.ApplyOptions(options); len(with.DryRun) > 0 {
				return answer(o)
			}
			return c.Create(ctx, o, options...)
		},
	}
}

// newDoctorTest has a cluster with many problems.
func newDoctorTest(t *testing.T, through interceptor.Funcs, more ...client.Object) cliTest {
	t.Helper()
	cli := newCLITest(t, through)
	cli.version = "v1.35.2"
	all := append(readObjects(t, filepath.Join("testdata", "doctor.yaml")), more...)
	for _, plural := range []string{"attuneclusterpolicies", "attunedefaults", "attunenamespacedefaults", "attunepolicies", "attunerecommendations"} {
		all = append(all, definition(plural))
	}
	for _, o := range all {
		require.NoError(t, cli.client.Create(t.Context(), o.DeepCopyObject().(client.Object)), o.GetName())
	}
	return cli
}

func TestDoctor(t *testing.T) {
	more := append(hooks(authority(t, testNow.Add(-time.Hour))), sizer(), definition("attunetuners"))
	for name, args := range map[string][]string{
		"doctor-all.txt":  {"-A"},
		"doctor.txt":      nil,
		"doctor-all.json": {"-A", "-o", "json"},
		"doctor-out.yaml": {"-o", "yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			got := newDoctorTest(t, mayAll, more...).run(append([]string{"doctor"}, args...)...)
			assert.Equal(t, exitFinding, got.code, got.errOut)
			golden(t, name, got.out)
		})
	}
}

// The doctor calls the webhooks through the API server: Services with ready endpoints do not show that the API server
// reaches them, and a pod webhook that is ignored (failurePolicy Ignore) fails without an error.
func TestDoctorCallsTheWebhooks(t *testing.T) {
	const look = "check that a NetworkPolicy or firewall lets the API server reach port 9443 of the webhook's pods, and the CA bundle. If the control plane is outside of the pod network, the webhook needs hostNetwork"
	timeout := errors.New(`Internal error occurred: failed calling webhook "settings.attune.io": failed to call webhook: Post "https://attune-webhook.attune-system.svc:443/validate?timeout=5s": context deadline exceeded`)
	right := func(o client.Object, resource string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, o.GetName(), errors.New(`User "ann" cannot create resource "`+resource+`" in API group "" in the namespace "idle"`))
	}
	for name, c := range map[string]struct {
		policy, pod func(client.Object) error
		want        []doctor.Level
		says        []string
	}{
		"both answer": {nil, nil, []doctor.Level{doctor.OK}, []string{"the API server reaches the webhooks pods.attune.io and settings.attune.io"}},
		"no answer": {func(client.Object) error { return timeout }, func(client.Object) error { return nil }, []doctor.Level{doctor.Problem, doctor.Problem}, []string{
			"the API server cannot call the webhook settings.attune.io: " + timeout.Error() + "; " + look,
			"the webhook pods.attune.io did not answer a dry-run pod in namespace idle: new pods keep the resources of their templates. Use the plugin of the operator's version; " + look,
		}},
		"not called": {func(client.Object) error { return nil }, nil, []doctor.Level{doctor.Problem}, []string{"the API server accepted an invalid AttunePolicy"}},
		"no rights": {func(o client.Object) error { return right(o, "attunepolicies") }, func(o client.Object) error { return right(o, "pods") }, []doctor.Level{doctor.Unknown, doctor.Unknown}, []string{
			"settings.attune.io was not called: missing permission to create attunepolicies.attune.io in namespace pay (dry run)",
			"pods.attune.io was not called: missing permission to create pods in namespace idle (dry run)",
		}},
		"another policy engine rejects": {func(client.Object) error { return errors.New(`admission webhook "kyverno" denied the request`) }, func(client.Object) error { return errors.New("exceeded quota: q") }, []doctor.Level{doctor.Unknown, doctor.Unknown}, []string{
			`settings.attune.io may not have been called: the dry run in namespace pay failed: admission webhook "kyverno" denied the request`,
			"pods.attune.io may not have been called: the dry run in namespace idle failed: exceeded quota: q",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			through := probed(func(o client.Object) error {
				of := c.policy
				if _, ok := o.(*corev1.Pod); ok {
					of = c.pod
				}
				if of == nil {
					return mayAll.Create(t.Context(), nil, o, client.DryRunAll)
				}
				return of(o)
			})
			got := newDoctorTest(t, through, hooks(authority(t, testNow.Add(1000*time.Hour)))...).run("doctor", "-A", "-o", "json")
			var answer doctor.Answer
			require.NoError(t, json.Unmarshal([]byte(got.out), &answer))
			var levels []doctor.Level
			var said []string
			for _, r := range answer.Checks {
				if r.Check == "reachable" {
					levels, said = append(levels, r.Result), append(said, r.Sentence)
				}
			}
			require.Equal(t, c.want, levels, said)
			for i, sentence := range c.says {
				assert.Contains(t, said[i], sentence)
			}
		})
	}
}

// Without rights, every check says so, and no check except the version is ok.
func TestDoctorWithoutRights(t *testing.T) {
	nothing := interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return forbidden("anything")
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return forbidden("anything")
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return forbidden("anything")
		},
	}
	cli := newCLITest(t, nothing)
	cli.version = "v1.35.2"
	got := cli.run("doctor")
	assert.Equal(t, exitOK, got.code, "unknown is no problem")
	golden(t, "doctor-unknown.txt", got.out)
}

func TestDoctorsMistakes(t *testing.T) {
	got := newCLITest(t, interceptor.Funcs{}).run("doctor")
	assert.Equal(t, answer{code: exitError, errOut: "error: reading the version of the API server: no answer\n"}, got)
	got = newCLITest(t, interceptor.Funcs{}).run("doctor", "-l", "a=b")
	assert.Equal(t, answer{code: exitError, errOut: "error: doctor does not support -l: use -n for one namespace, or -A for all\n"}, got)
}
