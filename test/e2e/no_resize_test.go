package e2e

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/test/cluster"
)

var onNoResize = flag.Bool("no-resize", false, "run the operator before an API server that serves no pods/resize")

// noResizeTest has a process and a cluster for itself where it is asked for.
const noResizeTest = "TestWithoutResize"

// notServing is its cluster: the last version of Kubernetes whose feature can be switched off.
func notServing() installation {
	const off = "InPlacePodVerticalScaling"
	return installation{settings: embeddedSettings, options: cluster.Options{
		Version: "v1.34", KubeletVersion: "v1.34", APIServerArgs: []string{"--feature-gates=" + off + "=false"},
		KubeletConfig: func(_ int, config map[string]any) { config["featureGates"] = map[string]any{off: false} },
	}}
}

// TestWithoutResize: where the API server does not serve pods/resize, whatever its version, the operator recommends, sizes
// new pods, says why it resizes none, and sends nothing.
func TestWithoutResize(t *testing.T) {
	if !*onNoResize {
		t.Skip("another version of Kubernetes has to be built first: -no-resize asks for it (make test-matrix)")
	}
	alone(t, notServed)
}

func notServed(t *testing.T) {
	ctx := t.Context()
	namespace(ctx, t, "sized", true)
	running, pod := started(t, "sized", 1, idle(wide))
	auto(t, running, tight)
	eventually(t, "it says why", func() error {
		return blockedBy(ctx, running, resize.ReasonResizeNotSupported, "does not serve pods/resize")
	})

	born := deployment(ctx, t, "sized", "born", 1, idle(wide))
	policyFor(ctx, t, born, v1alpha1.UpdateInitial, soon(tight))
	eventually(t, "new pods are sized", func() error { return createdWith(ctx, born, tight) })

	require.NoError(t, see(t, pod))
	assert.Equal(t, int64(1), pod.Generation, "the running pod was not written to")
	assert.Equal(t, wide, sizeOf(pod.Spec.Containers[0].Resources))
	rec, err := recommendation(ctx, running)
	require.NoError(t, err)
	assert.Empty(t, rec.Status.Records)
	assert.Empty(t, rec.Status.History)
	assert.NoError(t, blockedBy(ctx, running, resize.ReasonResizeNotSupported, "does not serve pods/resize"))
}
