package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/usage"
	promsource "attune.io/attune/usage/prometheus"
)

// TestWhoNamesTheServer: a policy may not name a server on loopback, but the defaults may.
func TestWhoNamesTheServer(t *testing.T) {
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"status":"success","data":{"resultType":"matrix","result":[]}}`)
	}))
	defer served.Close()
	_, port, err := net.SplitHostPort(served.Listener.Addr().String())
	require.NoError(t, err)
	now := time.Now()
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]"} {
		for _, ofPolicy := range []bool{true, false} {
			source, err := (&sources{largest: &board.Largest{}}).connect(usage.SourceSettings{
				Prometheus: &v1alpha1.PrometheusSource{Address: "http://" + net.JoinHostPort(strings.Trim(host, "[]"), port)}, OfPolicy: ofPolicy,
			})
			require.NoError(t, err)
			_, err = source.Read(context.Background(), usage.Query{Namespaces: []string{"shop"}, Start: now, End: now, Step: time.Minute, RateWindow: time.Minute}, func(usage.Series) {})
			if ofPolicy {
				require.Error(t, err, host)
				assert.Contains(t, err.Error(), "is not allowed", host)
			} else {
				require.NoError(t, err, host)
			}
		}
	}
}

// noRights denies the operator reading any Secret.
type noRights struct{ client.Reader }

func (noRights) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, nil)
}

// TestSecretsOfTheDefaults: a chart value grants reading them, and the condition names that value.
func TestSecretsOfTheDefaults(t *testing.T) {
	s := &sources{largest: &board.Largest{}, namespace: "attune-system", secrets: noRights{}}
	source := v1alpha1.PrometheusSource{Address: "http://thanos:9090", BearerTokenSecret: &v1alpha1.SecretKey{Name: "thanos", Key: "token"}}
	_, err := s.connect(usage.SourceSettings{Prometheus: &source})
	assert.EqualError(t, err, "the operator may not read secret attune-system/thanos of the usage source: add thanos to the value usage.defaultsSecrets")
	_, err = s.connect(usage.SourceSettings{Prometheus: &source, Namespace: "shop", OfPolicy: true})
	assert.ErrorContains(t, err, "reading secret shop/thanos of the usage source", "no value helps a policy")
}

// TestDropsOfHistoriesCountForTheirSource: whether a policy names a server or the operator scrapes kubelets.
func TestDropsOfHistoriesCountForTheirSource(t *testing.T) {
	registry := prometheus.NewRegistry()
	s := &sources{own: kubeletSource{}, meter: promsource.NewMeter(registry)}
	s.dropped(usage.SourceSettings{}, map[usage.Drop]int{usage.DropStartup: 2})
	s.dropped(usage.SourceSettings{Prometheus: &v1alpha1.PrometheusSource{}}, map[usage.Drop]int{usage.DropIdle: 3})
	assert.NoError(t, testutil.GatherAndCompare(registry, strings.NewReader(`
# HELP attune_usage_samples_dropped_total Usage samples dropped, by source and reason.
# TYPE attune_usage_samples_dropped_total counter
attune_usage_samples_dropped_total{reason="idle",source="prometheus"} 3
attune_usage_samples_dropped_total{reason="startup",source="embedded"} 2
`), "attune_usage_samples_dropped_total"))
}

// The log has the cause that a condition does not show, and repeats it only after a while.
func TestCauseOfAPolicysSourceIsLoggedOnce(t *testing.T) {
	s := &sources{largest: &board.Largest{}, logged: lru.New(mostLogged)}
	settings := usage.SourceSettings{Prometheus: &v1alpha1.PrometheusSource{Address: "http://127.0.0.1:1"}, OfPolicy: true}
	source, err := s.connect(settings)
	require.NoError(t, err)
	now := time.Now()
	for range 2 {
		_, err = source.Read(context.Background(), usage.Query{Namespaces: []string{"shop"}, Start: now, End: now, Step: time.Minute, RateWindow: time.Minute}, func(usage.Series) {})
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "link-local")
		s.logDetail(settings, err)
	}
	assert.Equal(t, 1, s.logged.Len())
	s.logDetail(settings, errors.New("no failure of a server"))
	assert.Equal(t, 1, s.logged.Len())
}
