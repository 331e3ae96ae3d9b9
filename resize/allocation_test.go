package resize_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

func TestAmountOf(t *testing.T) {
	for _, tc := range []struct {
		r    recommender.Resource
		q    string
		want recommender.Amount
	}{
		{recommender.CPU, "1", 1000},
		{recommender.CPU, "1000m", 1000}, // 76: compared by value
		{recommender.CPU, "0.1", 100},
		{recommender.CPU, "100u", 1},
		{recommender.CPU, "1.0005", 1001},
		{recommender.CPU, "0", 0},
		{recommender.CPU, "-1", 0},
		{recommender.CPU, "1E", recommender.MaxAmount},
		{recommender.Memory, "128Mi", 128 * mi},
		{recommender.Memory, "128M", 128_000_000},
		{recommender.Memory, "0.1", 1},
		{recommender.Memory, "1500m", 2},
		{recommender.Memory, "-5Mi", 0},
		{recommender.Memory, "9E", recommender.MaxAmount},
	} {
		assert.Equal(t, tc.want, podview.AmountOf(tc.r, quantity(tc.q)), "%s %s", tc.r, tc.q)
	}
}

func TestQuantityIsWholeAndReadsBack(t *testing.T) {
	// Case 76: whole millicores and whole bytes.
	for _, a := range []recommender.Amount{1, 2, 10, 999, 1000, 1001, 123_456, 1 << 20, 1<<30 + 1} {
		for _, r := range recommender.Resources {
			q := podview.Quantity(r, a)
			parsed, err := resource.ParseQuantity(q.String())
			require.NoError(t, err)
			assert.Equal(t, a, podview.AmountOf(r, parsed), "%s %d", r, a)
		}
	}
	for want, q := range map[string]resource.Quantity{
		"250m": podview.Quantity(recommender.CPU, 250), "2": podview.Quantity(recommender.CPU, 2000),
		"256Mi": podview.Quantity(recommender.Memory, 256*mi), "268435457": podview.Quantity(recommender.Memory, 256*mi+1),
	} {
		assert.Equal(t, want, q.String())
	}
}

func TestStoredResourcesReadBack(t *testing.T) {
	for _, s := range []recommender.Size{{}, size(100, 0, 64, 0), size(0, 200, 0, 128), size(1, 2, 3, 4)} {
		assert.Equal(t, s, podview.FromResources(podview.ToResources(s)))
		assert.Equal(t, s, podview.ReadSpec(podview.ToRequirements(s)))
	}
	assert.Equal(t, v1alpha1.Resources{}, podview.ToResources(recommender.Size{}))
	assert.Equal(t, corev1.ResourceRequirements{}, podview.ToRequirements(recommender.Size{}))
	zero := quantity("0")
	assert.Equal(t, recommender.Size{}, podview.FromResources(v1alpha1.Resources{CPURequest: &zero}), "zero counts as absent")
}

