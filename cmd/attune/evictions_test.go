package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A 429 for an eviction is returned at once, whatever its Retry-After. client-go handles all others.
func TestADeniedEvictionIsAnsweredAtOnce(t *testing.T) {
	asked := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked[r.URL.Path]++
		if r.Method == http.MethodGet && asked[r.URL.Path] > 1 {
			return
		}
		w.Header().Set("Retry-After", "1")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429}`))
	}))
	defer server.Close()
	config := &rest.Config{Host: server.URL, QPS: -1}
	config.Wrap(evictionsAtOnce)
	api, err := kubernetes.NewForConfig(config)
	assert.NoError(t, err)
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1"}}
	err = api.PolicyV1().Evictions("shop").Evict(t.Context(), eviction)
	assert.True(t, apierrors.IsTooManyRequests(err), "%v", err)
	assert.Equal(t, 1, asked["/api/v1/namespaces/shop/pods/web-1/eviction"])

	_, _ = api.CoreV1().RESTClient().Get().AbsPath("/healthz").DoRaw(t.Context())
	assert.Equal(t, 2, asked["/healthz"], "an API server with too much to do is asked again later")
}
