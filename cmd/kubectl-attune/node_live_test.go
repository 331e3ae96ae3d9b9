package main

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// nodeTest has a cluster with the objects of testdata/node-cluster.yaml.
func nodeTest(t *testing.T, through interceptor.Funcs) cliTest {
	t.Helper()
	objects := readObjects(t, filepath.Join("testdata", "node-cluster.yaml"))
	byNode := func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }
	c := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(objects...).WithInterceptorFuncs(through).
		WithIndex(&corev1.Pod{}, podsByNode, byNode).Build()
	return cliTest{t: t, client: c}
}

// Without the leader, the answer has the present and the wanted resources of each pod, and the pods outside the
// sharing.
func TestNode(t *testing.T) {
	for name, args := range map[string][]string{
		"node-live.txt": {}, "node-live-wide.txt": {"-o", "wide"}, "node-live.json": {"-o", "json"}, "node-live.yaml": {"-o", "yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			got := nodeTest(t, interceptor.Funcs{}).run(append([]string{"node", "worker"}, args...)...)
			require.Equal(t, exitOK, got.code, got.errOut)
			assert.Contains(t, got.errOut, "grants are not shown: lease attune.attune.io does not exist")
			golden(t, name, got.out)
		})
	}
}

func TestNodeThatIsNotThere(t *testing.T) {
	got := nodeTest(t, interceptor.Funcs{}).run("node", "gone")
	assert.Equal(t, exitError, got.code)
	assert.Equal(t, "error: node gone does not exist: kubectl get nodes lists the nodes\n", got.errOut)
}

func TestNodeWithoutRights(t *testing.T) {
	got := nodeTest(t, interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, _ client.ObjectList, _ ...client.ListOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
	}}).run("node", "worker")
	assert.Equal(t, exitError, got.code)
	assert.Contains(t, got.errOut, "missing permission: listing the pods of node worker")
	assert.Empty(t, got.out)
}
