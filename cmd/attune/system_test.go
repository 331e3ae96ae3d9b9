package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"attune.io/attune/certs"
	policyloop "attune.io/attune/controller/policy"
	events "attune.io/attune/internal/event"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/workload"
	"attune.io/attune/usage/history"
	"attune.io/attune/usage/recent"
)

// wired is a manager that records its runnables and is never started.
type wired struct {
	ctrl.Manager
	added  []manager.Runnable
	ready  map[string]healthz.Checker
	read   *informed
	served bool
}

// GetControllerOptions allows controllers with the same names in consecutive tests.
func (w *wired) GetControllerOptions() config.Controller {
	options := w.Manager.GetControllerOptions()
	options.SkipNameValidation = ptr.To(true)
	return options
}

func (w *wired) GetCache() cache.Cache { return w.read }

func (w *wired) GetWebhookServer() webhook.Server {
	w.served = true
	return w.Manager.GetWebhookServer()
}

// informed records the kinds whose informers were requested.
type informed struct {
	cache.Cache
	kinds []string
}

func (i *informed) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	i.kinds = append(i.kinds, reflect.TypeOf(object).Elem().Name())
	return i.Cache.GetInformer(ctx, object, options...)
}

func (w *wired) Add(r manager.Runnable) error {
	w.added = append(w.added, r)
	return nil
}

func (w *wired) AddReadyzCheck(name string, check healthz.Checker) error {
	w.ready[name] = check
	return nil
}

// leads returns, by type, whether an added runnable runs on the leader only.
func (w *wired) leads() map[string]bool {
	leads := map[string]bool{}
	for _, r := range w.added {
		name, _, _ := strings.Cut(fmt.Sprintf("%T", r), "[")
		elected, ok := r.(manager.LeaderElectionRunnable)
		leads[name] = !ok || elected.NeedLeaderElection()
	}
	return leads
}

// unready is a provider without a certificate.
type unready struct{ certs.Provider }

func (unready) NeedLeaderElection() bool  { return false }
func (unready) Ready(*http.Request) error { return errors.New("no certificate") }

// TestWhatRunsWhere: every replica of the webhook serves, every replica of the controller names the leader, and only
// the leader measures, decides and writes. Neither program runs parts of the other. A replica of the webhook is ready
// once it has its certificate and the index of recommendations; the leader while it has its rights. A process with
// both programs does all of it, and waits for all of it.
func TestWhatRunsWhere(t *testing.T) {
	serving := map[string]bool{"main.unready": false}
	controlling := map[string]bool{
		"*controller.Controller": true, "*usage.Loop": true, "*usage.RecentLoop": true, "*embedded.Source": true, "*lookup.Autoscalers": true, "*workload.Rights": true, "*workload.Served": true,
		"*main.decisions": false, "*main.sampler": true,
	}
	for _, c := range []struct {
		program  program
		provider certs.Provider
		flags    []string
		runs     []map[string]bool
		ready    []string
		reads    []string
	}{
		{program{serves: true}, unready{}, nil, []map[string]bool{serving}, []string{"certificate", "known"},
			[]string{"AttuneDefaults", "AttuneNamespaceDefaults", "AttuneRecommendation", "LimitRange", "ResourceQuota"}},
		{program{controls: true}, nil, []string{"--leader-elect=false", "--usage-source=embedded"}, []map[string]bool{controlling}, []string{"rights"}, nil},
		{program{controls: true}, unready{}, []string{"--leader-elect=false", "--usage-source=embedded"}, []map[string]bool{serving, controlling}, []string{"rights"}, nil},
		{everything, unready{}, []string{"--leader-elect=false", "--usage-source=embedded"}, []map[string]bool{serving, controlling}, []string{"certificate", "known", "rights"}, nil},
	} {
		t.Run(fmt.Sprintf("%+v", c.program), func(t *testing.T) {
			o := optionsOf(t, c.program, append([]string{"--metrics-bind-address=0", "--health-probe-bind-address=0"}, c.flags...)...)
			config, err := o.Complete(t.Context(), apiServer(t))
			require.NoError(t, err)
			w := wire(t, config, c.provider)

			want := map[string]bool{}
			for _, runs := range c.runs {
				maps.Copy(want, runs)
			}
			assert.Equal(t, want, w.leads())
			assert.ElementsMatch(t, c.ready, slices.Collect(maps.Keys(w.ready)))
			if c.program.serves {
				assert.ErrorContains(t, w.ready["certificate"](nil), "no certificate")
				assert.Error(t, w.ready["known"](nil), "nothing was read yet")
			}
			assert.Equal(t, c.program.serves, w.served, "a webhook server")
			if c.program.controls {
				assert.Equal(t, 3, controllers(w.added), "the policy, the workload and the node loop")
			} else {
				assert.ElementsMatch(t, c.reads, w.read.kinds, "nothing else is watched")
			}
		})
	}
}

