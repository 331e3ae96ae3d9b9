package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

// TestClientsAreKept: one is made for many questions, until its credentials may be old or it gave no answer.
func TestClientsAreKept(t *testing.T) {
	var c clients
	made := 0
	dial := func() (measured, error) {
		made++
		client, err := prometheus.New(prometheus.Config{Address: "http://prometheus:9090"})
		return measured{Client: client}, err
	}
	noon := time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)
	first, err := c.of("a", noon, dial)
	require.NoError(t, err)
	again, err := c.of("a", noon.Add(clientLasts-time.Second), dial)
	require.NoError(t, err)
	assert.Same(t, first.Client, again.Client)
	assert.Equal(t, 1, made)
	_, err = c.of("b", noon, dial)
	require.NoError(t, err)
	assert.Equal(t, 2, made, "another server")

	renewed, err := c.of("a", noon.Add(clientLasts), dial)
	require.NoError(t, err)
	assert.NotSame(t, first.Client, renewed.Client)
	assert.Len(t, c.known, 1, "what is too old is let go")

	c.drop("a", first.Client)
	assert.Len(t, c.known, 1, "another one has taken its place")
	c.drop("a", renewed.Client)
	assert.Empty(t, c.known)

	_, err = c.of("a", noon, func() (measured, error) { return measured{}, errors.New("no such secret") })
	require.Error(t, err)
	assert.Empty(t, c.known, "a failure is not kept")
	for i := range 2 * mostClients {
		_, err = c.of(usage.Digest(rune('a'+i)), noon, dial)
		require.NoError(t, err)
	}
	assert.Len(t, c.known, mostClients)
}

// TestSecretsAreMadeForTheirSource: a policy has no Secret sent that was not meant for the very server; the operator's own
// Secrets are an administrator's to name.
func TestSecretsAreMadeForTheirSource(t *testing.T) {
	secret := func(namespace, name, annotation, label string) *corev1.Secret {
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string][]byte{"token": []byte("t")}}
		if annotation != "" {
			s.Annotations = map[string]string{v1alpha1.UsageSourceAnnotation: annotation}
		}
		if label != "" {
			s.Labels = map[string]string{v1alpha1.UsageSourceAnnotation: label}
		}
		return s
	}
	secrets := fake.NewClientBuilder().WithObjects(
		secret("shop", "unmarked", "", ""), secret("shop", "elsewhere", "evil.example", ""), secret("shop", "port", "prometheus.shop:9090", ""),
		secret("shop", "host", "Prometheus.Shop", ""), secret("shop", "label", "", "prometheus.shop"), secret("shop", "other-port", "prometheus.shop:9091", ""),
		secret("attune-system", "own", "", ""),
	).Build()
	o := &options{namespace: "attune-system"}
	for name, refused := range map[string]bool{"unmarked": true, "elsewhere": true, "other-port": true, "port": false, "host": false, "label": false} {
		source := v1alpha1.PrometheusSource{Address: "http://prometheus.shop:9090", BearerTokenSecret: &v1alpha1.SecretKey{Name: name, Key: "token"}}
		_, err := o.connect(secrets, usage.SourceSettings{Prometheus: &source, Namespace: "shop", OfPolicy: true})
		if !refused {
			assert.NoError(t, err, name)
			continue
		}
		assert.EqualError(t, err, "secret shop/"+name+" is not meant for the usage source prometheus.shop:9090: whoever may change the secret says so with the annotation attune.io/usage-source: prometheus.shop:9090")
		source.BearerTokenSecret, source.TLS = nil, &v1alpha1.SourceTLS{CASecret: &v1alpha1.SecretKey{Name: name, Key: "token"}}
		_, err = o.connect(secrets, usage.SourceSettings{Prometheus: &source, Namespace: "shop", OfPolicy: true})
		assert.ErrorContains(t, err, "is not meant for", "%s, as certificates", name)
	}
	own := v1alpha1.PrometheusSource{Address: "http://prometheus.shop:9090", BearerTokenSecret: &v1alpha1.SecretKey{Name: "own", Key: "token"}}
	_, err := o.connect(secrets, usage.SourceSettings{Prometheus: &own})
	assert.NoError(t, err)
}
