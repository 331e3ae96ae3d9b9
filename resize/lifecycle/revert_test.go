package lifecycle_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	. "attune.io/attune/resize/lifecycle"
)

func TestRevertPlan(t *testing.T) {
	up, down := size(1000, 2000, 1024, 2048), size(250, 500, 256, 512)
	stopped := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
	}
	for _, tc := range []struct {
		name   string
		record v1alpha1.ResizeRecord
		pod    *corev1.Pod
		want   recommender.Size // zero: nothing is restored
	}{
		{"all that was lowered", recorded(down), resized(down, done(down)), prior},
		{"68 deferred growth: exactly, memory limit included", recorded(up, reason(ReasonDeferred)), resized(up, observed, pending(corev1.PodReasonDeferred, 2)), prior},
		{"25 infeasible growth: exactly", recorded(up, reason(ReasonInfeasible)), resized(up, observed, pending(corev1.PodReasonInfeasible, 2)), prior},
		{"68 deferred, 1.33", recorded(up, reason(ReasonDeferred)), resized(up, old133, pending(corev1.PodReasonDeferred, 0)), prior},
		{"73 allocated growth: the memory limit stays, the rest goes back", recorded(up, reason(ReasonTimeout)), resized(up, done(up)), size(500, 1000, 512, 2048)},
		{"73 but not that of a container that does not run", recorded(up, reason(ReasonTimeout)), resized(up, done(up), stopped), prior},
		{"73 after an OOM kill no memory is lowered", recorded(up, reason("oomkill")), resized(up, done(up)), size(500, 1000, 1024, 2048)},
		{"after an OOM kill memory goes back up, CPU too", recorded(down, reason("oomkill")), resized(down, done(down)), prior},
		{"after throttling no CPU is lowered", recorded(up, reason("throttle")), resized(up, done(up)), size(1000, 2000, 512, 2048)},
		{"nothing is left", recorded(down), resized(prior, done(prior)), recommender.Size{}},
		{"73 nothing would do good", recorded(size(500, 1000, 1024, 2048), reason("oomkill")), resized(size(500, 1000, 1024, 2048), done(size(500, 1000, 1024, 2048))), recommender.Size{}},
		{"71 another pod of the name", recorded(down), resized(down, func(p *corev1.Pod) { p.UID = "uid-2" }), recommender.Size{}},
		{"71 gone", recorded(down), nil, recommender.Size{}},
		{"34 a lowering that failed", recorded(down, reason(ReasonActuation)), resized(down, observed, allocatedTo(down), inProgress(corev1.PodReasonError)), prior},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan, refusal := RevertPlan(tc.pod, tc.record, able())
			if tc.want == (recommender.Size{}) {
				require.NotNil(t, refusal)
				assert.True(t, plan.Empty())
				return
			}
			require.Nil(t, refusal, "%v", refusal)
			assert.Equal(t, tc.want, specOf(plan.Apply(tc.pod))["app"])
			assert.EqualValues(t, "uid-1", plan.PodUID, "2")
		})
	}
}

func TestRevertTouchesOnlyWhatTheRecordMoved(t *testing.T) {
	// Cases 55, 93: amounts that others set stay; a limit that was added cannot be removed.
	record := recorded(size(250, 0, 512, 0), func(r *v1alpha1.ResizeRecord) { r.Prior[0].Resources = podview.ToResources(size(500, 0, 512, 0)) })
	pod := running(size(250, 800, 512, 0), size(100, 0, 64, 0))
	plan, refusal := RevertPlan(pod, record, able())
	require.Nil(t, refusal)
	assert.Equal(t, []Move{{Container: "app", From: size(250, 800, 512, 0), To: size(500, 800, 512, 0)}}, plan.Moves)
}

func TestRevertKeepsGuaranteedPodsGuaranteed(t *testing.T) {
	was, up := size(500, 500, 512, 512), size(1000, 1000, 1024, 1024)
	record := recorded(up, reason("restart"), func(r *v1alpha1.ResizeRecord) { r.Prior[0].Resources = podview.ToResources(was) })
	pod := running(up)
	plan, refusal := RevertPlan(pod, record, able())
	require.Nil(t, refusal)
	after := plan.Apply(pod)
	assert.Equal(t, size(500, 500, 1024, 1024), specOf(after)["app"], "73: request and limit of memory stay together")
	assert.Equal(t, corev1.PodQOSGuaranteed, podview.QOSClass(after))
}

func TestRevertKeepsBurstablePodsBurstable(t *testing.T) {
	// CPU returns to request = limit; if memory stayed at request = limit, the class would change.
	was, to := size(500, 500, 512, 1024), size(250, 500, 2048, 2048)
	record := recorded(to, reason("oomkill"), func(r *v1alpha1.ResizeRecord) { r.Prior[0].Resources = podview.ToResources(was) })
	pod := running(to)
	plan, refusal := RevertPlan(pod, record, able())
	require.Nil(t, refusal)
	after := plan.Apply(pod)
	assert.Equal(t, corev1.PodQOSBurstable, podview.QOSClass(after))
	assert.Equal(t, size(500, 500, 512, 2048), specOf(after)["app"])
}

func TestRevertOfASidecar(t *testing.T) {
	pod := withSidecar(running(prior), "proxy", size(200, 400, 64, 128))
	plan := mustPlan(t, pod, []podview.Container{{Name: "proxy", Size: size(100, 200, 64, 128)}})
	record := NewRecord(plan, pod, noon, auto())
	after := plan.Apply(pod)
	back, refusal := RevertPlan(after, record, able())
	require.Nil(t, refusal)
	assert.True(t, back.Moves[0].Sidecar, "41: it is patched among the init containers")
	assert.Equal(t, specOf(pod), specOf(back.Apply(after)))
}

func TestRevertSaysThatItRestarts(t *testing.T) {
	pod := restarting(resized(desired, done(desired)), corev1.ResourceCPU)
	plan, refusal := RevertPlan(pod, recorded(desired), able())
	require.Nil(t, refusal)
	assert.True(t, plan.Restarts)
}
