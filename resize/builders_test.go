package resize

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// noon is the time at which tests begin.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

const (
	mi = recommender.Amount(1) << 20
	gi = recommender.Amount(1) << 30
)

// size is CPU request/limit in millicores and memory request/limit in MiB.
func size(cpuRequest, cpuLimit, memoryRequest, memoryLimit recommender.Amount) recommender.Size {
	return recommender.Size{
		recommender.CPU:    {Request: cpuRequest, Limit: cpuLimit},
		recommender.Memory: {Request: memoryRequest * mi, Limit: memoryLimit * mi},
	}
}

// running is a ready pod on a node whose containers run at the given sizes since an hour; the first one
// is called app, the others side-1, side-2 …
func running(sizes ...recommender.Size) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-1", Namespace: "shop", UID: types.UID("uid-1"), Generation: 1,
			Labels: map[string]string{"pod-template-hash": "abc"},
		},
		Spec: corev1.PodSpec{NodeName: "node-1"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, ObservedGeneration: 1,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	for i, s := range sizes {
		name := "app"
		if i > 0 {
			name = "side-" + string(rune('0'+i))
		}
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: name, Resources: podview.ToRequirements(s)})
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, statusOf(name, s))
	}
	pod.Status.QOSClass = podview.QOSClass(pod)
	return pod
}

// statusOf is the status of a container that runs at a size.
func statusOf(name string, s recommender.Size) corev1.ContainerStatus {
	requirements := podview.ToRequirements(s)
	return corev1.ContainerStatus{
		Name: name, ContainerID: "containerd://" + name + "-0", Ready: true,
		State:              corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon.Add(-time.Hour))}},
		Resources:          &requirements,
		AllocatedResources: requirements.Requests.DeepCopy(),
	}
}

// withSidecar adds a native sidecar that runs at a size.
func withSidecar(pod *corev1.Pod, name string, s recommender.Size) *corev1.Pod {
	always := corev1.ContainerRestartPolicyAlways
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, RestartPolicy: &always, Resources: podview.ToRequirements(s)})
	pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, statusOf(name, s))
	pod.Status.QOSClass = podview.QOSClass(pod)
	return pod
}

// withInit adds an init container that has ended.
func withInit(pod *corev1.Pod, name string, s recommender.Size) *corev1.Pod {
	pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, Resources: podview.ToRequirements(s)})
	pod.Status.QOSClass = podview.QOSClass(pod)
	return pod
}

// restarting sets a resizePolicy of RestartContainer for a resource of the first container.
func restarting(pod *corev1.Pod, resource corev1.ResourceName) *corev1.Pod {
	pod.Spec.Containers[0].ResizePolicy = append(pod.Spec.Containers[0].ResizePolicy,
		corev1.ContainerResizePolicy{ResourceName: resource, RestartPolicy: corev1.RestartContainer})
	return pod
}

func with(pod *corev1.Pod, edit func(*corev1.Pod)) *corev1.Pod {
	edit(pod)
	return pod
}

// wish is the size wanted of the container app.
func wish(s recommender.Size) []podview.Container { return []podview.Container{{Name: "app", Size: s}} }

// able is a node of 1.36 with plenty of room.
func able() Capabilities {
	return Capabilities{
		Resizable: true, ServerMinor: 36, KubeletMinor: 36, NodeReady: true,
		Allocatable: [2]recommender.Amount{recommender.CPU: 16_000, recommender.Memory: 64 * gi},
	}
}

func capable(edit func(*Capabilities)) Capabilities {
	caps := able()
	edit(&caps)
	return caps
}

func quantity(s string) resource.Quantity { return resource.MustParse(s) }

func mustPlan(t *testing.T, pod *corev1.Pod, wished []podview.Container) Plan {
	t.Helper()
	plan, refusal := PlanFor(pod, wished, able(), noon)
	require.Nil(t, refusal, "%v", refusal)
	return plan
}

func auto() Rules {
	return Rules{
		Mode: v1alpha1.UpdateAuto, Method: v1alpha1.ResizeInPlaceOnly, Cooldown: time.Hour, Observation: 5 * time.Minute,
		AutoRevert: true, CanaryPercent: 10, AutoPromote: true, MaxConcurrentPercent: 10, RateWindow: time.Minute,
	}
}

func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, reason, message string, generation int64) {
	clearCondition(pod, kind)
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: generation,
	})
}

func clearCondition(pod *corev1.Pod, kind corev1.PodConditionType) {
	var kept []corev1.PodCondition
	for _, c := range pod.Status.Conditions {
		if c.Type != kind {
			kept = append(kept, c)
		}
	}
	pod.Status.Conditions = kept
}
