package main

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/usage/embedded"
)

// TestPodsOfOtherNamespaces: kubelets report every pod, but the caches reject requests for pods that they do not
// hold.
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
	reader := scrapedPods{cached, func(namespace string) bool { return slices.Contains([]string{"a", "b"}, namespace) }}
	for namespace, want := range map[string]string{"a": "n", "b": "", "other": ""} {
		node, err := reader.NodeOf(t.Context(), embedded.Pod{Namespace: namespace, Name: "web"})
		assert.NoError(t, err)
		assert.Equal(t, want, node, namespace)
		assert.Equal(t, want != "", reader.There(namespace, "web"), namespace)
	}
}

func TestWhichPodsAreScrapedMoreOften(t *testing.T) {
	rec := v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop"}}
	rec.Status.Records = []v1alpha1.ResizeRecord{{PodName: "web-1", Node: "n1"}, {PodName: "web-2", Node: "n2"}}
	assert.Equal(t, map[embedded.Pod]string{{Namespace: "shop", Name: "web-1"}: "n1", {Namespace: "shop", Name: "web-2"}: "n2"},
		withRecords([]v1alpha1.AttuneRecommendation{rec, {}}), "those with a record of a resize")

	assert.False(t, sizedByNode(&rec))
	rec.Spec.Strategy, rec.Spec.Mode = v1alpha1.StrategyNode, v1alpha1.UpdateAuto
	assert.True(t, sizedByNode(&rec))
	rec.Spec.Mode = v1alpha1.UpdateInitial
	assert.False(t, sizedByNode(&rec), "running pods stay as they are")
}
