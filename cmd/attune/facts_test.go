package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"attune.io/attune/podview"
	"attune.io/attune/usage"
)

// factsPod is a pod of 2 days whose container started 3 hours ago for the second time.
func factsPod(now time.Time) *corev1.Pod {
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Generation: 1, CreationTimestamp: metav1.NewTime(now.Add(-48 * time.Hour))},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{
			{Name: "other"}, {Name: "app", Resources: corev1.ResourceRequirements{Limits: limits}},
		}},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
			{Name: "other"},
			{Name: "app", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now.Add(-3 * time.Hour))}}},
		}},
	}
}

func TestFactsOfAContainer(t *testing.T) {
	now := time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)
	created, started := now.Add(-48*time.Hour).UnixMilli(), now.Add(-3*time.Hour).UnixMilli()
	const gib = 1 << 30
	whole := usage.Facts{
		Created: created, Node: usage.Most{Cores: 16, Bytes: 64 * gib},
		Limit: usage.Most{Cores: 2, Bytes: gib}, LimitSince: created, Started: started, Restarts: 1,
	}
	running := func(pod *corev1.Pod, at time.Time) {
		pod.Status.ContainerStatuses[1].State.Running.StartedAt = metav1.NewTime(at)
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   func(*usage.Facts)
	}{
		"all is known": {func(*corev1.Pod) {}, func(*usage.Facts) {}},
		"resized an hour ago": {func(pod *corev1.Pod) {
			pod.Generation = 3
			pod.ManagedFields = []metav1.ManagedFieldsEntry{podview.ResizedEntry("attune", now.Add(-time.Hour))}
		}, func(f *usage.Facts) { f.LimitSince = now.Add(-58 * time.Minute).UnixMilli() }},
		"changed, the last resize is not known": {func(pod *corev1.Pod) { pod.Generation = 3 }, func(f *usage.Facts) { f.LimitSince = 0 }},
		"no generation":                         {func(pod *corev1.Pod) { pod.Generation = 0 }, func(f *usage.Facts) { f.LimitSince = 0 }},
		"a resize is under way": {func(pod *corev1.Pod) {
			pod.ManagedFields = []metav1.ManagedFieldsEntry{podview.ResizedEntry("attune", now.Add(-time.Hour))}
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue}}
		}, func(f *usage.Facts) { f.LimitSince = 0 }},
		"no limits": {func(pod *corev1.Pod) { pod.Spec.Containers[1].Resources.Limits = nil }, func(f *usage.Facts) { f.Limit = usage.Most{} }},
		"a limit that the kubelet rounds up": {func(pod *corev1.Pod) {
			pod.Spec.Containers[1].Resources.Limits[corev1.ResourceCPU] = resource.MustParse("2m")
		}, func(f *usage.Facts) { f.Limit.Cores = 0.010 }},
		"started in the year 1":        {func(pod *corev1.Pod) { running(pod, time.Unix(-62135596800, 0)) }, func(f *usage.Facts) { f.Started = 0 }},
		"started in 1754":              {func(pod *corev1.Pod) { running(pod, time.Unix(-6795364578, 0)) }, func(f *usage.Facts) { f.Started = 0 }},
		"started in the future":        {func(pod *corev1.Pod) { running(pod, now.Add(2*time.Minute)) }, func(f *usage.Facts) { f.Started = 0 }},
		"the node's clock is ahead":    {func(pod *corev1.Pod) { running(pod, now.Add(30*time.Second)) }, func(f *usage.Facts) { f.Started = now.Add(30 * time.Second).UnixMilli() }},
		"not running":                  {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[1].State.Running = nil }, func(f *usage.Facts) { f.Started, f.Restarts = 0, 0 }},
		"7 restarts in 2 days":         {func(pod *corev1.Pod) { pod.Status.ContainerStatuses[1].RestartCount = 7 }, func(f *usage.Facts) { f.Restarts = 4 }},
		"a sidecar":                    {func(pod *corev1.Pod) { sidecar(pod) }, func(*usage.Facts) {}},
		"a container that is not here": {func(pod *corev1.Pod) { pod.Spec.Containers[1].Name = "new"; pod.Status.ContainerStatuses = nil }, func(f *usage.Facts) { *f = usage.Facts{Created: f.Created, Node: f.Node} }},
	} {
		t.Run(name, func(t *testing.T) {
			pod, want := factsPod(now), whole
			tc.change(pod)
			tc.want(&want)
			node := &corev1.Node{Status: corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi")}}}
			assert.Equal(t, want, factsOf(pod, node, "app", now))
		})
	}
}

// sidecar makes the container app a native sidecar.
func sidecar(pod *corev1.Pod) {
	always := corev1.ContainerRestartPolicyAlways
	app := pod.Spec.Containers[1]
	app.RestartPolicy = &always
	pod.Spec.InitContainers, pod.Spec.Containers = []corev1.Container{app}, pod.Spec.Containers[:1]
	pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[1:], pod.Status.ContainerStatuses[:1]
}

func TestFactsOfPodsThatAreNotKnown(t *testing.T) {
	pod := factsPod(time.Now())
	r := scrapedPods{fake.NewClientBuilder().WithObjects(pod).Build(), func(namespace string) bool { return namespace == "shop" }}
	assert.Zero(t, r.Facts("shop", "gone", "app"))
	assert.Zero(t, r.Facts("bank", "web-0", "app"))
	got := r.Facts("shop", "web-0", "app")
	assert.Equal(t, usage.Most{Cores: 2, Bytes: 1 << 30}, got.Limit)
	assert.Zero(t, got.Node, "the node is not known")
}
