package main

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
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

// Excluded nodes are named, and so are the namespaces whose usage lacks the pods of a node.
func TestNodesThatAreNotScraped(t *testing.T) {
	node := func(name string, labelled map[string]string) client.Object {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labelled}}
		n.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
		n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.7"}}
		return n
	}
	pod := func(namespace, name, node string, phase corev1.PodPhase) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase}}
	}
	cached := fake.NewClientBuilder().WithObjects(
		node("good", nil), node("fargate", map[string]string{"eks.amazonaws.com/compute-type": "fargate"}),
		pod("shop", "web-1", "fargate", corev1.PodRunning), pod("shop", "web-2", "fargate", corev1.PodRunning), pod("bank", "db-0", "fargate", corev1.PodPending),
		pod("ci", "job-1", "fargate", corev1.PodSucceeded), pod("ci", "job-2", "good", corev1.PodRunning),
	).WithIndex(&corev1.Pod{}, workload.PodsByNode, func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
	selector, err := labels.Parse(embedded.Scrapeable)
	require.NoError(t, err)
	reader := scrapedNodes{scrapedPods{cached, func(string) bool { return true }}, selector}
	nodes, err := reader.Nodes(t.Context())
	require.NoError(t, err)
	excluded := map[string]bool{}
	for _, n := range nodes {
		excluded[n.Name] = n.Excluded
		assert.NoError(t, n.Unusable)
	}
	assert.Equal(t, map[string]bool{"good": false, "fargate": true}, excluded)
	for node, want := range map[string][]string{"fargate": {"bank", "shop"}, "good": {"ci"}, "none": {}} {
		namespaces, err := reader.NamespacesOn(t.Context(), node)
		require.NoError(t, err)
		assert.Equal(t, want, namespaces, node)
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
