package pod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// A new Burstable pod gets as much as it can have without becoming Guaranteed: one request stays one unit below its
// limit, and a second call keeps it there, also if another webhook added a container since.
func TestNewPodStaysJustBelowGuaranteed(t *testing.T) {
	const starved, full, below = "cpu=100m/1 memory=64Mi/1Gi", "cpu=1/1 memory=1Gi/1Gi", "cpu=999m/1 memory=1Gi/1Gi"
	seeds := recommendation()
	for _, name := range []string{"app", "log", "proxy"} {
		s := seedFor(t, name, "2", "2Gi")
		s.CPULimitFollows, s.MemoryLimitFollows = false, false
		seeds.Spec.Seed.Containers = append(seeds.Spec.Seed.Containers, s)
	}
	rec, ns := Read(seeds), &Namespace{}
	for name, tc := range map[string]struct {
		init, containers []corev1.Container
		want             []string
	}{
		"two containers: the first":             {nil, []corev1.Container{container(t, "app", starved), container(t, "log", starved)}, []string{below, full}},
		"the first is at its limits":            {nil, []corev1.Container{container(t, "app", full), container(t, "log", starved)}, []string{full, below}},
		"a sidecar comes last":                  {[]corev1.Container{sidecar(t, "proxy", starved)}, []corev1.Container{container(t, "app", starved)}, []string{full, below}},
		"an init container at its limits":       {[]corev1.Container{container(t, "init", full)}, []corev1.Container{container(t, "app", starved)}, []string{full, below}},
		"an init container below its limits":    {[]corev1.Container{container(t, "init", starved)}, []corev1.Container{container(t, "app", starved)}, []string{starved, full}},
		"a container without limits":            {nil, []corev1.Container{container(t, "app", starved), container(t, "plain", "cpu=10m")}, []string{full, "cpu=10m"}},
		"a container that is sized without one": {nil, []corev1.Container{container(t, "app", starved), container(t, "log", "cpu=100m/1 memory=64Mi")}, []string{full, "cpu=1/1 memory=2Gi"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(tc.containers...)
			pod.Spec.InitContainers = tc.init
			d := SeedPod(view(t, pod), rec, ns, now)
			after := applied(t, pod, d)
			assert.Equal(t, tc.want, resources(after))
			assert.Equal(t, Seeded, d.Reason)
			assert.Equal(t, corev1.PodQOSBurstable, podview.QOSClass(after))
			assertStable(t, after, rec, ns)

			// The pod is not Guaranteed any more, so nothing stays below. The originals are still known.
			originals := originalsIn(t, after)
			after.Spec.Containers = append(after.Spec.Containers, container(t, "injected", "cpu=10m"))
			again := applied(t, after, SeedPod(view(t, after), rec, ns, now))
			assert.NotContains(t, resources(again), below)
			assert.Equal(t, originals, originalsIn(t, again))
			assertStable(t, again, rec, ns)
		})
	}
	d := SeedPod(view(t, podOf(container(t, "app", starved))), rec, ns, now)
	assert.Equal(t, []Blocked{{Container: "app", Resource: recommender.CPU, Reason: QoSClass,
		Message: "the cpu request is kept 1m below its limit of 1: otherwise the QoS class of the pod would become Guaranteed"}}, d.Blocked)
}
