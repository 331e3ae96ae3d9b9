package workload

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

const mi = 1 << 20

// sizeOf is CPU request and limit in millicores, memory request and limit in MiB.
func sizeOf(cpu, cpuLimit, memory, memoryLimit recommender.Amount) recommender.Size {
	return recommender.Size{
		recommender.CPU:    {Request: cpu, Limit: cpuLimit},
		recommender.Memory: {Request: memory * mi, Limit: memoryLimit * mi},
	}
}

// seen is the world of Deployment web: its template asks for a size, its pods run at it, and the mode is Auto.
func seen(t testing.TB, template recommender.Size, pods ...*corev1.Pod) world {
	t.Helper()
	p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all", UID: "policy"}}
	p.Spec.TargetRef = v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment}
	p.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Type: ptr.To(v1alpha1.UpdateAuto)}
	settings, err := policy.Resolve(nil, nil, p)
	require.NoError(t, err)
	rec := &v1alpha1.AttuneRecommendation{ObjectMeta: metav1.ObjectMeta{Name: "deployment-web", Namespace: "shop", Generation: 1}}
	rec.Spec.Workload = v1alpha1.WorkloadRef{Kind: v1alpha1.KindDeployment, Name: "web"}
	rec.Spec.DataUntil = &metav1.Time{Time: now}
	w := world{
		seenLive: map[types.UID]bool{}, memory: map[types.UID]map[string]recommender.Amount{}, unweighed: map[types.UID]bool{},
		rec: rec, settings: settings, usable: true, now: now, serverVersion: "v1.36.3", pods: pods,
		nodes: map[string]nodeView{"node-1": {Node: node("node-1", "16", "64Gi")}},
		workload: &workload.Workload{
			Identity: workload.Identity{Kind: v1alpha1.KindDeployment, Namespace: "shop", Name: "web"},
			Replicas: int32(len(pods)), Annotations: map[string]string{},
			Template: &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Resources: podview.ToRequirements(template)}}}},
		},
	}
	return w
}

// targets sets where the container app is heading.
func (w world) heading(size recommender.Size) world {
	w.rec.Spec.Containers = []v1alpha1.ContainerTarget{{Name: "app", Target: podview.ToResources(size)}}
	return w
}

func node(name, cpu, memory string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	n.Status.Allocatable = corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(memory)}
	n.Status.NodeInfo.KubeletVersion = "v1.36.3"
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// running is a ready pod of Deployment web on node-1, an hour old.
func running(name string, size recommender.Size) *corev1.Pod {
	resources := podview.ToRequirements(size)
	started := metav1.NewTime(now.Add(-time.Hour))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "shop", UID: types.UID(name), Generation: 1, CreationTimestamp: started,
			Labels: map[string]string{"pod-template-hash": "abc"}, Annotations: map[string]string{},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-abc", Controller: ptr.To(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "app", Resources: resources}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ObservedGeneration: 1, StartTime: &started,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", ContainerID: "containerd://" + name, Ready: true, Resources: &resources, AllocatedResources: resources.Requests,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
			}},
		},
	}
	pod.Status.QOSClass = podview.QOSClass(pod)
	return pod
}

// born notes on a pod that it was seeded.
func born(t *testing.T, pod *corev1.Pod, revision string, original recommender.Size) *corev1.Pod {
	t.Helper()
	raw, err := json.Marshal(v1alpha1.Seeded{
		Recommendation: "deployment-web", Revision: revision,
		Original: []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(original)}},
	})
	require.NoError(t, err)
	pod.Annotations[v1alpha1.SeededAnnotation] = string(raw)
	return pod
}

// ended has a pod's container end once, some time ago, and start again.
func endedBefore(pod *corev1.Pod, reason string, restarts int32, ago time.Duration) *corev1.Pod {
	s := &pod.Status.ContainerStatuses[0]
	s.RestartCount = restarts
	s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
		Reason: reason, ContainerID: fmt.Sprintf("containerd://%s-%d", pod.Name, restarts), StartedAt: metav1.NewTime(now.Add(-time.Hour)), FinishedAt: metav1.NewTime(now.Add(-ago)),
	}
	return pod
}

// told are the events of a decision, as lines.
func (d decision) told() (lines []string) {
	for _, e := range d.events {
		lines = append(lines, e.Type+" "+e.Reason+" "+e.Message)
	}
	return lines
}
