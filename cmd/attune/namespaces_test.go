package main

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/usage/embedded"
)

// allowing lets some namespaces be watched.
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
	assert.ErrorContains(t, err, "--watch-namespaces a,b,c: the operator may list attunerecommendations in none of them", "an empty list would be all namespaces")

	_, _, err = asked.split(t.Context(), func(context.Context, string) (bool, error) { return false, errors.New("no answer") })
	assert.EqualError(t, err, "no answer", "who was not asked about is not left out")
}

// TestALeftOutNamespaceComesBack: a process ends once it may watch what it left out, and not because it cannot ask.
func TestALeftOutNamespaceComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		left := leftOut{names: namespaces{"a", "b"}, clock: clock.RealClock{}, may: func(_ context.Context, namespace string) (bool, error) {
			if time.Since(began) < 5*time.Minute {
				return false, errors.New("no answer")
			}
			return namespace == "b" && time.Since(began) >= 10*time.Minute, nil
		}}
		assert.EqualError(t, left.Start(t.Context()), "namespace b may be watched now: the next process watches it")
		assert.Equal(t, 10*time.Minute, time.Since(began))
	})
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		assert.NoError(t, leftOut{names: namespaces{"a"}, clock: clock.RealClock{}, may: allowing()}.Start(ctx))
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

// TestPodsOfOtherNamespaces: kubelets tell of every pod, and the caches refuse to be asked about those that they do not hold.
func TestPodsOfOtherNamespaces(t *testing.T) {
	pod := func(namespace string) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}, Spec: corev1.PodSpec{NodeName: "n"}}
	}
	refusing := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if key.Namespace == "other" {
			return errors.New("unknown namespace for the cache")
		}
		return c.Get(ctx, key, o, options...)
	}}
	cached := fake.NewClientBuilder().WithObjects(pod("a"), pod("other")).WithInterceptorFuncs(refusing).Build()
	watched := namespaces{"a", "b"}
	for namespace, want := range map[string]string{"a": "n", "b": "", "other": ""} {
		node, err := cluster{cached, watched}.NodeOf(t.Context(), embedded.Pod{Namespace: namespace, Name: "web"})
		assert.NoError(t, err)
		assert.Equal(t, want, node, namespace)
		assert.Equal(t, want != "", isThere(cached, watched)(namespace, "web"), namespace)
	}
}

// TestRightsInOneOfTheNamespaces are enough: what is denied in one is that one's.
func TestRightsInOneOfTheNamespaces(t *testing.T) {
	asked := map[string]int{}
	api := func(granted ...string) client.Client {
		clear(asked)
		return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
			review := o.(*authorizationv1.SelfSubjectAccessReview)
			asked[review.Spec.ResourceAttributes.Namespace]++
			review.Status.Allowed = slices.Contains(granted, review.Spec.ResourceAttributes.Namespace)
			return nil
		}}).Build()
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
		may, err := mayResize(t.Context(), api(c.granted...), c.watched)
		assert.NoError(t, err)
		assert.Equal(t, c.want, may)
		assert.Equal(t, c.asked, asked)
	}
}
