package resize_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	"attune.io/attune/podview"
)

func TestPatchHoldsUIDAndOnlyWhatChanges(t *testing.T) {
	// Hard cases 2 (uid in the body), 49 (other keys stay), 76 (whole millicores, whole bytes).
	pod := withSidecar(running(size(500, 1000, 512, 1024), size(100, 0, 64, 0)), "proxy", size(200, 400, 64, 128))
	plan := mustPlan(t, pod, []podview.Container{
		{Name: "app", Size: size(250, 500, 512, 1024)},
		{Name: "side-1", Size: size(100, 0, 64, 0)},
		{Name: "proxy", Size: size(100, 0, 0, 0)},
	})
	require.JSONEq(t, `{"metadata":{"uid":"uid-1"},"spec":{
		"containers":[{"name":"app","resources":{"requests":{"cpu":"250m"},"limits":{"cpu":"500m"}}}],
		"initContainers":[{"name":"proxy","resources":{"requests":{"cpu":"100m"}}}]}}`, string(plan.Patch()))
}

func TestPatchAppliesAsTheServerWould(t *testing.T) {
	pod := withSidecar(running(size(500, 1000, 512, 1024), size(100, 0, 64, 0)), "proxy", size(200, 400, 64, 128))
	pod.Spec.Containers[0].Resources.Limits["vendor.com/gpu"] = quantity("1")
	pod.Spec.Containers[0].Resources.Requests["vendor.com/gpu"] = quantity("1")
	plan := mustPlan(t, pod, []podview.Container{{Name: "app", Size: size(250, 500, 700, 1400)}, {Name: "proxy", Size: size(100, 200, 0, 0)}})

	before, err := json.Marshal(pod)
	require.NoError(t, err)
	after, err := strategicpatch.StrategicMergePatch(before, plan.Patch(), corev1.Pod{})
	require.NoError(t, err)
	got := &corev1.Pod{}
	require.NoError(t, json.Unmarshal(after, got))

	want := plan.Apply(pod)
	require.Equal(t, specOf(want), specOf(got))
	gpu := got.Spec.Containers[0].Resources.Limits["vendor.com/gpu"]
	require.Equal(t, "1", gpu.String())
	require.Equal(t, size(250, 500, 700, 1400), specOf(got)["app"])
	require.Equal(t, size(500, 1000, 512, 1024), specOf(pod)["app"], "Apply leaves its argument alone")
}

// A regular container with its own restart policy is not an init container, and is not patched as one.
func TestARegularContainerThatRestartsAlwaysIsNoSidecar(t *testing.T) {
	pod := with(running(prior), func(p *corev1.Pod) { p.Spec.Containers[0].RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways) })
	plan := mustPlan(t, pod, wish(desired))
	assert.Contains(t, string(plan.Patch()), `"containers":[{"name":"app"`)
	assert.NotContains(t, string(plan.Patch()), "initContainers")
	assert.False(t, podview.Read(pod)[0].Sidecar)
	assert.True(t, podview.Read(withSidecar(running(prior), "proxy", prior))[1].Sidecar)
}
