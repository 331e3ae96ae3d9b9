package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"attune.io/attune/api/v1alpha1"
)

// apiServer answers the requests of status: discovery, and one policy in every namespace.
type apiServer struct {
	t *testing.T
	// user is the impersonated user of the last request. paths has the paths of all requests.
	user  string
	paths []string
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.user = r.Header.Get("Impersonate-User")
	s.paths = append(s.paths, r.URL.Path)
	group := metav1.APIGroup{
		Name:             "attune.io",
		Versions:         []metav1.GroupVersionForDiscovery{{GroupVersion: "attune.io/v1alpha1", Version: "v1alpha1"}},
		PreferredVersion: metav1.GroupVersionForDiscovery{GroupVersion: "attune.io/v1alpha1", Version: "v1alpha1"},
	}
	var answer any
	switch {
	case r.URL.Path == "/api":
		answer = metav1.APIVersions{Versions: []string{"v1"}}
	case r.URL.Path == "/apis":
		answer = metav1.APIGroupList{Groups: []metav1.APIGroup{group}}
	case r.URL.Path == "/apis/attune.io":
		answer = group
	case r.URL.Path == "/apis/attune.io/v1alpha1":
		answer = metav1.APIResourceList{GroupVersion: "attune.io/v1alpha1", APIResources: []metav1.APIResource{
			{Name: "attunepolicies", Kind: "AttunePolicy", Namespaced: true},
			{Name: "attunerecommendations", Kind: "AttuneRecommendation", Namespaced: true},
		}}
	case strings.HasSuffix(r.URL.Path, "/attunepolicies"):
		answer = v1alpha1.AttunePolicyList{Items: []v1alpha1.AttunePolicy{{ObjectMeta: metav1.ObjectMeta{
			Name: "from-the-server", Namespace: "shop", UID: types.UID("1"), CreationTimestamp: metav1.NewTime(testNow),
		}}}}
	case strings.HasSuffix(r.URL.Path, "/attunerecommendations"):
		answer = v1alpha1.AttuneRecommendationList{}
	default:
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	assert.NoError(s.t, json.NewEncoder(w).Encode(answer))
}

// writeKubeconfig writes two contexts: the current one, whose server does not exist, and one that works.
func writeKubeconfig(t *testing.T, server string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	require.NoError(t, os.WriteFile(path, []byte(`apiVersion: v1
kind: Config
current-context: elsewhere
contexts:
  - {name: elsewhere, context: {cluster: elsewhere, user: me}}
  - {name: here, context: {cluster: here, user: me, namespace: kitchen}}
clusters:
  - {name: elsewhere, cluster: {server: "http://127.0.0.1:1"}}
  - {name: here, cluster: {server: "`+server+`"}}
users:
  - {name: me, user: {}}
`), 0o600))
	return path
}

func runAgainstKubeconfig(t *testing.T, args ...string) answer {
	t.Helper()
	var out, errOut bytes.Buffer
	env := &environment{
		IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &out, ErrOut: &errOut},
		now:       func() time.Time { return testNow },
		cluster:   newKubeconfig(),
	}
	code := run(t.Context(), env, args)
	return answer{code: code, out: out.String(), errOut: errOut.String()}
}

func TestKubeconfig(t *testing.T) {
	server := &apiServer{t: t}
	listening := httptest.NewServer(server)
	defer listening.Close()
	path := writeKubeconfig(t, listening.URL)

	got := runAgainstKubeconfig(t, "status", "--kubeconfig", path, "--context", "here", "--as", "alice")
	assert.Equal(t, exitOK, got.code, got.errOut)
	assert.Contains(t, got.out, "from-the-server")
	assert.Equal(t, "alice", server.user)
	assert.Contains(t, server.paths, "/apis/attune.io/v1alpha1/namespaces/kitchen/attunepolicies", "the context's namespace")

	runAgainstKubeconfig(t, "status", "--kubeconfig", path, "--context", "here", "-n", "pantry")
	assert.Contains(t, server.paths, "/apis/attune.io/v1alpha1/namespaces/pantry/attunepolicies")
	assert.Empty(t, server.user)

	runAgainstKubeconfig(t, "status", "--kubeconfig", path, "--context", "here", "-A")
	assert.Contains(t, server.paths, "/apis/attune.io/v1alpha1/attunepolicies")
}

func TestKubeconfigThatLeadsNowhere(t *testing.T) {
	path := writeKubeconfig(t, "http://127.0.0.1:1")
	got := runAgainstKubeconfig(t, "status", "--kubeconfig", path, "--context", "nowhere")
	assert.Equal(t, exitError, got.code)
	assert.Equal(t, "error: cannot connect to a cluster: context \"nowhere\" does not exist\n", got.errOut)

	got = runAgainstKubeconfig(t, "status", "--kubeconfig", path+"-missing")
	assert.Equal(t, exitError, got.code)
	assert.Contains(t, got.errOut, "error: cannot connect to a cluster: ")
}

func TestWithoutAKubeconfig(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for _, args := range [][]string{{"status"}, {"doctor"}, {"node", "worker"}, {"import", "vpa"}, {"savings"}, {"backtest", "--from", "prometheus"},
		{"wizard", "--workloads", "deployment", "--mode", "Auto", "--strategy", "Workload", "--resizes", "InPlace"}} {
		got := runAgainstKubeconfig(t, args...)
		assert.Equal(t, exitError, got.code)
		assert.Equal(t, "error: cannot connect to a cluster: no kubeconfig was found. Use --kubeconfig FILE, or set KUBECONFIG\n", got.errOut)
	}
}

func TestHelpShowsTheFlagsThatMatter(t *testing.T) {
	got := runAgainstKubeconfig(t, "status", "--help")
	assert.Equal(t, exitOK, got.code)
	for _, flag := range []string{"--namespace", "--all-namespaces", "--selector", "--context", "--kubeconfig", "--as ", "--output"} {
		assert.Contains(t, got.out, flag)
	}
	assert.NotContains(t, got.out, "--client-certificate")
}
