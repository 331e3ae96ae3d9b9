package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/usage"
)

// TestSecretsAreMadeForTheirSource: a policy's source gets only Secrets that name its server. The administrator names
// the operator's own Secrets.
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
	s := &sources{largest: &board.Largest{}, namespace: "attune-system", secrets: secrets}
	for name, refused := range map[string]bool{"unmarked": true, "elsewhere": true, "other-port": true, "port": false, "host": false, "label": false} {
		source := v1alpha1.PrometheusSource{Address: "http://prometheus.shop:9090", BearerTokenSecret: &v1alpha1.SecretKey{Name: name, Key: "token"}}
		_, err := s.connect(usage.SourceSettings{Prometheus: &source, Namespace: "shop", OfPolicy: true})
		if !refused {
			assert.NoError(t, err, name)
			continue
		}
		assert.EqualError(t, err, "secret shop/"+name+" may not be used for the usage source prometheus.shop:9090: to allow it, set the annotation attune.io/usage-source: prometheus.shop:9090 on the secret")
		source.BearerTokenSecret, source.TLS = nil, &v1alpha1.SourceTLS{CASecret: &v1alpha1.SecretKey{Name: name, Key: "token"}}
		_, err = s.connect(usage.SourceSettings{Prometheus: &source, Namespace: "shop", OfPolicy: true})
		assert.ErrorContains(t, err, "may not be used for", "%s, as certificates", name)
	}
	own := v1alpha1.PrometheusSource{Address: "http://prometheus.shop:9090", BearerTokenSecret: &v1alpha1.SecretKey{Name: "own", Key: "token"}}
	_, err := s.connect(usage.SourceSettings{Prometheus: &own})
	assert.NoError(t, err)
}
