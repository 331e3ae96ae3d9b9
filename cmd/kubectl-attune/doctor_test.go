package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
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

// mayAll grants the caller every right except patch.
var mayAll = interceptor.Funcs{
	Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
		if review, asked := o.(*authorizationv1.SelfSubjectAccessReview); asked {
			review.Status.Allowed = review.Spec.ResourceAttributes.Verb != "patch"
			return nil
		}
		return c.Create(ctx, o, options...)
	},
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
	assert.Equal(t, answer{code: exitError, errOut: "error: asking the API server for its version: no answer\n"}, got)
	got = newCLITest(t, interceptor.Funcs{}).run("doctor", "-l", "a=b")
	assert.Equal(t, answer{code: exitError, errOut: "error: doctor looks at a whole namespace, or with -A at all of them: leave -l out\n"}, got)
}
