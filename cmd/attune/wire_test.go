package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"attune.io/attune/certs"
)

// wired is a manager that keeps what is added to it, and is never started.
type wired struct {
	ctrl.Manager
	added []manager.Runnable
	ready map[string]healthz.Checker
}

func (w *wired) Add(r manager.Runnable) error {
	w.added = append(w.added, r)
	return nil
}

func (w *wired) AddReadyzCheck(name string, check healthz.Checker) error {
	w.ready[name] = check
	return nil
}

// leads is what of all that was added runs on the leader only, by type.
func (w *wired) leads() map[string]bool {
	leads := map[string]bool{}
	for _, r := range w.added {
		name, _, _ := strings.Cut(fmt.Sprintf("%T", r), "[")
		elected, ok := r.(manager.LeaderElectionRunnable)
		leads[name] = !ok || elected.NeedLeaderElection()
	}
	return leads
}

// unready is a certificate that is not there yet.
type unready struct{ certs.Provider }

func (unready) NeedLeaderElection() bool  { return false }
func (unready) Ready(*http.Request) error { return errors.New("no certificate") }

// TestWhatRunsWhere: every replica serves, and the leader alone asks, decides and writes. A replica is ready once it has
// its certificate and knows the seeds; the leader while it has its rights.
func TestWhatRunsWhere(t *testing.T) {
	o := &options{}
	flags := pflag.NewFlagSet("attune", pflag.ContinueOnError)
	o.register(flags)
	require.NoError(t, flags.Parse([]string{"--namespace=attune-system", "--leader-elect=false", "--usage-source=embedded", "--metrics-bind-address=0", "--health-probe-bind-address=0"}))
	o.meters = newMeters(prometheus.NewRegistry(), o.usageSource)
	provider := unready{}
	mgr, err := o.manager(apiServer(t), provider)
	require.NoError(t, err)
	serves := &wired{Manager: mgr, ready: map[string]healthz.Checker{}}
	require.NoError(t, o.serve(t.Context(), serves, provider))
	assert.Equal(t, map[string]bool{"main.unready": false}, serves.leads())
	require.Contains(t, serves.ready, "certificate")
	assert.ErrorContains(t, serves.ready["certificate"](nil), "no certificate")
	require.Contains(t, serves.ready, "known")
	assert.Error(t, serves.ready["known"](nil), "nothing was read yet")
	assert.Len(t, serves.ready, 2)

	leads := &wired{Manager: mgr, ready: map[string]healthz.Checker{}}
	require.NoError(t, o.control(leads))
	assert.Equal(t, map[string]bool{
		"*controller.Controller": true, "*usage.Loop": true, "*usage.RecentLoop": true, "*embedded.Source": true, "*lookup.Lookup": true, "*workload.Rights": true, "*workload.Served": true,
	}, leads.leads())
	assert.Equal(t, 3, controllers(leads.added), "the policy, the workload and the node loop")
	require.Contains(t, leads.ready, "rights")
	assert.Len(t, leads.ready, 1)
}

func controllers(added []manager.Runnable) (n int) {
	for _, r := range added {
		if strings.HasPrefix(fmt.Sprintf("%T", r), "*controller.Controller") {
			n++
		}
	}
	return n
}

// apiServer is one that says its version and what it serves, and nothing else.
func apiServer(t *testing.T) *rest.Config {
	t.Helper()
	scheme, err := newScheme()
	require.NoError(t, err)
	answers := map[string]any{"/version": version.Info{Major: "1", Minor: "36", GitVersion: "v1.36.3"}}
	groups := map[string][]metav1.GroupVersionForDiscovery{}
	for _, gv := range scheme.PrioritizedVersionsAllGroups() {
		groups[gv.Group] = append(groups[gv.Group], metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: gv.Version})
		path := "/apis/" + gv.String()
		if gv.Group == "" {
			path = "/api/" + gv.Version
		}
		answers[path] = resourcesOf(scheme, gv)
	}
	core := metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}
	named := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for name, versions := range groups {
		if name != "" {
			named.Groups = append(named.Groups, metav1.APIGroup{Name: name, Versions: versions, PreferredVersion: versions[0]})
		}
	}
	answers["/api"], answers["/apis"] = core, named
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		assert.NoError(t, json.NewEncoder(w).Encode(answer))
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func resourcesOf(scheme *runtime.Scheme, gv schema.GroupVersion) metav1.APIResourceList {
	list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: gv.String()}
	for kind := range scheme.KnownTypes(gv) {
		plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind))
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: plural.Resource, Kind: kind, Namespaced: true, Verbs: []string{"get", "list", "watch"}})
	}
	slices.SortFunc(list.APIResources, func(a, b metav1.APIResource) int { return strings.Compare(a.Kind, b.Kind) })
	return list
}