func TestRead(t *testing.T) {
	spec, had := size(1000, 2000, 1024, 2048), size(500, 1000, 512, 1024)
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want []podview.Container
	}{
		{"settled: the spec", running(spec), []podview.Container{{Name: "app", Size: spec}}},
		{"deferred: what is allocated (8)", with(running(spec), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = statusOf("app", had)
			setCondition(p, corev1.PodResizePending, corev1.PodReasonDeferred, "", 1)
		}), []podview.Container{{Name: "app", Size: had}}},
		{"deferred limits alone: what the runtime reports", with(running(size(500, 2000, 512, 2048)), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = statusOf("app", had)
			setCondition(p, corev1.PodResizePending, corev1.PodReasonDeferred, "", 1)
		}), []podview.Container{{Name: "app", Size: had}}},
		{"not seen by the kubelet yet, 1.34 and newer", with(running(size(500, 2000, 512, 2048)), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = statusOf("app", had)
			p.Generation = 2
		}), []podview.Container{{Name: "app", Size: had}}},
		{"not seen by the kubelet yet, 1.33", with(running(spec), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = statusOf("app", had)
			p.Status.ObservedGeneration = 0
		}), []podview.Container{{Name: "app", Size: had}}},
		{"a failed decrease is allocated although the runtime has more (9)", with(running(had), func(p *corev1.Pod) {
			actual := podview.ToRequirements(spec)
			p.Status.ContainerStatuses[0].Resources = &actual
			setCondition(p, corev1.PodResizeInProgress, corev1.PodReasonError, "", 1)
		}), []podview.Container{{Name: "app", Size: recommender.Size{
			recommender.CPU: {Request: 500, Limit: 2000}, recommender.Memory: {Request: 512 * mi, Limit: 2048 * mi},
		}}}},
		{"rounded by systemd while a resize is under way (51)", with(running(size(500, 1005, 512, 1024)), func(p *corev1.Pod) {
			actual := podview.ToRequirements(size(500, 1010, 512, 1024))
			p.Status.ContainerStatuses[0].Resources = &actual
			setCondition(p, corev1.PodResizeInProgress, "", "", 1)
		}), []podview.Container{{Name: "app", Size: size(500, 1005, 512, 1024)}}},
		{"waiting containers have no resources in their status (6)", with(running(spec), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "app"}
		}), []podview.Container{{Name: "app", Size: spec}}},
		{"a request that is added and not allocated", with(running(size(500, 0, 512, 0)), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = statusOf("app", size(500, 0, 0, 0))
			setCondition(p, corev1.PodResizePending, corev1.PodReasonDeferred, "", 1)
		}), []podview.Container{{Name: "app", Size: size(500, 0, 0, 0)}}},
		{"native sidecars are read, other init containers are not (41, 42)",
			withInit(withSidecar(running(spec, had), "proxy", had), "migrate", size(4000, 0, 0, 0)),
			[]podview.Container{{Name: "app", Size: spec}, {Name: "side-1", Size: had}, {Name: "proxy", Sidecar: true, Size: had}}},
		{"ephemeral containers are not read (80)", with(running(spec), func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug"}}}
		}), []podview.Container{{Name: "app", Size: spec}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			assert.Empty(t, cmp.Diff(tc.want, podview.Read(tc.pod)))
		})
	}
}

func TestClassOf(t *testing.T) {
	pod := running(size(100, 100, 64, 64))
	pod.Status.QOSClass = corev1.PodQOSBurstable
	assert.Equal(t, corev1.PodQOSBurstable, podview.ClassOf(pod), "what the API server says")
	pod.Status.QOSClass = ""
	assert.Equal(t, corev1.PodQOSGuaranteed, podview.ClassOf(pod), "what it would say")
}

func TestQOSClass(t *testing.T) {
	podLevel := func(own recommender.Size) *corev1.Pod {
		pod := running(size(100, 0, 64, 0))
		requirements := podview.ToRequirements(own)
		pod.Spec.Resources = &requirements
		return pod
	}
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want corev1.PodQOSClass
	}{
		{"nothing set", running(recommender.Size{}), corev1.PodQOSBestEffort},
		{"a request", running(size(100, 0, 0, 0)), corev1.PodQOSBurstable},
		{"a limit alone", running(size(0, 100, 0, 0)), corev1.PodQOSBurstable},
		{"all equal", running(size(100, 100, 64, 64)), corev1.PodQOSGuaranteed},
		{"one container without", running(size(100, 100, 64, 64), recommender.Size{}), corev1.PodQOSBurstable},
		{"memory differs", running(size(100, 100, 64, 65)), corev1.PodQOSBurstable},
		{"an init container with less", withInit(running(size(100, 100, 64, 64)), "init", size(100, 0, 0, 0)), corev1.PodQOSBurstable},
		{"an init container alike", withInit(running(size(100, 100, 64, 64)), "init", size(10, 10, 10, 10)), corev1.PodQOSGuaranteed},
		{"a sidecar without", withSidecar(running(size(100, 100, 64, 64)), "proxy", recommender.Size{}), corev1.PodQOSBurstable},
		{"the pod's own resources decide (46)", podLevel(size(500, 500, 512, 512)), corev1.PodQOSGuaranteed},
		{"the pod's own resources, burstable", podLevel(size(500, 0, 0, 0)), corev1.PodQOSBurstable},
	} {
		assert.Equal(t, tc.want, podview.QOSClass(tc.pod), tc.name)
	}
}

func TestLimitsWithPartsOfAUnitAreRoundedDown(t *testing.T) {
	odd := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2.2Gi"), corev1.ResourceCPU: resource.MustParse("1500u")}
	size := podview.ReadSpec(corev1.ResourceRequirements{Requests: odd, Limits: odd})
	assert.Equal(t, recommender.Allocation{Request: 2362232013, Limit: 2362232012}, size[recommender.Memory])
	assert.Equal(t, recommender.Allocation{Request: 2, Limit: 1}, size[recommender.CPU])
}
