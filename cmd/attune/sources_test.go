package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage"
)

// TestWhoNamesTheServer decides whether it may be at the operator's own address: credentials or none.
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
			o := &options{}
			source, err := o.connect(nil, usage.SourceSettings{
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
