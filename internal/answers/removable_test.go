package answers

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/recommender"
)

func newNode(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"pool": "a"}}}
	n.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("10"),
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func newPod(name, node, cpu string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}}}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", Controller: new(true)}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("100Mi"),
	}}}}
	p.Status.Phase = corev1.PodRunning
	return p
}

func unchanged(*corev1.Pod) SavedAmounts { return SavedAmounts{} }

// On three nodes of four cores each, pods request three cores. No node can be removed until each pod requests a core
// less.
func TestRoomThatIsFreedRemovesNodes(t *testing.T) {
	nodes := []*corev1.Node{newNode("a"), newNode("b"), newNode("c")}
	pods := []*corev1.Pod{newPod("1", "a", "3"), newPod("2", "b", "3"), newPod("3", "c", "3")}
	assert.Equal(t, 0, RemovableNodes(nodes, pods, unchanged))
	assert.Equal(t, 1, RemovableNodes(nodes, pods, func(*corev1.Pod) SavedAmounts { return SavedAmounts{1000} }), "two of two cores fit on one node, a third does not")
	assert.Equal(t, 2, RemovableNodes(nodes, pods, func(*corev1.Pod) SavedAmounts { return SavedAmounts{2000} }))
	assert.Equal(t, 0, RemovableNodes(nodes, pods, func(*corev1.Pod) SavedAmounts { return SavedAmounts{-1000} }), "growth")
	assert.Equal(t, 0, RemovableNodes(nodes, pods, func(*corev1.Pod) SavedAmounts { return SavedAmounts{2000, -(5 << 30)} }), "memory does not fit")
	assert.Equal(t, 1, RemovableNodes(nodes[:2], pods[:2], func(*corev1.Pod) SavedAmounts { return SavedAmounts{recommender.MaxAmount} }), "no pod requests less than nothing")
	assert.Equal(t, 0, RemovableNodes(nil, pods, unchanged))
}

// A node receives no more pods than its pod limit.
func TestPodsOfANodeAreCounted(t *testing.T) {
	nodes := []*corev1.Node{newNode("a"), newNode("b")}
	var pods []*corev1.Pod
	for i := range 10 {
		pods = append(pods, newPod(fmt.Sprint("a", i), "a", "10m"))
	}
	assert.Equal(t, 1, RemovableNodes(nodes, pods, unchanged), "b is empty")
	pods = append(pods, newPod("b", "b", "10m"))
	assert.Equal(t, 0, RemovableNodes(nodes, pods, unchanged), "a has ten")
}

// A node that a pending pod needs is not removed.
func TestPodsThatWaitHaveANode(t *testing.T) {
	nodes := []*corev1.Node{newNode("a"), newNode("b")}
	pods := []*corev1.Pod{newPod("1", "a", "3500m")}
	assert.Equal(t, 1, RemovableNodes(nodes, pods, unchanged))
	waits := newPod("2", "", "1")
	waits.Status.Phase = corev1.PodPending
	assert.Equal(t, 0, RemovableNodes(nodes, append(pods, waits), unchanged))
}

// The small pod on b can move to a, unless a constraint prevents it.
func TestConstraintsOfPodsKeepNodes(t *testing.T) {
	antiAffinity := &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, TopologyKey: corev1.LabelHostname,
	}}}}
	cases := map[string]struct {
		change func(a *corev1.Node, big, small *corev1.Pod)
		want   int
	}{
		"nothing": {func(*corev1.Node, *corev1.Pod, *corev1.Pod) {}, 1},
		"a taint": {func(a *corev1.Node, _, _ *corev1.Pod) {
			a.Spec.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}}
		}, 0},
		"a cordoned node":         {func(a *corev1.Node, _, _ *corev1.Pod) { a.Spec.Unschedulable = true }, 0},
		"the control plane":       {func(a *corev1.Node, _, _ *corev1.Pod) { a.Labels[ControlPlaneLabel] = "" }, 0},
		"a selector that matches": {func(_ *corev1.Node, _, s *corev1.Pod) { s.Spec.NodeSelector = map[string]string{"pool": "a"} }, 1},
		"a selector of its node":  {func(_ *corev1.Node, _, s *corev1.Pod) { s.Spec.NodeSelector = map[string]string{"pool": "b"} }, 0},
		"no controller":           {func(_ *corev1.Node, _, s *corev1.Pod) { s.OwnerReferences = nil }, 0},
		"a Job": {func(_ *corev1.Node, _, s *corev1.Pod) {
			s.OwnerReferences[0].APIVersion, s.OwnerReferences[0].Kind = "batch/v1", "Job"
		}, 0},
		"a DaemonSet": {func(_ *corev1.Node, _, s *corev1.Pod) { s.OwnerReferences[0].Kind = "DaemonSet" }, 1},
		"a static pod": {func(_ *corev1.Node, _, s *corev1.Pod) {
			s.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}, 1},
		"a pod that has ended": {func(_ *corev1.Node, _, s *corev1.Pod) { s.OwnerReferences, s.Status.Phase = nil, corev1.PodSucceeded }, 1},
		"not safe to evict": {func(_ *corev1.Node, _, s *corev1.Pod) {
			s.Annotations = map[string]string{"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
		}, 0},
		"a volume": {func(_ *corev1.Node, _, s *corev1.Pod) {
			s.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}}}
		}, 0},
		"an emptyDir": {func(_ *corev1.Node, _, s *corev1.Pod) {
			s.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		}, 1},
		"a GPU": {func(_ *corev1.Node, _, s *corev1.Pod) {
			s.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		}, 0},
		"a port of the node": {func(_ *corev1.Node, _, s *corev1.Pod) {
			s.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}}
		}, 0},
		"an anti-affinity":   {func(_ *corev1.Node, _, s *corev1.Pod) { s.Spec.Affinity = antiAffinity }, 0},
		"one of the other's": {func(_ *corev1.Node, b, _ *corev1.Pod) { b.Spec.Affinity = antiAffinity }, 0},
		"one of elsewhere":   {func(_ *corev1.Node, b, _ *corev1.Pod) { b.Namespace, b.Spec.Affinity = "pay", antiAffinity }, 1},
		"a spread": {func(_ *corev1.Node, _, s *corev1.Pod) {
			s.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.DoNotSchedule}}
		}, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			a, b := newNode("a"), newNode("b")
			b.Labels["pool"] = "b"
			// The pod on a fits nowhere else, so only b can be removed.
			big, small := newPod("big", "a", "3500m"), newPod("small", "b", "500m")
			big.Labels = nil
			b.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("2")
			a.Labels["pool"] = "a"
			c.change(a, big, small)
			assert.Equal(t, c.want, RemovableNodes([]*corev1.Node{a, b}, []*corev1.Pod{big, small}, unchanged))
		})
	}
}

// BenchmarkNodes uses a cluster of 500 nodes with 30 pods each, half full.
func BenchmarkNodes(b *testing.B) {
	var nodes []*corev1.Node
	var pods []*corev1.Pod
	for i := range 500 {
		n := newNode(fmt.Sprint("node-", i))
		n.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("110")
		nodes = append(nodes, n)
		for j := range 30 {
			pods = append(pods, newPod(fmt.Sprint(i, "-", j), n.Name, "60m"))
		}
	}
	for b.Loop() {
		if got := RemovableNodes(nodes, pods, unchanged); got == 0 {
			b.Fatal("half of the nodes could be removed")
		}
	}
}
