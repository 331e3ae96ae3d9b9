//go:build helm

// Package certmanager reads the chart's objects of cert-manager with cert-manager's own types. It is a module of its own,
// so that neither the product nor its other tests have cert-manager among what they need.
package certmanager

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// objects of cert-manager that the chart renders, by their names.
type objects struct {
	issuers      map[string]*cmapi.Issuer
	certificates map[string]*cmapi.Certificate
}

// render reads strictly: a field that cert-manager does not know is an error.
func render(t *testing.T) objects {
	t.Helper()
	os.Getenv("ATTUNE_INPUTS") // the digest of what is read outside of this module, so that Go's test cache sees a change
	binary := os.Getenv("ATTUNE_HELM")
	require.NotEmpty(t, binary, "set ATTUNE_HELM to the helm binary")
	cmd := exec.CommandContext(t.Context(), binary, "template", "attune", "../../charts/attune", "--namespace", "attune-system", "--set", "certs.provider=cert-manager", "--show-only", "templates/certificate.yaml")
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))

	scheme := runtime.NewScheme()
	require.NoError(t, cmapi.AddToScheme(scheme))
	strict := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	all := objects{map[string]*cmapi.Issuer{}, map[string]*cmapi.Certificate{}}
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(string(out)))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		object, _, err := strict.Decode(document, nil, nil)
		require.NoError(t, err, string(document))
		switch o := object.(type) {
		case *cmapi.Issuer:
			all.issuers[o.Name] = o
		case *cmapi.Certificate:
			all.certificates[o.Name] = o
		default:
			require.Failf(t, "unexpected", "%T", object)
		}
	}
}

// TestCertificatesAreIssued: the self-signed issuer issues the authority, and the authority the certificate of the webhook.
func TestCertificatesAreIssued(t *testing.T) {
	all := render(t)
	require.Len(t, all.issuers, 2)
	require.Len(t, all.certificates, 2)
	authority, leaf := all.certificates["attune-authority"], all.certificates["attune-webhook"]
	require.NotNil(t, authority)
	require.NotNil(t, leaf)

	assert.True(t, authority.Spec.IsCA)
	assert.NotEmpty(t, authority.Spec.CommonName, "an authority needs a subject")
	require.Contains(t, all.issuers, authority.Spec.IssuerRef.Name)
	assert.NotNil(t, all.issuers[authority.Spec.IssuerRef.Name].Spec.SelfSigned)

	assert.False(t, leaf.Spec.IsCA)
	assert.ElementsMatch(t, []string{"attune-webhook.attune-system.svc", "attune-webhook.attune-system.svc.cluster.local"}, leaf.Spec.DNSNames)
	assert.ElementsMatch(t, []cmapi.KeyUsage{cmapi.UsageDigitalSignature, cmapi.UsageServerAuth}, leaf.Spec.Usages)
	assert.Equal(t, cmapi.RotationPolicyAlways, leaf.Spec.PrivateKey.RotationPolicy)
	assert.Equal(t, cmapi.ECDSAKeyAlgorithm, leaf.Spec.PrivateKey.Algorithm)
	require.Contains(t, all.issuers, leaf.Spec.IssuerRef.Name)
	ca := all.issuers[leaf.Spec.IssuerRef.Name].Spec.CA
	require.NotNil(t, ca)
	assert.Equal(t, authority.Spec.SecretName, ca.SecretName, "the authority signs with its own certificate")

	assert.Less(t, leaf.Spec.RenewBefore.Duration, leaf.Spec.Duration.Duration)
	assert.Less(t, leaf.Spec.Duration.Duration, authority.Spec.Duration.Duration, "the authority outlives what it issues")
	for _, c := range all.certificates {
		assert.Equal(t, "attune-system", c.Namespace)
		assert.Equal(t, "cert-manager.io", c.Spec.IssuerRef.Group)
		assert.Equal(t, cmapi.IssuerKind, c.Spec.IssuerRef.Kind)
	}
}

// TestTheClustersVersion: what the test cluster runs reads the same types.
func TestTheClustersVersion(t *testing.T) {
	version := func(path string) string {
		body, err := os.ReadFile(path)
		require.NoError(t, err)
		_, rest, found := strings.Cut(string(body), "github.com/cert-manager/cert-manager ")
		require.True(t, found, path)
		return strings.Fields(rest)[0]
	}
	assert.Equal(t, version("../cluster/modules/certmanager/go.mod"), version("go.mod"))
}
