package podview

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/recommender"
)

const mib = recommender.Amount(1) << 20

func list(cpu, memory string) corev1.ResourceList {
	l := corev1.ResourceList{}
	if cpu != "" {
		l[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		l[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return l
}

func sized(cpu, cpuLimit, memory, memoryLimit recommender.Amount) recommender.Size {
	return recommender.Size{recommender.CPU: {Request: cpu, Limit: cpuLimit}, recommender.Memory: {Request: memory, Limit: memoryLimit}}
}

// TestAmountsOfQuantities: a request is rounded up and a limit down, so that no request is read as above its limit.
func TestAmountsOfQuantities(t *testing.T) {
	for _, c := range []struct {
		r            recommender.Resource
		q            string
		amount, most recommender.Amount
	}{
		{recommender.CPU, "1", 1000, 1000},
		{recommender.CPU, "250m", 250, 250},
		{recommender.CPU, "100u", 1, 0},
		{recommender.CPU, "1500500u", 1501, 1500},
		{recommender.CPU, "0", 0, 0},
		{recommender.CPU, "-1", 0, 0},
		{recommender.Memory, "1Gi", 1024 * mib, 1024 * mib},
		{recommender.Memory, "2.2Gi", 2362232013, 2362232012},
		{recommender.Memory, "100m", 1, 0}, // a tenth of a byte, a common mistake for 100Mi
		{recommender.Memory, "9E", recommender.MaxAmount, recommender.MaxAmount},
		{recommender.CPU, "1e18", recommender.MaxAmount, recommender.MaxAmount},
	} {
		q := resource.MustParse(c.q)
		assert.Equal(t, c.amount, AmountOf(c.r, q), "%s %s", c.r, c.q)
		assert.Equal(t, c.most, AtMost(c.r, q), "%s %s", c.r, c.q)
	}
}

// TestSizesSurviveARoundTrip through the pod spec's form and the stored form; an absent amount stays absent.
func TestSizesSurviveARoundTrip(t *testing.T) {
	for _, size := range []recommender.Size{
		{},
		sized(100, 0, 0, 64*mib),
		sized(1, 10, 4*mib, 16*mib),
		sized(128000, 256000, 1<<40, 1<<41),
	} {
		assert.Equal(t, size, ReadSpec(ToRequirements(size)))
		assert.Equal(t, size, FromResources(ToResources(size)))
	}
	assert.Empty(t, ToRequirements(recommender.Size{}).Requests)
	assert.Nil(t, ToResources(sized(-1, 0, 0, 0)).CPURequest)
}

// TestReadFollowsTheKubelet: requests are the allocated ones; while a resize is under way, limits are the runtime's.
func TestReadFollowsTheKubelet(t *testing.T) {
	spec := corev1.ResourceRequirements{Requests: list("200m", "256Mi"), Limits: list("1", "512Mi")}
	pod := func(status *corev1.ContainerStatus, conditions ...corev1.PodCondition) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: spec}}}}
		p.Status.Conditions = conditions
		if status != nil {
			status.Name = "app"
			p.Status.ContainerStatuses = []corev1.ContainerStatus{*status}
		}
		return p
	}
	asked := sized(200, 1000, 256*mib, 512*mib)
	before := &corev1.ResourceRequirements{Requests: list("100m", "128Mi"), Limits: list("500m", "384Mi")}
	pending := corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred}

	assert.Equal(t, asked, Read(pod(nil))[0].Size, "no status yet")
	assert.Equal(t, sized(100, 500, 128*mib, 384*mib),
		Read(pod(&corev1.ContainerStatus{AllocatedResources: list("100m", "128Mi"), Resources: before}, pending))[0].Size, "a resize is pending")
	assert.Equal(t, asked,
		Read(pod(&corev1.ContainerStatus{AllocatedResources: list("200m", "256Mi"), Resources: before}))[0].Size, "a limit of the runtime counts only while a resize is under way")
	rounded := &corev1.ResourceRequirements{Requests: list("200m", "256Mi"), Limits: list("1005m", "512Mi")}
	assert.Equal(t, asked,
		Read(pod(&corev1.ContainerStatus{AllocatedResources: list("200m", "256Mi"), Resources: rounded}, pending))[0].Size, "the machine's rounding is no other limit")
}

