package podview

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/recommender"
)

// TestFootprints: while a resize is under way the scheduler counts the maximum of spec, allocated and actual requests.
func TestFootprints(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		Overhead:   list("50m", "16Mi"),
		Containers: []corev1.Container{{Name: "app", Resources: corev1.ResourceRequirements{Requests: list("500m", "128Mi")}}},
	}}
	assert.Equal(t, [2]recommender.Amount{550, 144 * mib}, Requests(pod))
	assert.Equal(t, [2]recommender.Amount{500, 128 * mib}, ContainerRequests(pod))
	assert.Equal(t, [2]recommender.Amount{50, 16 * mib}, Overhead(pod))
	assert.False(t, Unfinished(pod))

	has := list("200m", "256Mi")
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", AllocatedResources: has, Resources: &corev1.ResourceRequirements{Requests: has}}}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Reason: corev1.PodReasonDeferred}}
	assert.Equal(t, [2]recommender.Amount{550, 272 * mib}, Reserved(pod), "a deferred increase of CPU is reserved, memory is not freed yet")
	assert.Equal(t, [2]recommender.Amount{250, 272 * mib}, AllocatedRequests(pod), "without what is not granted")
	assert.Equal(t, corev1.PodReasonDeferred, pod.Status.Conditions[0].Reason, "the pod itself is not changed")
	assert.True(t, Unfinished(pod))
	assert.Equal(t, sized(500, 0, 256*mib, 0), Counted(pod)[0].Size)

	pod.Status.Conditions[0].Reason = corev1.PodReasonInfeasible
	assert.Equal(t, [2]recommender.Amount{250, 272 * mib}, Reserved(pod), "an infeasible resize reserves nothing")
}

// TestInitRequests: each init container runs together with the sidecars that were started before it.
func TestInitRequests(t *testing.T) {
	init := func(cpu string, sidecar bool) corev1.Container {
		c := corev1.Container{Resources: corev1.ResourceRequirements{Requests: list(cpu, "")}}
		if sidecar {
			c.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
		}
		return c
	}
	pod := &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{init("300m", false), init("100m", true), init("250m", false), init("200m", true)}}}
	assert.Equal(t, [2]recommender.Amount{350, 0}, InitRequests(pod))
	assert.Equal(t, [2]recommender.Amount{}, InitRequests(&corev1.Pod{}))
}
