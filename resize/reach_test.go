package resize_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
)

// Case 70: the API server now refuses the full revert. attune reverts the accepted part, and reports the obstacle.
func TestRevertIsPartialWithinLimits(t *testing.T) {
	low, prior := size(200, 400, 256, 512), size(500, 1000, 1024, 2048)
	back := func(pod *corev1.Pod) Plan {
		plan := PlanOf(pod)
		plan.Moves = []Move{{Container: "app", From: low, To: prior}}
		return plan
	}
	for name, c := range map[string]struct {
		world  func(*GateInput)
		want   recommender.Size
		reason string
	}{
		"nothing in the way": {func(*GateInput) {}, prior, ""},
		"a LimitRange came": {func(w *GateInput) {
			w.Namespace.LimitRanges = ranges(ofContainer(func(i *corev1.LimitRangeItem) { i.Max = list("800m", "1Gi") }))
		}, size(500, 800, 1024, 1024), ReasonLimitRange},
		"a quota for memory is full": {func(w *GateInput) {
			w.Namespace.Quotas = []corev1.ResourceQuota{quotaOf("requests.memory", "1Gi", "1Gi")}
		}, size(500, 1000, 256, 512), ReasonQuota},
		"a quota for memory has half of it": {func(w *GateInput) {
			w.Namespace.Quotas = []corev1.ResourceQuota{quotaOf("requests.memory", "1408Mi", "1Gi")}
		}, size(500, 1000, 640, 1280), ReasonQuota},
		"the node has shrunk":                   {func(w *GateInput) { w.Node.Capabilities.Allocatable[recommender.Memory] = 640 * mi }, size(500, 1000, 640, 1280), ReasonNodeCapacity},
		"the node has shrunk below what it has": {func(w *GateInput) { w.Node.Capabilities.Allocatable[recommender.CPU] = 100 }, low, ReasonNodeCapacity},
	} {
		t.Run(name, func(t *testing.T) {
			pod := running(low)
			w := open()
			c.world(&w)
			plan, refusal := WithinReach(pod, back(pod), w)
			if c.reason == "" {
				require.Nil(t, refusal)
			} else {
				require.NotNil(t, refusal)
				assert.Equal(t, c.reason, refusal.Reason)
			}
			assert.Equal(t, c.want, podview.ReadSpec(plan.Apply(pod).Spec.Containers[0].Resources))
			assert.Nil(t, QuotaGate(pod, plan, w), "and that much is taken")
		})
	}
}

// Raising the CPU limit of a waiting container keeps it from starting on nodes with cgroup v1.
func TestARevertWaitsForItsContainerToRaiseCPU(t *testing.T) {
	low, prior := size(200, 400, 256, 512), size(500, 1000, 1024, 2048)
	pod := running(low)
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	plan := PlanOf(pod)
	plan.Moves = []Move{{Container: "app", From: low, To: prior}}
	w := open()
	part, refusal := WithinReach(pod, plan, w)
	require.NotNil(t, refusal)
	assert.Equal(t, ReasonNotRunning, refusal.Reason)
	assert.Equal(t, size(200, 400, 1024, 2048), podview.ReadSpec(part.Apply(pod).Spec.Containers[0].Resources))

	w.Namespace.Quotas = []corev1.ResourceQuota{quotaOf("requests.memory", "1408Mi", "1Gi")}
	part, refusal = WithinReach(pod, plan, w)
	require.NotNil(t, refusal)
	assert.Equal(t, ReasonQuota, refusal.Reason)
	assert.Equal(t, size(200, 400, 640, 1280), podview.ReadSpec(part.Apply(pod).Spec.Containers[0].Resources))

	plan.Moves = []Move{{Container: "app", From: low, To: size(500, 1000, 256, 512)}}
	part, refusal = WithinReach(pod, plan, open())
	require.NotNil(t, refusal)
	assert.True(t, part.Empty())
}

// A Guaranteed pod stays Guaranteed after a partial revert.
func TestHalfARevertKeepsTheClass(t *testing.T) {
	low := size(200, 200, 256, 256)
	pod := running(low)
	plan := PlanOf(pod)
	plan.Moves = []Move{{Container: "app", From: low, To: size(500, 500, 1024, 1024)}}
	w := open()
	w.Namespace.Quotas = []corev1.ResourceQuota{quotaOf("requests.memory", "1300Mi", "1Gi")}
	plan, refusal := WithinReach(pod, plan, w)
	require.NotNil(t, refusal)
	got := podview.ReadSpec(plan.Apply(pod).Spec.Containers[0].Resources)
	assert.Equal(t, got[recommender.Memory].Request, got[recommender.Memory].Limit)
	assert.Greater(t, got[recommender.Memory].Request, 256*mi)
	assert.Equal(t, recommender.Amount(500), got[recommender.CPU].Request, "CPU has nothing in its way")
}
