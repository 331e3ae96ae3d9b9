package prometheus

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
)

func TestAddressesOfPolicySources(t *testing.T) {
	for _, invalid := range []string{"", "http://prometheus", "prometheus:9090", "10.0.0.0/40", "*", "a b"} {
		_, err := ParseAddresses([]string{"prometheus.monitoring", invalid})
		assert.ErrorContains(t, err, fmt.Sprintf("%q is not a host", invalid))
	}
	all, err := ParseAddresses([]string{"Prometheus.monitoring", "*.metrics.svc", "192.0.2.0/24", "2001:db8::/32", "198.51.100.7", "localhost"})
	require.NoError(t, err)
	config := Config{PolicySource: true, Addresses: all}
	for _, test := range []struct {
		host, ip string
		allowed  bool
	}{
		{"192.0.2.8", "192.0.2.8", true}, {"any.example", "192.0.2.8", true}, {"any.example", "::ffff:192.0.2.8", true},
		{"any.example", "2001:db8::1", true}, {"any.example", "198.51.100.7", true},
		{"any.example", "192.0.3.8", false}, {"any.example", "2001:db9::1", false}, {"any.example", "198.51.100.8", false},
		{"prometheus.monitoring", "10.0.0.1", true}, {"PROMETHEUS.monitoring.", "10.0.0.1", true}, {"a.metrics.svc", "10.0.0.1", true},
		{"metrics.svc", "10.0.0.1", false}, {"evil-metrics.svc", "10.0.0.1", false}, {"prometheus.monitoring.evil", "10.0.0.1", false},
		{"localhost", "127.0.0.1", false}, {"prometheus.monitoring", "169.254.169.254", false},
	} {
		assert.Equal(t, test.allowed, config.allows(test.host, netip.MustParseAddr(test.ip)), "%s at %s", test.host, test.ip)
	}
	assert.True(t, Config{PolicySource: true}.allows("any.example", netip.MustParseAddr("10.0.0.1")), "no addresses set")
	assert.True(t, Config{Addresses: all}.allows("any.example", netip.MustParseAddr("10.0.0.1")), "the operator's own server")
}

func TestNameOutsideTheAddressesIsNotResolved(t *testing.T) {
	config := Config{PolicySource: true, Addresses: Addresses{"prometheus.monitoring"}}
	_, err := config.dial(context.Background(), "tcp", "vault.payroll:80")
	assert.ErrorAs(t, err, &addressError{}, "another error would tell whether the name exists")
}

// HTTP/2 is the larger part of the HTTP client, and a server that a policy names is not trusted.
func TestClientSpeaksNoHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	transport, err := Config{TLS: v1alpha1.SourceTLS{InsecureSkipVerify: true}}.transport()
	require.NoError(t, err)
	answer, err := transport.RoundTrip(httptest.NewRequest(http.MethodGet, server.URL, nil))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	assert.Equal(t, 1, answer.ProtoMajor)
}
