package loops

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/test/kubelet"
)

// A pod of two containers and a sidecar, each with settings of its own: running, it is resized by them, and the next pod is
// created by them.
func TestLoopsSizeContainersByTheirOwnSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, kubelet.Options{})
	for _, name := range []string{"app", "exporter", "proxy"} {
		w.usage.of[name], w.memory[name] = used{CPU: 0.1, Memory: 200}, 200
	}
	of := func(name string) corev1.Container {
		c := w.app("cpu=500m,memory=512Mi", "memory=1Gi")
		c.Name = name
		return c
	}
	d := w.deployment("web", 0, of("app"), of("exporter"))
	always, proxy := corev1.ContainerRestartPolicyAlways, of("proxy")
	proxy.RestartPolicy, proxy.Image = &always, "example.org/proxy:1"
	d.Spec.Template.Spec.InitContainers, d.Spec.Replicas = []corev1.Container{proxy}, new(int32(1))
	require.NoError(t, w.direct.Update(t.Context(), d))
	w.seeded = true
	w.startNewPods()
	w.auto(`
cpu: {maxChangePercent: 90}
memory: {allowDecrease: true, maxChangePercent: 90}
containerPolicies:
- {containerName: proxy, cpu: {minAllowed: 300m}, memory: {allowDecrease: false}}
- {containerName: exporter, controlledResources: [memory]}
- {containerName: gone, mode: "Off"}`)
	sizes := func(pod *corev1.Pod) map[string]recommender.Size {
		out := map[string]recommender.Size{}
		for _, c := range podview.Read(pod) {
			out[c.Name] = c.Size
		}
		return out
	}
	check := func(pod *corev1.Pod) {
		t.Helper()
		now := sizes(pod)
		require.Len(t, now, 3)
		assert.InDelta(t, 120, float64(now["app"][recommender.CPU].Request), 2)
		assert.Less(t, now["app"][recommender.Memory].Request, recommender.Amount(300<<20))
		assert.EqualValues(t, 500, now["exporter"][recommender.CPU].Request, "CPU is not controlled")
		assert.Less(t, now["exporter"][recommender.Memory].Request, recommender.Amount(300<<20))
		assert.EqualValues(t, 300, now["proxy"][recommender.CPU].Request, "the minimum of the sidecar")
		assert.EqualValues(t, 512<<20, now["proxy"][recommender.Memory].Request, "its memory is not lowered")
	}
	w.until(6*time.Hour, "resized", func() bool { return w.pod().Generation > 1 && w.idle() && len(w.recommendation().Status.Verified) == 3 })
	first := w.pod()
	check(first)
	for _, c := range w.recommendation().Spec.Containers {
		assert.Equal(t, c.Name == "exporter", resize.HeldFor(c.Holds, recommender.CPU, recommender.NotControlled), c.Name)
		assert.Equal(t, c.Name == "exporter", c.Target.CPURequest == nil, c.Name)
	}
	require.NoError(t, w.direct.Delete(t.Context(), first))
	w.until(time.Hour, "another pod", func() bool { return len(w.pods()) == 1 && w.pod().UID != first.UID && w.idle() })
	second := w.pod()
	assert.Contains(t, second.Annotations, "attune.io/seeded", "sized at admission")
	assert.EqualValues(t, 1, second.Generation)
	check(second)
}