// TestResizeUnderway: each sign of a resize that the kubelet has not finished.
func TestResizeUnderway(t *testing.T) {
	still := func() *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Generation: 3}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}}
		p.Spec.Containers[0].Resources.Requests = list("100m", "")
		p.Status.ObservedGeneration = 3
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", AllocatedResources: list("100m", "")}}
		return p
	}
	assert.False(t, ResizeUnderway(still()))
	for name, change := range map[string]func(*corev1.Pod){
		"pending":              func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending}} },
		"in progress":          func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizeInProgress}} },
		"not observed":         func(p *corev1.Pod) { p.Generation = 4 },
		"allocated other size": func(p *corev1.Pod) { p.Status.ContainerStatuses[0].AllocatedResources = list("50m", "") },
	} {
		p := still()
		change(p)
		assert.True(t, ResizeUnderway(p), name)
	}
	old := still()
	old.Status.ObservedGeneration = 0 // as a kubelet of 1.33 reports
	assert.False(t, ResizeUnderway(old))
}

// TestResizableContainers: regular containers, then native sidecars. An init container that terminates is not
// resizable, and a regular container with its own restart policy is not a sidecar.
func TestResizableContainers(t *testing.T) {
	always := ptr.To(corev1.ContainerRestartPolicyAlways)
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "setup"}, {Name: "mesh", RestartPolicy: always}},
		Containers:     []corev1.Container{{Name: "app", RestartPolicy: always}, {Name: "logs"}},
	}}
	var names []string
	var sidecars []string
	for _, c := range Read(pod) {
		names = append(names, c.Name)
		if c.Sidecar {
			sidecars = append(sidecars, c.Name)
		}
	}
	assert.Equal(t, []string{"app", "logs", "mesh"}, names)
	assert.Equal(t, []string{"mesh"}, sidecars)
}

// TestClassesOfQualityOfService: the classes are the same as in Kubernetes.
func TestClassesOfQualityOfService(t *testing.T) {
	pod := func(all ...corev1.ResourceRequirements) *corev1.Pod {
		p := &corev1.Pod{}
		for _, r := range all {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Resources: r})
		}
		return p
	}
	equal := corev1.ResourceRequirements{Requests: list("1", "1Gi"), Limits: list("1", "1Gi")}
	memoryAlone := corev1.ResourceRequirements{Requests: list("", "1Gi"), Limits: list("", "1Gi")}
	assert.Equal(t, corev1.PodQOSBestEffort, QOSClass(pod(corev1.ResourceRequirements{})))
	assert.Equal(t, corev1.PodQOSGuaranteed, QOSClass(pod(equal, equal)))
	assert.Equal(t, corev1.PodQOSBurstable, QOSClass(pod(equal, corev1.ResourceRequirements{})))
	assert.Equal(t, corev1.PodQOSBurstable, QOSClass(pod(memoryAlone)))
	withInit := pod(equal)
	withInit.Spec.InitContainers = []corev1.Container{{Resources: memoryAlone}}
	assert.Equal(t, corev1.PodQOSBurstable, QOSClass(withInit), "init containers count")
	podLevel := pod(corev1.ResourceRequirements{})
	podLevel.Spec.Resources = &equal
	assert.Equal(t, corev1.PodQOSGuaranteed, QOSClass(podLevel), "a pod's own resources decide")
	running := pod(equal)
	running.Status.QOSClass = corev1.PodQOSBurstable
	assert.Equal(t, corev1.PodQOSBurstable, ClassOf(running), "the class does not change while the pod lives")
}

// TestNear: an amount that the kernel or the runtime rounded is near, and an absent limit is near no other.
func TestNear(t *testing.T) {
	for _, c := range []struct {
		near           func(r recommender.Resource, actual, wished recommender.Amount) bool
		r              recommender.Resource
		actual, wished recommender.Amount
		want           bool
	}{
		{NearRequest, recommender.CPU, 100, 100, true},
		{NearRequest, recommender.CPU, 100, 101, true},
		{NearRequest, recommender.CPU, 2, 1, true},
		{NearRequest, recommender.CPU, 3, 1, false},
		{NearRequest, recommender.CPU, 100, 102, false},
		{NearRequest, recommender.CPU, 0, 2, true},
		{NearLimit, recommender.CPU, 110, 101, true},
		{NearLimit, recommender.CPU, 101, 110, false}, // the kernel never sets a lower limit
		{NearLimit, recommender.CPU, 111, 101, false},
		{NearLimit, recommender.CPU, 10, 3, true},
		{NearLimit, recommender.CPU, 0, 3, false},
		{NearLimit, recommender.CPU, 5, 0, false},
		{NearLimit, recommender.Memory, 64 * mib, 64*mib + 4095, true},
		{NearLimit, recommender.Memory, 64 * mib, 64*mib + 4096, false},
		{NearLimit, recommender.Memory, 0, 4095, false},
	} {
		assert.Equal(t, c.want, c.near(c.r, c.actual, c.wished), "%s: %d is near %d", c.r, c.actual, c.wished)
	}
}
