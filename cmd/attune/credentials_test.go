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
		source := v1alpha1.PrometheusSource{Address: "https://prometheus.shop:9090", BearerTokenSecret: &v1alpha1.SecretKey{Name: name, Key: "token"}}
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

// TestSecretsAreNotSentInTheClear: the annotation comes from the author of the Secret, and http:// or no verification
// from the author of the policy.
func TestSecretsAreNotSentInTheClear(t *testing.T) {
	const host = "prometheus.shop:9090"
	for _, test := range []struct {
		annotation, address string
		tls                 v1alpha1.SourceTLS
		refused             bool
	}{
		{host, "https://" + host, v1alpha1.SourceTLS{}, false},
		{"https://" + host, "https://" + host, v1alpha1.SourceTLS{}, false},
		{"https://prometheus.shop", "https://" + host, v1alpha1.SourceTLS{}, false},
		{"http://" + host, "https://" + host, v1alpha1.SourceTLS{}, false},
		{host, "http://" + host, v1alpha1.SourceTLS{}, true},
		{"https://" + host, "http://" + host, v1alpha1.SourceTLS{}, true},
		{"http://" + host, "http://" + host, v1alpha1.SourceTLS{}, false},
		{"http://prometheus.shop", "http://" + host, v1alpha1.SourceTLS{}, false},
		{host, "https://" + host, v1alpha1.SourceTLS{InsecureSkipVerify: true}, true},
		{"http://" + host, "https://" + host, v1alpha1.SourceTLS{InsecureSkipVerify: true}, false},
		{host, "https://" + host, v1alpha1.SourceTLS{ServerName: "evil.example"}, true},
		{"metrics.example", "https://10.0.0.1", v1alpha1.SourceTLS{ServerName: "metrics.example"}, false},
		{"http://", "http://", v1alpha1.SourceTLS{}, true},
	} {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "token", Annotations: map[string]string{v1alpha1.UsageSourceAnnotation: test.annotation}},
			Data: map[string][]byte{"token": []byte("t")}}
		s := &sources{largest: &board.Largest{}, namespace: "attune-system", secrets: fake.NewClientBuilder().WithObjects(secret).Build()}
		key := v1alpha1.SecretKey{Name: "token", Key: "token"}
		for _, source := range []v1alpha1.PrometheusSource{
			{Address: test.address, TLS: &test.tls, BearerTokenSecret: &key},
			{Address: test.address, TLS: &test.tls, BasicAuth: &v1alpha1.BasicAuth{Username: "u", PasswordSecret: key}},
		} {
			_, err := s.connect(usage.SourceSettings{Prometheus: &source, Namespace: "shop", OfPolicy: true})
			assert.Equal(t, test.refused, err != nil, "%+v: %v", test, err)
		}
	}
	err := receiverOf("http://"+host, nil).refuse("shop/token")
	assert.EqualError(t, err, "secret shop/token may not be sent to the usage source prometheus.shop:9090 without encryption and a verified certificate: use https:// and no "+
		"tls.insecureSkipVerify, or, to allow it, set the annotation attune.io/usage-source: http://prometheus.shop:9090 on the secret")
}
