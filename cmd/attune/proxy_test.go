package main

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
)

// TestAPIServerOfTheClusterNeedsNoProxy: HTTPS_PROXY is for the usage source. A proxy outside of the cluster does not
// reach the address of the Service kubernetes.
func TestAPIServerOfTheClusterNeedsNoProxy(t *testing.T) {
	request := &http.Request{URL: &url.URL{Scheme: "https", Host: "10.96.0.1:443"}}
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	config := withoutProxy(&rest.Config{Host: "https://10.96.0.1:443"})
	require.NotNil(t, config.Proxy, "client-go reads the environment")
	through, err := config.Proxy(request)
	require.NoError(t, err)
	assert.Nil(t, through)

	of := &url.URL{Scheme: "http", Host: "proxy:3128"}
	through, err = withoutProxy(&rest.Config{Proxy: http.ProxyURL(of)}).Proxy(request)
	require.NoError(t, err)
	assert.Equal(t, of, through, "proxy-url of a kubeconfig stays")

	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	assert.Nil(t, withoutProxy(&rest.Config{}).Proxy, "outside of a cluster the environment decides")
}