// TestThePolicyLoopKnowsEverything: a nil or empty field of the loop disables a feature.
func TestThePolicyLoopKnowsEverything(t *testing.T) {
	o := optionsOf(t, program{controls: true}, "--leader-elect=false", "--namespace=attune-system")
	c := Config{Options: *o, api: connected(t, apiServer(t).Host), kinds: kinds{Sized: workload.Sized{Rollouts: true}}}
	mgr, err := newManager(c, nil, meters{})
	require.NoError(t, err)
	of := shared{
		operator: c.process.namespace, settings: lookup.Reader{Client: mgr.GetClient()},
		autoscalers: &lookup.Autoscalers{}, events: &events.Recorder{},
	}

	loop := newPolicyLoop(mgr, c, of, newBoards(), &history.Store{}, &recent.Store{})

	assert.Equal(t, "attune-system", loop.Operator)
	unset := []string{"Doubt", "Clock"} // Doubt is for tests only, and the zero value of Clock is the system's clock
	for _, f := range reflect.VisibleFields(reflect.TypeFor[policyloop.Controller]()) {
		if f.IsExported() && len(f.Index) == 1 && !slices.Contains(unset, f.Name) {
			assert.False(t, reflect.ValueOf(loop).Elem().FieldByIndex(f.Index).IsZero(), "%s was forgotten", f.Name)
		}
	}
}

// TestNodesAreNotSharedInSomeNamespaces: an operator that does not see all pods of a node does not share it.
func TestNodesAreNotSharedInSomeNamespaces(t *testing.T) {
	o := optionsOf(t, program{controls: true}, "--leader-elect=false", "--watch-namespaces=team-a,team-b")
	assert.True(t, o.operator().SomeNamespaces)
	w := wire(t, Config{Options: *o, api: connected(t, apiServer(t).Host), watched: namespaces{"team-a"}}, nil)
	assert.Equal(t, 2, controllers(w.added), "the policy and the workload loop")
}

// TestWhoHasACertificate: with cert-manager, the controller has no provider; otherwise it issues the certificate. The
// webhook serves the certificate, and issues it only in a process that is also the controller.
func TestWhoHasACertificate(t *testing.T) {
	for _, p := range []program{{serves: true}, {controls: true}, everything} {
		o := optionsOf(t, p, "--certs-provider=self-signed")
		provider, err := newCertificates(Config{Options: *o, api: connected(t, apiServer(t).Host)})
		require.NoError(t, err)
		assert.Equal(t, !p.controls, provider.(*certs.SelfSigned).Follows, "%+v", p)
	}
	o := &Options{program: program{controls: true}, certificates: certificateOptions{provider: providerCertManager}, webhooks: webhookOptions{certDir: "/nowhere"}}
	provider, err := newCertificates(Config{Options: *o, api: connected(t, apiServer(t).Host)})
	require.NoError(t, err)
	assert.Nil(t, provider)
}

// connected returns a connection to an API server.
func connected(t *testing.T, url string) connection {
	t.Helper()
	api, err := connect(&rest.Config{Host: url})
	require.NoError(t, err)
	return api
}

// optionsOf returns the options of a program with flags.
func optionsOf(t *testing.T, p program, arguments ...string) *Options {
	t.Helper()
	o := &Options{program: p}
	flags := pflag.NewFlagSet("attune", pflag.ContinueOnError)
	o.register(flags)
	require.NoError(t, flags.Parse(append([]string{"--namespace=attune-system"}, arguments...)))
	return o
}

// wire adds the parts of a program to a manager that is never started.
func wire(t *testing.T, c Config, provider certs.Provider) *wired {
	t.Helper()
	m := newMeters(&c.Options, prometheus.NewRegistry())
	mgr, err := newManager(c, provider, m)
	require.NoError(t, err)
	w := &wired{Manager: mgr, ready: map[string]healthz.Checker{}, read: &informed{Cache: mgr.GetCache()}}
	require.NoError(t, addProgram(t.Context(), w, c, provider, m))
	return w
}

func controllers(added []manager.Runnable) (n int) {
	for _, r := range added {
		if strings.HasPrefix(fmt.Sprintf("%T", r), "*controller.Controller") {
			n++
		}
	}
	return n
}

// apiServer serves only its version and discovery.
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
	allowed := &authorizationv1.SelfSubjectAccessReview{TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"}}
	allowed.Status.Allowed = true
	answers["/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"] = allowed
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
