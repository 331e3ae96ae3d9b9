package prometheus_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage/prometheus"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	good := "http://prometheus:9090"
	for _, test := range []struct {
		name   string
		config prometheus.Config
		want   string
	}{
		{"no address", prometheus.Config{}, "must be like http://prometheus.monitoring:9090"},
		{"no scheme", prometheus.Config{Address: "prometheus:9090"}, "must be like"},
		{"no host", prometheus.Config{Address: "http:///path"}, "must be like"},
		{"another scheme", prometheus.Config{Address: "file:///etc/passwd"}, "must be like"},
		{"not a URL", prometheus.Config{Address: "http://a b"}, "is not a URL"},
		{"a password in the address", prometheus.Config{Address: "http://me:hush@prometheus"}, "use basicAuth with a secret"},
		{"a fragment", prometheus.Config{Address: "http://prometheus/#/graph"}, "after #"},
		{"a header's name", prometheus.Config{Address: good, Headers: map[string]string{"X Y": "z"}}, `header "X Y"`},
		{"a header's value", prometheus.Config{Address: good, Headers: map[string]string{"X-Y": "a\r\nHost: b"}}, `header "X-Y"`},
		{"the host header", prometheus.Config{Address: good, Headers: map[string]string{"host": "other"}}, `header "host"`},
		{"two ways to authenticate", prometheus.Config{Address: good, Username: "me", Credentials: prometheus.Credentials{BearerToken: "x"}}, "both basicAuth and bearerTokenSecret"},
		{"a token of two lines", prometheus.Config{Address: good, Credentials: prometheus.Credentials{BearerToken: "hush\nhush"}}, "bearer token"},
		{"no certificate", prometheus.Config{Address: good, Credentials: prometheus.Credentials{CA: []byte("x")}}, "no certificate in PEM"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := prometheus.New(test.config)
			require.Error(t, err)
			assert.Contains(t, err.Error(), test.want)
			assert.NotContains(t, err.Error(), "hush", "secrets are not repeated")
			assert.NotContains(t, err.Error(), "\n", "one sentence")
		})
	}
}

func TestConfigOf(t *testing.T) {
	credentials := prometheus.Credentials{Password: "p", CA: []byte("ca")}
	got := prometheus.ConfigOf(v1alpha1.PrometheusSource{
		Address:         "http://prometheus",
		Headers:         map[string]string{"X-Scope-OrgID": "a"},
		QueryParameters: map[string]string{"dedup": "true"},
		BasicAuth:       &v1alpha1.BasicAuth{Username: "me"},
		TLS:             &v1alpha1.SourceTLS{ServerName: "name", InsecureSkipVerify: true},
	}, credentials)
	want := prometheus.Config{
		Address:     "http://prometheus",
		Headers:     map[string]string{"X-Scope-OrgID": "a"},
		Parameters:  map[string]string{"dedup": "true"},
		Username:    "me",
		Credentials: credentials,
		TLS:         v1alpha1.SourceTLS{ServerName: "name", InsecureSkipVerify: true},
	}
	assert.Empty(t, cmp.Diff(want, got))
}
