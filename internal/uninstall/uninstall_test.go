package uninstall

import (
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

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
	const group = "/apis/attune.io/v1alpha1/"
	require.NoError(t, Run(t.Context(), api, options))
	assert.Equal(t, map[string]int{group + "attunepolicies": 1, group + "attuneclusterpolicies": 1, group + "attunerecommendations": 2}, lists)

	clear(lists)
	options.Watched = []string{"team-a", "team-b"}
	require.NoError(t, Run(t.Context(), api, options))
	assert.Equal(t, map[string]int{
		group + "namespaces/team-a/attunepolicies": 1, group + "namespaces/team-b/attunepolicies": 1,
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

// cluster serves one policy with these finalizers, and one pod of the operator that never ends.
func cluster(t *testing.T, finalizers string) (api metadata.Interface, requests *[]string) {
	t.Helper()
	requests = &[]string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource, items, kind := path.Base(r.URL.Path), "", "PartialObjectMetadataList"
		*requests = append(*requests, r.Method+" "+resource)
		switch {
		case r.Method == http.MethodPatch:
			finalizers, kind = "", "PartialObjectMetadata"
		case resource == "gone":
			w.WriteHeader(http.StatusNotFound)
			_, err := io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`)
			assert.NoError(t, err)
			return
		case resource == "attune":
			kind = "PartialObjectMetadata"
		case resource == "pods":
			items = `{"metadata":{"namespace":"attune-system","name":"attune-0"}}`
		case resource == "attunepolicies":
			items = `{"metadata":{"namespace":"shop","name":"web","finalizers":[` + finalizers + `]}}`
		}
		w.Header().Set("Content-Type", "application/json")
		_, err := io.WriteString(w, `{"kind":"`+kind+`","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[`+items+`]}`)
		assert.NoError(t, err)
	}))
	t.Cleanup(server.Close)
	api, err := metadata.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	return api, requests
}

// Without a finalizer of attune there is nothing to do: the Job does not wait for pods.
func TestWithoutFinalizersNothingIsDone(t *testing.T) {
	api, requests := cluster(t, `"example.com/other"`)
	out := &strings.Builder{}
	require.NoError(t, Run(t.Context(), api, Options{Namespace: "attune-system", Selector: "a=b", Out: out}))
	assert.Equal(t, "No policy and no recommendation has a finalizer of attune.\n", out.String())
	for _, request := range *requests {
		assert.NotContains(t, request, "pods")
		assert.Contains(t, request, http.MethodGet)
	}
}

// Tools that apply what helm template renders create the Job beside a running operator. It changes nothing then.
func TestAnInstalledOperatorKeepsItsFinalizers(t *testing.T) {
	api, requests := cluster(t, `"attune.io/cleanup"`)
	err := Run(t.Context(), api, Options{Namespace: "attune-system", Selector: "a=b", ServiceAccount: "attune", Out: io.Discard})
	assert.EqualError(t, err, "attune is still installed: the ServiceAccount attune-system/attune exists. "+
		"The uninstall Job is a post-delete hook of Helm: leave it out where another tool applies the chart (uninstall.enabled: false)")
	assert.Equal(t, []string{"GET attune"}, *requests)

	require.NoError(t, Run(t.Context(), api, Options{Namespace: "attune-system", Selector: "a=b", ServiceAccount: "gone", Patience: time.Second, Out: io.Discard}))
	assert.Contains(t, *requests, "PATCH web")
}

// A pod of the operator on a lost node never ends. The finalizers are removed all the same.
func TestPodsThatNeverEndDoNotKeepFinalizers(t *testing.T) {
	api, requests := cluster(t, `"attune.io/cleanup","example.com/other"`)
	out := &strings.Builder{}
	require.NoError(t, Run(t.Context(), api, Options{Namespace: "attune-system", Selector: "a=b", Patience: time.Second, Out: out}))
	assert.Contains(t, *requests, "PATCH web")
	assert.Contains(t, out.String(), "Pods of the operator still terminate, without its rights: ")
	assert.Contains(t, out.String(), "attunepolicies: removed the finalizer attune.io/cleanup from 1\n")
}

// One policy cannot be changed, because an admission policy denies it. All other finalizers are removed, and the error
// names the policy.
func TestARefusedObjectDoesNotKeepTheOthers(t *testing.T) {
	patched := []string{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		resource, items := path.Base(r.URL.Path), ""
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodPatch && resource == "denied":
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"denied by a policy"}`)
			return
		case r.Method == http.MethodPatch:
			patched = append(patched, resource)
			_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{}}`)
			return
		case resource == "attunepolicies":
			items = `{"metadata":{"namespace":"shop","name":"denied","finalizers":["attune.io/cleanup"]}},
				{"metadata":{"namespace":"shop","name":"web","finalizers":["attune.io/cleanup"]}}`
		case resource == "attuneclusterpolicies":
			items = `{"metadata":{"name":"base","finalizers":["attune.io/cleanup"]}}`
		case resource == "attunerecommendations":
			items = `{"metadata":{"namespace":"shop","name":"deployment-web","finalizers":["attune.io/records"]}}`
		}
		_, _ = io.WriteString(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":[`+items+`]}`)
	}))
	defer server.Close()
	api, err := metadata.NewForConfig(&rest.Config{Host: server.URL})
	require.NoError(t, err)
	err = Run(t.Context(), api, Options{Namespace: "attune-system", Selector: "a=b", Out: io.Discard})
	assert.ElementsMatch(t, []string{"web", "base", "deployment-web"}, patched)
	assert.ErrorContains(t, err, "removing the finalizer attune.io/cleanup from attunepolicies: shop/denied: denied by a policy")
}
