package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	clientfake "k8s.io/client-go/kubernetes/fake"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	policyloop "attune.io/attune/controller/policy"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/internal/workload"
)

// allowing allows watching some namespaces.
func allowing(names ...string) mayWatch {
	return func(_ context.Context, namespace string) (bool, error) { return slices.Contains(names, namespace), nil }
}

func TestNamespacesThatMayBeWatched(t *testing.T) {
	asked := namespaces{"a", "b", "c"}
	watched, left, err := asked.split(t.Context(), allowing("c", "a", "other"))
	require.NoError(t, err)
	assert.Equal(t, namespaces{"a", "c"}, watched)
	assert.Equal(t, namespaces{"b"}, left)

	watched, left, err = namespaces(nil).split(t.Context(), allowing())
	require.NoError(t, err)
	assert.Empty(t, watched, "all of them")
	assert.Empty(t, left)

	_, _, err = asked.split(t.Context(), allowing())
	assert.ErrorContains(t, err, "--watch-namespaces a,b,c: the operator may not watch any of them", "an empty list would be all namespaces")

	_, _, err = asked.split(t.Context(), func(context.Context, string) (bool, error) { return false, errors.New("no answer") })
	assert.EqualError(t, err, "no answer", "who was not asked about is not left out")
}

// TestALeftOutNamespaceComesBack: a process ends as soon as it may watch a namespace it left out, but not on an error
// of the check.
func TestALeftOutNamespaceComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		left := leftOut(namespaces{"a", "b"}, func(_ context.Context, namespace string) (bool, error) {
			if time.Since(began) < 5*time.Minute {
				return false, errors.New("no answer")
			}
			return namespace == "b" && time.Since(began) >= 10*time.Minute, nil
		})
		assert.EqualError(t, left.Start(t.Context()), "one of the namespaces a,b may be watched now: the operator restarts to watch it")
		assert.GreaterOrEqual(t, time.Since(began), 10*time.Minute)
		assert.LessOrEqual(t, time.Since(began), 12*time.Minute)
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		assert.NoError(t, leftOut(namespaces{"a"}, allowing()).Start(ctx))
	})
}

func TestWhatIsCached(t *testing.T) {
	assert.Nil(t, namespaces(nil).cached(), "all of them")
	assert.True(t, namespaces(nil).has("a"))
	some := namespaces{"a", "b"}
	assert.Len(t, some.cached(), 2)
	assert.True(t, some.has("b"))
	assert.False(t, some.has("c"))
	assert.Equal(t, some.cached(), cacheOptions(some).DefaultNamespaces)
}

// TestRightsInOneOfTheNamespaces are enough: a denial in one namespace does not affect the others.
func TestRightsInOneOfTheNamespaces(t *testing.T) {
	asked := map[string]int{}
	api := func(granted ...string) kubernetes.Interface {
		clear(asked)
		api := clientfake.NewClientset()
		api.PrependReactor("create", "selfsubjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
			review := action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview)
			asked[review.Spec.ResourceAttributes.Namespace]++
			review.Status.Allowed = slices.Contains(granted, review.Spec.ResourceAttributes.Namespace)
			return true, review, nil
		})
		return api
	}
	for _, c := range []struct {
		watched namespaces
		granted []string
		want    bool
		asked   map[string]int
	}{
		{nil, []string{""}, true, map[string]int{"": 1}},
		{nil, []string{"a"}, false, map[string]int{"": 1}},
		{namespaces{"a", "b", "c"}, []string{"b"}, true, map[string]int{"a": 1, "b": 1}},
		{namespaces{"a", "b"}, []string{"c"}, false, map[string]int{"a": 1, "b": 1}},
	} {
		may, err := mayResize(t.Context(), api(c.granted...).AuthorizationV1().SelfSubjectAccessReviews(), c.watched)
		assert.NoError(t, err)
		assert.Equal(t, c.want, may)
		assert.Equal(t, c.asked, asked)
	}
}

