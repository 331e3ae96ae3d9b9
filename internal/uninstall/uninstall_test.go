package uninstall

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// With any metadata, a page of it, once as bytes and twice as objects, fits into half of the memory of the chart's Job.
// If namespaces were watched, only these are listed.
func TestPagesFitTheJob(t *testing.T) {
	const biggestObject, job = 3 << 19, 128 << 20
	lists := map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
		assert.NoError(t, err, r.URL)
		assert.LessOrEqual(t, 3*limit*biggestObject, job/2, r.URL)
		lists[path.Clean(r.URL.Path)]++
		w.Header().Set("Content-Type", "application/json")
		_, err = io.WriteString(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[]}`)
		assert.NoError(t, err)
	}))
	defer server.Close()
	api, err := metadata.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	options := Options{Namespace: "attune-system", Selector: "a=b", Out: io.Discard}
	const own, group = "/api/v1/namespaces/attune-system/pods", "/apis/attune.io/v1alpha1/"
	require.NoError(t, Run(t.Context(), api, options))
	assert.Equal(t, map[string]int{own: 1, group + "attunepolicies": 1, group + "attuneclusterpolicies": 1, group + "attunerecommendations": 2}, lists)

	clear(lists)
	options.Watched = []string{"team-a", "team-b"}
	require.NoError(t, Run(t.Context(), api, options))
	assert.Equal(t, map[string]int{
		own: 1, group + "namespaces/team-a/attunepolicies": 1, group + "namespaces/team-b/attunepolicies": 1,
		group + "namespaces/team-a/attunerecommendations": 2, group + "namespaces/team-b/attunerecommendations": 2,
	}, lists)
}

// After an uninstallation nothing restores pods: the log of the hook names their workloads first.
func TestWorkloadsAreNamedBeforeTheOperatorStops(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		items := ""
		if strings.HasSuffix(r.URL.Path, "/attunerecommendations") {
			items = `{"metadata":{"namespace":"shop","name":"deployment-web"}},{"metadata":{"namespace":"pay","name":"statefulset-db"}}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[`+items+`]}`)
		assert.NoError(t, err)
	}))
	defer server.Close()
	api, err := metadata.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	out := &strings.Builder{}
	require.NoError(t, Run(t.Context(), api, Options{Namespace: "attune-system", Selector: "a=b", Out: out}))
	assert.Contains(t, out.String(), "may have less than their original resources: shop/deployment-web, pay/statefulset-db.\n")
	assert.Contains(t, out.String(), "kubectl rollout restart KIND/NAME")
}
