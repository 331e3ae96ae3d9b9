package resize_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
)

// podHas sets the memory limit of the pod's own cgroup, in MiB.
func podHas(mib string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Resources = &corev1.ResourceRequirements{Limits: list("", mib)}
	}
}

func stoppedNow(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}
}

func TestCatchUp(t *testing.T) {
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		want   []podview.Container
		reason string
	}{
		{"nobody says (up to 1.35)", web(), nil, ""},
		{"it has followed", with(web(), podHas("1Gi")), nil, ""},
		{"within a page", with(web(), podHas("1073737729")), nil, ""},
		{"it has more, as after a lowering that is not over", with(web(), podHas("2Gi")), nil, ""},
		{"it has none, as a container has none", with(running(prior, size(100, 0, 64, 0)), podHas("")), nil, ""},
		{"behind: a little more of what runs", with(web(), podHas("512Mi")), wish(size(500, 1000, 512, 1025)), ""},
		{"behind by a page", with(web(), podHas("1073737728")), wish(size(500, 1000, 512, 1025)), ""},
		{"behind: request and limit stay together", with(running(size(500, 500, 512, 512)), podHas("256Mi")), wish(size(500, 500, 513, 513)), ""},
		{"behind: nothing runs", with(with(web(), podHas("512Mi")), stoppedNow), nil, ReasonPodLimitBehind},
		{"behind: another container runs", with(with(running(prior, prior), podHas("1536Mi")), stoppedNow), []podview.Container{{Name: "side-1", Size: size(500, 1000, 512, 1025)}}, ""},
		{"behind: one without a limit cannot be raised", with(with(running(prior, size(100, 0, 64, 0)), podHas("512Mi")), stoppedNow), nil, ReasonPodLimitBehind},
		{"a resize is under way", with(with(web(), podHas("512Mi")), func(p *corev1.Pod) { setCondition(p, corev1.PodResizeInProgress, "", "", 1) }), nil, ""},
		{"a resize is not seen yet", with(with(web(), podHas("512Mi")), func(p *corev1.Pod) { p.Generation = 2 }), nil, ""},
		{"it has ended", with(with(web(), podHas("512Mi")), func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), nil, ""},
		{"an init container that asked for more counts", with(withInit(web(), "init", size(0, 0, 0, 2048)), podHas("1Gi")), wish(size(500, 1000, 512, 1025)), ""},
		{"the pod's own limit is meant to be lower", with(with(web(), podHas("512Mi")), func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: list("", "512Mi")}
		}), nil, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, refusal := CatchUp(tc.pod)
			check(t, tc.reason, refusal)
			assert.Equal(t, tc.want, got)
			if refusal != nil {
				assert.True(t, refusal.Transient)
				assert.Contains(t, refusal.Message, "512Mi")
			}
		})
	}
}

func TestAPodThatDoesNotFollowIsRaisedOnce(t *testing.T) {
	pod := with(web(), podHas("512Mi"))
	wishes, refusal := CatchUp(pod)
	require.Nil(t, refusal)
	plan := mustPlan(t, pod, wishes)
	plan.Urgent, plan.Reason = true, ReasonPodLimitBehind
	record := lifecycle.NewRecord(plan, pod, noon, auto())
	assert.Equal(t, ReasonPodLimitBehind, record.Reason)
	rows := Begun(nil, plan, noon.Add(-59*time.Minute))
	other := Begun(nil, mustPlan(t, pod, wish(size(500, 1000, 600, 2048))).AsUrgent(), noon.Add(-time.Minute))
	for _, tc := range []struct {
		name   string
		tries  []v1alpha1.Try
		reason string
	}{
		{"never before", other, ""},
		{"an hour ago", Begun(nil, plan, noon.Add(-time.Hour)), ""},
		{"just now", rows, ReasonPodLimitBehind},
	} {
		admitted, refusal := Admit(pod, plan, world(func(w *GateInput) {
			w.Status.Tries, w.Status.CooldownFrom, w.Workload.Rollout = tc.tries, ago(time.Minute), "rolling"
		}))
		check(t, tc.reason, refusal)
		if tc.reason == "" {
			assert.Equal(t, size(500, 1000, 512, 1025), specOf(admitted.Apply(pod))["app"], "it waits for no cooldown")
		}
	}
	_, refusal = Admit(pod, mustPlan(t, pod, wish(size(500, 1000, 600, 2048))).AsUrgent(), world(func(w *GateInput) { w.Status.Tries = rows }))
	check(t, "", refusal)
}

