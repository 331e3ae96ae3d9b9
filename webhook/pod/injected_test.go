package pod

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
)

// An injector may run before attune, after it, or between two calls (reinvocation). The app gets the same resources in each
// order, the injected container keeps its own, and the annotation has the template's resources.
func TestInjectedContainersDoNotChangeWhatTheAppGets(t *testing.T) {
	proxy := "cpu=100m/2 memory=128Mi/1Gi"
	ordinary := func(resources string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers = append(pod.Spec.Containers, container(t, "istio-proxy", resources))
		}
	}
	native := func(pod *corev1.Pod) {
		pod.Spec.InitContainers = append([]corev1.Container{sidecar(t, "istio-proxy", proxy)}, pod.Spec.InitContainers...)
	}
	for name, c := range map[string]struct {
		app    string
		cpu    string
		memory string
		inject func(*corev1.Pod)
	}{
		"an ordinary container": {"cpu=1/2 memory=1Gi/2Gi", "250m", "256Mi", ordinary(proxy)},
		"a native sidecar":      {"cpu=1/2 memory=1Gi/2Gi", "250m", "256Mi", native},
		"the first of the containers": {"cpu=1/2 memory=1Gi/2Gi", "250m", "256Mi", func(pod *corev1.Pod) {
			ordinary(proxy)(pod)
			pod.Spec.Containers[0], pod.Spec.Containers[1] = pod.Spec.Containers[1], pod.Spec.Containers[0]
		}},
		"without resources":                        {"cpu=1/2 memory=1Gi/2Gi", "250m", "256Mi", ordinary("")},
		"an app without limits":                    {"cpu=1 memory=1Gi", "250m", "256Mi", native},
		"a raise":                                  {"cpu=100m/200m memory=128Mi/256Mi", "250m", "256Mi", native},
		"a Guaranteed app becomes Burstable":       {"cpu=1500m/1500m memory=1Gi/1Gi", "250m", "256Mi", ordinary(proxy)},
		"a Guaranteed app becomes Burstable, less": {"cpu=100m/100m memory=128Mi/128Mi", "250m", "256Mi", native},
	} {
		t.Run(name, func(t *testing.T) {
			rec := Read(recommendation(seedFor(t, "app", c.cpu, c.memory)))
			attune := func(pod *corev1.Pod) *corev1.Pod {
				return applied(t, pod, SeedPod(view(t, pod), rec, &Namespace{}, now))
			}
			injected := func(pod *corev1.Pod) *corev1.Pod {
				pod = pod.DeepCopy()
				c.inject(pod)
				return pod
			}
			template := podOf(container(t, "app", c.app))
			want := attune(injected(template))
			proxyOf := func(pod *corev1.Pod) corev1.Container { return *podview.ContainerOf(pod, "istio-proxy") }
			for order, pod := range map[string]*corev1.Pod{
				"attune, injector":         injected(attune(template)),
				"attune, injector, attune": attune(injected(attune(template))),
				"injector, attune, attune": attune(want),
			} {
				assert.Equal(t, podview.ContainerOf(want, "app").Resources, podview.ContainerOf(pod, "app").Resources, order)
				assert.Equal(t, proxyOf(injected(template)), proxyOf(pod), order)
				var seeded v1alpha1.Seeded
				require.NoError(t, json.Unmarshal([]byte(pod.Annotations[v1alpha1.SeededAnnotation]), &seeded), order)
				require.Len(t, seeded.Original, 1, order)
				assert.Equal(t, podview.ReadSpec(res(t, c.app)), podview.FromResources(seeded.Original[0].Resources), order)
			}
			assertStable(t, want, rec, &Namespace{})
		})
	}
}
