package pod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/constraint"
)

func TestFeed(t *testing.T) {
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, v1alpha1.AddToScheme(scheme))
	informers := &informertest.FakeInformers{Scheme: scheme, InformersByGVK: map[schema.GroupVersionKind]toolscache.SharedIndexInformer{
		v1alpha1.GroupVersion.WithKind("AttuneRecommendation"): controllertest.NewFakeInformer(),
		corev1.SchemeGroupVersion.WithKind("LimitRange"):       controllertest.NewFakeInformer(),
		corev1.SchemeGroupVersion.WithKind("ResourceQuota"):    controllertest.NewFakeInformer(),
	}}
	x := NewIndex()

	ready, err := x.Feed(t.Context(), informers)
	require.NoError(t, err)
	rec, lr, q := recommendation(seedFor(t, "app", "1", "")), ranges()[0], quota("cpu", "1", "0")
	for _, object := range []client.Object{rec, lr, q} {
		informer, err := informers.FakeInformerFor(t.Context(), object)
		require.NoError(t, err)
		assert.Error(t, ready(nil), "one of them is missing")
		informer.Add(object)
		informer.Synced()
	}

	assert.NoError(t, ready(nil))
	assert.Equal(t, Read(rec), x.Recommendation(Read(rec).Of))
	assert.Equal(t, []constraint.QuotaLeft{constraint.QuotaLeftOf(q)}, x.Namespace("shop").Quotas)

	t.Run("a kind that nobody knows", func(t *testing.T) {
		none := &informertest.FakeInformers{Scheme: runtime.NewScheme()}
		require.NoError(t, corev1.AddToScheme(none.Scheme))
		_, err := NewIndex().Feed(t.Context(), none)
		assert.ErrorContains(t, err, "watching *v1alpha1.AttuneRecommendation")
	})
}