// If the pod's limit lags, it is the limit that kills the container: the container's own limit was never reached, and
// no minimum is learned from it.
func TestTheLowerLimitKills(t *testing.T) {
	killed := last(ended("OOMKilled", "app-0", -time.Hour, time.Second))
	pod := resized(prior, done(prior), killed, podHas("600Mi"))
	require.Len(t, podview.OOMKills(pod), 1)
	assert.Equal(t, 600*mi, podview.OOMKills(pod)[0].Limit)
	up := recorded(prior, func(r *v1alpha1.ResizeRecord) { r.Prior[0].Resources = podview.ToResources(size(500, 1000, 512, 600)) })
	v := harm.Judge(pod, up, noon, auto(), harm.Signals{})
	assert.Equal(t, HarmOOM, v.Harm)
	assert.Equal(t, 600*mi, v.Ceiling)

	podHas("1Gi")(pod)
	assert.Equal(t, 1024*mi, podview.OOMKills(pod)[0].Limit)
	assert.Equal(t, recommender.OOMFloor(1024*mi), podview.AmountOf(recommender.Memory, harm.LearnKills(nil, pod, nil, nil, noon)[0].Amount))
}

// cannotStart returns a pod that attune resized, whose container does not start and whose cgroup has these limits.
func cannotStart(cpu, mib string, sizes ...recommender.Size) *corev1.Pod {
	return with(running(sizes...), func(p *corev1.Pod) {
		stoppedNow(p)
		p.Status.ContainerStatuses[0].RestartCount = 3
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "StartError", ExitCode: 128}
		p.Status.Resources = &corev1.ResourceRequirements{Limits: list(cpu, mib)}
		p.ManagedFields = append(p.ManagedFields, podview.ResizedEntry(podview.FieldManager, noon.Add(-time.Minute)))
	})
}

func TestStartPlan(t *testing.T) {
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want []podview.Container
	}{
		{"its pod's CPU limit, and a change of memory for the second patch", cannotStart("600m", "512Mi", prior), wish(size(500, 600, 512, 1023))},
		{"memory has followed", cannotStart("600m", "1Gi", prior), wish(size(500, 600, 512, 1024))},
		{"the request is cut to the limit", cannotStart("400m", "1Gi", prior), wish(size(400, 400, 512, 1024))},
		{"the class stays Burstable", cannotStart("400m", "512Mi", size(500, 1000, 512, 512)), wish(size(399, 400, 512, 512))},
		{"the class stays Guaranteed", cannotStart("400m", "256Mi", size(500, 500, 512, 512)), wish(size(400, 400, 511, 511))},
		{"the other container runs", cannotStart("600m", "1Gi", prior, size(100, 200, 0, 0)), wish(size(500, 600, 512, 1024))},
		{"the kubelet says it at once", with(cannotStart("600m", "1Gi", prior), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated = nil
			p.Status.ContainerStatuses[0].State.Waiting.Reason = "RunContainerError"
		}), wish(size(500, 600, 512, 1024))},
		{"the pod has as much", cannotStart("1", "512Mi", prior), nil},
		{"the kubelet does not say what the pod has (up to 1.35)", with(cannotStart("600m", "1Gi", prior), func(p *corev1.Pod) { p.Status.Resources = nil }), nil},
		{"it has started, and crashed", with(cannotStart("600m", "1Gi", prior), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].LastTerminationState.Terminated.Reason = "Error"
		}), nil},
		{"it runs", with(cannotStart("600m", "1Gi", prior), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		}), nil},
		{"another manager resized it last", with(cannotStart("600m", "1Gi", prior), func(p *corev1.Pod) {
			p.ManagedFields = append(p.ManagedFields, podview.ResizedEntry("kubectl", noon))
		}), nil},
		{"attune did not resize it", with(cannotStart("600m", "1Gi", prior), func(p *corev1.Pod) { p.ManagedFields = nil }), nil},
		{"a resize is under way", with(cannotStart("600m", "1Gi", prior), func(p *corev1.Pod) { p.Generation = 2 }), nil},
		{"the pod's own limit is meant to be lower", with(cannotStart("600m", "1Gi", prior), func(p *corev1.Pod) {
			p.Spec.Resources = &corev1.ResourceRequirements{Limits: list("600m", "1Gi")}
		}), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			require.Equal(t, tc.want != nil, CannotStart(tc.pod))
			if tc.want == nil {
				return
			}
			plan := StartPlan(tc.pod)
			require.Len(t, plan.Moves, 1)
			assert.Equal(t, tc.want[0].Size, plan.Moves[0].To)
			parts := Split(plan)
			require.Len(t, parts, 2)
			assert.Equal(t, plan, parts[0])
			assert.Equal(t, []Move{{Container: "app", From: plan.Moves[0].To, To: plan.Moves[0].From}}, parts[1].Moves)
		})
	}
}

func TestStartPlansBackOff(t *testing.T) {
	plan := StartPlan(cannotStart("600m", "1Gi", prior))
	rows := Begun(Begun(nil, plan, noon), plan, noon.Add(time.Minute))
	require.Len(t, rows, 1)
	assert.Equal(t, noon.Add(3*time.Minute), rows[0].Until.Time)
	again := Begun(rows, plan, noon.Add(10*time.Minute))
	assert.Equal(t, noon.Add(14*time.Minute), again[0].Until.Time, "a resize that took longer than its wait")
	assert.Empty(t, Remembered(rows, noon.Add(13*time.Minute)))
}