// TestEveryWatchedKindIsAskedAbout: the cache never syncs if the operator may not watch one of them.
func TestEveryWatchedKindIsAskedAbout(t *testing.T) {
	scheme, err := newScheme()
	require.NoError(t, err)
	cloneSet := schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}
	workload.AddScaledToScheme(scheme, cloneSet)
	workloads := kinds{
		Sized:     workload.Sized{Rollouts: true, Scaled: []schema.GroupVersionKind{cloneSet}},
		resources: []schema.GroupResource{{Group: "apps.kruise.io", Resource: "clonesets"}},
	}
	everywhere := []string{"nodes", "namespaces", "attunedefaults"}
	of := func(objects ...client.Object) (kinds []string) {
		for _, o := range objects {
			gvk, err := apiutil.GVKForObject(o, scheme)
			require.NoError(t, err)
			plural, _ := meta.UnsafeGuessKindToResource(gvk)
			plural.Resource = strings.Replace(plural.Resource, "defaultses", "defaults", 1)
			if !slices.Contains(everywhere, plural.Resource) {
				kinds = append(kinds, plural.GroupResource().String())
			}
		}
		return kinds
	}
	asked := func(p program) (kinds []string) {
		for _, kind := range p.watchedKinds(workloads) {
			kinds = append(kinds, kind.String())
		}
		return kinds
	}
	var watched []client.Object
	for _, w := range slices.Concat((&policyloop.Controller{Sized: workloads.Sized}).Watches(), (&workloadloop.Controller{Access: workloadloop.Access{Sized: workloads.Sized}}).Watches()) {
		watched = append(watched, w.Object)
	}
	assert.Subset(t, asked(program{controls: true}), of(watched...))
	assert.Subset(t, asked(program{controls: true}), asked(program{serves: true}), "one process may be both")
	assert.ElementsMatch(t, asked(program{serves: true}), []string{"limitranges", "resourcequotas", "attunerecommendations.attune.io", "attunenamespacedefaults.attune.io"})
}

// TestAPartOfTheRightsIsNotEnough: a user that may edit Roles in a namespace leaves the operator only one right
// there.
func TestAPartOfTheRightsIsNotEnough(t *testing.T) {
	for name, c := range map[string]struct {
		allows func(*authorizationv1.ResourceAttributes) bool
		want   bool
	}{
		"all":      {func(*authorizationv1.ResourceAttributes) bool { return true }, true},
		"one kind": {func(a *authorizationv1.ResourceAttributes) bool { return a.Resource == "attunerecommendations" }, false},
		"lists":    {func(a *authorizationv1.ResourceAttributes) bool { return a.Verb == "list" }, false},
		"not pods": {func(a *authorizationv1.ResourceAttributes) bool { return a.Resource != "pods" }, false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			review := &authorizationv1.SelfSubjectAccessReview{}
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			_, _, err = clientgoscheme.Codecs.UniversalDeserializer().Decode(body, nil, review)
			assert.NoError(t, err)
			assert.Equal(t, "team-a", review.Spec.ResourceAttributes.Namespace)
			review.TypeMeta = metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectAccessReview"}
			review.Status.Allowed = c.allows(review.Spec.ResourceAttributes)
			w.Header().Set("Content-Type", "application/json")
			assert.NoError(t, json.NewEncoder(w).Encode(review))
		}))
		ok, err := connected(t, server.URL).mayWatch(program{controls: true}.watchedKinds(kinds{})...)(t.Context(), "team-a")
		assert.NoError(t, err)
		assert.Equal(t, c.want, ok, name)
		server.Close()
	}
}

// TestAPolicyOfALeftOutNamespace is rejected with a sentence that names the fix.
func TestAPolicyOfALeftOutNamespace(t *testing.T) {
	r := watchedReader{fake.NewClientBuilder().Build(), namespaces{"a"}}
	assert.EqualError(t, r.Get(t.Context(), client.ObjectKey{Namespace: "b", Name: "default"}, &corev1.Pod{}),
		"the operator may not watch namespace b yet: upgrade the release to grant it")
	assert.True(t, apierrors.IsNotFound(r.Get(t.Context(), client.ObjectKey{Namespace: "a", Name: "x"}, &corev1.Pod{})))
	assert.True(t, apierrors.IsNotFound(r.Get(t.Context(), client.ObjectKey{Name: "x"}, &corev1.Node{})), "of no namespace")
}

// unfilled is a manager whose caches never sync.
type unfilled struct{ ctrl.Manager }

func (unfilled) GetCache() cache.Cache { return never{} }

func (unfilled) Start(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

type never struct{ cache.Cache }

func (never) WaitForCacheSync(ctx context.Context) bool {
	<-ctx.Done()
	return false
}

// TestCachesThatAreNeverFilled end the process with errNotSynced; the end of the context does not cause it.
func TestCachesThatAreNeverFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		assert.ErrorIs(t, startSynced(t.Context(), unfilled{}, time.Minute), errNotSynced)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.NoError(t, startSynced(ctx, unfilled{}, time.Minute))
	})
}
