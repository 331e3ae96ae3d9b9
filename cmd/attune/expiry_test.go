package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/certs"
)

// The metric has the expiry of the certificate that is served now. A missing certificate has no series.
func TestExpiryOfCertificates(t *testing.T) {
	const metric = "attune_certificate_expiry_timestamp_seconds"
	e := newExpiries()
	var serves *tls.Certificate
	e.of[certificateOfWebhook] = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		if serves == nil {
			return nil, errors.New("no serving certificate yet")
		}
		return serves, nil
	}
	assert.Zero(t, testutil.CollectAndCount(e, metric))

	pair, err := certs.Own(time.Now(), "localhost")
	require.NoError(t, err)
	serves = &pair
	assert.InDelta(t, float64(pair.Leaf.NotAfter.Unix()), testutil.ToFloat64(e), 0)
	assert.Greater(t, testutil.ToFloat64(e), float64(time.Now().Unix()))

	end := time.Now().Add(time.Hour)
	serves = &tls.Certificate{Leaf: &x509.Certificate{NotAfter: end}}
	assert.InDelta(t, float64(end.Unix()), testutil.ToFloat64(e), 0, "it was renewed")
}

// TestMetricsHaveTheirCertificate: if the metrics are served over TLS, the expiry of their certificate is a metric.
func TestMetricsHaveTheirCertificate(t *testing.T) {
	for secure, series := range map[string]int{"--metrics-secure=true": 1, "--metrics-secure=false": 0} {
		o := optionsOf(t, program{controls: true}, "--metrics-bind-address=127.0.0.1:0", "--certs-provider=cert-manager", secure)
		c := Config{Options: *o, api: connected(t, apiServer(t).Host), watched: namespaces{"team-a"}}
		registry := prometheus.NewRegistry()
		m := newMeters(&c.Options, registry)
		mgr, err := newManager(c, nil, m)
		require.NoError(t, err)
		require.NoError(t, serveMetrics(mgr, c, registry, m))
		assert.Equal(t, series, testutil.CollectAndCount(m.certificates), secure)
	}
}
