package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	. "attune.io/attune/resize/lifecycle"
)

func deadline(after time.Duration) func(*v1alpha1.ResizeRecord) {
	return func(r *v1alpha1.ResizeRecord) { r.Deadline = &metav1.Time{Time: noon.Add(after)} }
}

func old133(p *corev1.Pod) { p.Status.ObservedGeneration = 0 }

func TestAssess(t *testing.T) {
	up := size(1000, 2000, 512, 1024)
	written := func(r *v1alpha1.ResizeRecord) { r.Phase, r.Generation = v1alpha1.RecordWritten, 0 }
	putBack := func(p v1alpha1.RecordPhase, generation int64) func(*v1alpha1.ResizeRecord) {
		return func(r *v1alpha1.ResizeRecord) { r.Phase, r.Generation, r.Deadline = p, generation, nil }
	}
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		record v1alpha1.ResizeRecord
		want   StateKind
	}{
		{"1 gone", nil, recorded(desired), Replaced},
		{"2 another uid", resized(desired, func(p *corev1.Pod) { p.UID = "uid-2" }), recorded(desired), Replaced},
		{"3 being deleted", resized(desired, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }), recorded(desired), Terminal},
		{"4 ended: conditions are cleared though nothing was applied", resized(desired, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }), recorded(desired), Terminal},
		{"5 unscheduled: applied as soon as the spec says so", resized(desired, func(p *corev1.Pod) { p.Spec.NodeName = ""; p.Status.ContainerStatuses = nil }), recorded(desired), Applied},
		{"6 not started: no resources in the status, nothing to wait for", resized(desired, observed, func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = corev1.ContainerStatus{Name: "app"}
		}), recorded(desired), Applied},
		{"14 written, not sent", running(prior), recorded(desired, written), Unsent},
		{"14 written and landed", resized(desired), recorded(desired, written), Landed},
		{"14 written, and somebody else wrote", resized(size(300, 500, 512, 1024)), recorded(desired, written), Superseded},
		{"24 our cache is behind the resize", running(prior), recorded(desired), Unobserved},
		{"19 another writer: an owned amount differs", resized(size(300, 500, 512, 1024)), recorded(desired), Superseded},
		{"19 another writer: it is as before", resized(prior), recorded(desired), Superseded},
		{"19 the container is gone", resized(desired, func(p *corev1.Pod) { p.Spec.Containers[0].Name = "other" }), recorded(desired), Superseded},
		{"another generation of an image is nobody's resize", resized(desired, done(desired), func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 3, 3 }), recorded(desired), Applied},
		{"not seen", resized(desired), recorded(desired), Unobserved},
		{"not seen, 1.33: values alone tell", resized(desired, old133), recorded(desired), Unobserved},
		{"seen, not allocated: the kubelet is starting up", resized(desired, observed), recorded(desired), Unobserved},
		{"8 deferred", resized(up, observed, pending(corev1.PodReasonDeferred, 2)), recorded(up), Deferred},
		{"8 deferred, 1.33", resized(up, old133, pending(corev1.PodReasonDeferred, 0)), recorded(up), Deferred},
		{"an older resize is deferred, ours is not looked at", resized(up, pending(corev1.PodReasonDeferred, 1)), recorded(up), Unobserved},
		{"29 even a lowering can be deferred", resized(desired, observed, pending(corev1.PodReasonDeferred, 2)), recorded(desired), Deferred},
		{"25 infeasible", resized(up, observed, pending(corev1.PodReasonInfeasible, 2)), recorded(up), Refused},
		{"22 both at once: the newest is pending", resized(up, observed, pending(corev1.PodReasonDeferred, 2), inProgress("")), recorded(up), Deferred},
		{"in progress", resized(desired, observed, allocatedTo(desired), inProgress("")), recorded(desired), Actuating},
		{"9 in progress, error", resized(desired, observed, allocatedTo(desired), inProgress(corev1.PodReasonError)), recorded(desired), Failed},
		{"23 no condition and the runtime has the old size", resized(desired, observed, allocatedTo(desired)),
			recorded(desired, func(r *v1alpha1.ResizeRecord) { r.Deadline = &metav1.Time{Time: noon.Add(time.Second)} }), Actuating},
		{"51 the same after the deadline is drift", resized(desired, observed, allocatedTo(desired)), recorded(desired, func(r *v1alpha1.ResizeRecord) { r.Deadline = &metav1.Time{Time: noon} }), Applied},
		{"52 a runtime that reports nothing cannot be checked", resized(desired, observed, allocatedTo(desired), func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Resources = nil }), recorded(desired), Applied},
		{"a container that has ended is not compared", resized(desired, observed, allocatedTo(desired), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
		}), recorded(desired), Applied},
		{"applied", resized(desired, done(desired)), recorded(desired), Applied},
		{"93 keys that somebody added are not ours", resized(desired, done(desired), func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceEphemeralStorage] = quantity("1Gi")
			p.Spec.Resources = &corev1.ResourceRequirements{}
		}), recorded(desired), Applied},
		{"watched", resized(desired, done(desired)), recorded(desired, watchedUntil(time.Second)), Watching},
		{"watch over", resized(desired, done(desired)), recorded(desired, watchedUntil(0)), Settled},
		{"12 a kubelet restart shows a condition again", resized(desired, done(desired), inProgress("")), recorded(desired, watchedUntil(time.Second)), Watching},
		{"12 and the watch does not end on it", resized(desired, done(desired), inProgress("")), recorded(desired, watchedUntil(0)), Watching},
		{"23 an error after a premature end", resized(desired, done(desired), inProgress(corev1.PodReasonError)), recorded(desired, watchedUntil(time.Second)), Failed},
		{"19 another writer while it is watched", resized(up), recorded(desired, watchedUntil(time.Second)), Superseded},
		{"putting back, not asked for", resized(desired, done(desired)), recorded(desired, putBack(v1alpha1.RecordReverting, 0)), NotRestored},
		{"putting back, asked for, our cache is behind", resized(desired, done(desired)), recorded(desired, putBack(v1alpha1.RecordReverting, 3)), Unobserved},
		{"putting back, not seen", resized(prior, done(desired), func(p *corev1.Pod) { p.Generation = 3 }), recorded(desired, putBack(v1alpha1.RecordReverting, 3)), Unobserved},
		{"18 putting back, its answer was lost: what is in the spec is to be seen", resized(prior, done(prior), func(p *corev1.Pod) { p.Generation = 3 }),
			recorded(desired, putBack(v1alpha1.RecordReverting, 2)), Unobserved},
		{"24 putting back, our cache is older than the resize itself", running(prior), recorded(desired, putBack(v1alpha1.RecordReverting, 2)), Unobserved},
		{"69 putting back, deferred", resized(prior, observed, pending(corev1.PodReasonDeferred, 2)), recorded(desired, putBack(v1alpha1.RecordReverting, 2)), Deferred},
		{"put back", resized(prior, done(prior)), recorded(desired, putBack(v1alpha1.RecordReverting, 2)), Applied},
		{"68 withdrawn", resized(prior, done(prior)), recorded(up, putBack(v1alpha1.RecordWithdrawing, 2)), Applied},
		{"72 putting back, somebody else wrote", resized(size(700, 1400, 512, 1024)), recorded(desired, putBack(v1alpha1.RecordReverting, 0)), Superseded},
		{"70 what was admissible in between is ours", resized(size(400, 800, 512, 1024), done(size(400, 800, 512, 1024))), recorded(desired, putBack(v1alpha1.RecordReverting, 0)), NotRestored},
	} {
		t.Run(tc.name, func(t *testing.T) {
			state := Assess(tc.pod, tc.record, able(), noon)
			assert.Equal(t, tc.want, state.Kind, state.Message)
			assert.Equal(t, state, Assess(tc.pod, tc.record, able(), noon), "15: two controllers see the same")
		})
	}
}

func TestAssessKeepsTheKubeletsMessage(t *testing.T) {
	state := Assess(resized(desired, observed, pending(corev1.PodReasonDeferred, 2)), recorded(desired), able(), noon)
	assert.Equal(t, "the kubelet's word", state.Message)
	assert.False(t, Assess(resized(desired, done(desired)), recorded(desired), able(), noon).Drift)
	late := recorded(desired, func(r *v1alpha1.ResizeRecord) { r.Deadline = &metav1.Time{Time: noon} })
	assert.True(t, Assess(resized(desired, observed, allocatedTo(desired)), late, able(), noon).Drift)
	assert.Equal(t, int64(2), Assess(resized(desired), recorded(desired, phase(v1alpha1.RecordWritten)), able(), noon.Add(-time.Hour)).Generation)
}

func TestRegressionOutranksStates(t *testing.T) {
	killed := func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			Reason: "OOMKilled", ExitCode: 137, ContainerID: "containerd://app-0", FinishedAt: metav1.NewTime(noon.Add(-10 * time.Second)),
		}
	}
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		record v1alpha1.ResizeRecord
		want   StateKind
		harm   Harm
	}{
		{"applied", resized(desired, done(desired), killed), recorded(desired, ofMemory), Harmed, HarmOOM},
		{"actuating", resized(desired, observed, allocatedTo(desired), inProgress(""), killed), recorded(desired, ofMemory), Harmed, HarmOOM},
		{"watching", resized(desired, done(desired), killed), recorded(desired, ofMemory, watchedUntil(time.Minute)), Harmed, HarmOOM},
		{"the last moment of the watch", resized(desired, done(desired), killed), recorded(desired, ofMemory, watchedUntil(0)), Harmed, HarmOOM},
		{"8 deferred: the pod was killed at its old size", resized(desired, observed, pending(corev1.PodReasonDeferred, 2), killed), recorded(desired, ofMemory), Deferred, ""},
		{"not seen: likewise", resized(desired, killed), recorded(desired, ofMemory), Unobserved, ""},
		{"19 somebody else wrote: never fought", resized(size(300, 500, 512, 1024), killed), recorded(desired, ofMemory), Superseded, ""},
		{"4 the pod ended of it: nothing to put back, something to learn", resized(desired, done(desired), killed, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }), recorded(desired, ofMemory), Terminal, HarmOOM},
		{"being put back already", resized(hadMore, done(hadMore), killed), recorded(desired, ofMemory, phase(v1alpha1.RecordReverting)), Applied, HarmOOM},
	} {
		state := Assess(tc.pod, tc.record, able(), noon).Suffered(tc.record, harm.Shown(tc.pod, tc.record))
		assert.Equal(t, tc.want, state.Kind, tc.name)
		assert.Equal(t, tc.harm, state.Verdict.Harm, tc.name)
	}
}

func TestWith(t *testing.T) {
	harm, open := Verdict{Harm: HarmSLO, Message: "broken"}, Verdict{Inconclusive: true, Message: "the node booted"}
	watching := State{Kind: Watching}
	assert.Equal(t, Harmed, watching.With(harm).Kind)
	assert.Equal(t, "broken", watching.With(harm).Message)
	assert.Equal(t, Watching, watching.With(open).Kind)
	assert.Equal(t, Deferred, State{Kind: Deferred}.With(harm).Kind, "nothing runs at the new size")
	assert.Equal(t, Watching, watching.With(harm).With(open).Kind, "75: what excuses the harm takes it back")
	assert.Equal(t, Harmed, watching.With(harm).With(Verdict{}).Kind)
}

func TestRecordReturned(t *testing.T) {
	pod := running(size(500, 0, 512, 0))
	plan := mustPlan(t, pod, wish(size(250, 0, 600, 0)))
	record := NewRecord(plan, pod, noon, auto())
	returned := plan.Apply(pod)
	returned.Generation = 7
	returned.Spec.Containers[0].Resources.Limits = list("1", "")

	got := RecordReturned(record, returned)
	assert.Equal(t, v1alpha1.RecordApplied, got.Phase)
	assert.Equal(t, int64(7), got.Generation)
	assert.Equal(t, size(250, 1000, 600, 0), podview.FromResources(got.Desired[0].Resources), "55: a limit that a LimitRange added is ours from now on")
	assert.Equal(t, v1alpha1.RecordWritten, record.Phase, "the record given stays as it is")
	assert.Equal(t, size(250, 0, 600, 0), podview.FromResources(record.Desired[0].Resources))

	assert.NotEqual(t, Superseded, Assess(returned, got, able(), noon).Kind)
	returned.Spec.Containers[0].Resources.Limits = list("2", "")
	assert.Equal(t, Superseded, Assess(returned, got, able(), noon).Kind)

	reverting := got
	reverting.Phase = v1alpha1.RecordReverting
	again := RecordReturned(reverting, returned)
	assert.Equal(t, v1alpha1.RecordReverting, again.Phase, "an answer to a revert only brings its generation")
	assert.Equal(t, got.Desired, again.Desired)
}

func TestNewRecord(t *testing.T) {
	grace := int64(600)
	slow := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &grace }
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		wish recommender.Size
		want time.Duration
	}{
		{"CPU", web(), size(250, 500, 0, 0), time.Minute},
		{"memory takes longer", web(), size(250, 500, 256, 0), 2 * time.Minute},
		{"a restart takes the grace period more", restarting(web(), corev1.ResourceMemory), size(0, 0, 600, 0), 2*time.Minute + 30*time.Second},
		{"40 a long grace period", with(restarting(web(), corev1.ResourceCPU), slow), size(250, 500, 0, 0), 11 * time.Minute},
		{"a grace period without a restart does not matter", with(web(), slow), size(250, 500, 0, 0), time.Minute},
	} {
		record := NewRecord(mustPlan(t, tc.pod, wish(tc.wish)), tc.pod, noon, auto())
		assert.Equal(t, noon.Add(tc.want), record.Deadline.Time, tc.name)
	}

	pod := running(prior, prior)
	plan := mustPlan(t, pod, wish(desired))
	plan.Wave = WaveFirst
	record := NewRecord(plan, pod, noon, auto())
	started := metav1.NewTime(noon.Add(-time.Hour))
	want := v1alpha1.ResizeRecord{
		PodUID: "uid-1", PodName: "web-1", Node: "node-1", Phase: v1alpha1.RecordWritten, WrittenAt: metav1.NewTime(noon),
		Deadline: &metav1.Time{Time: noon.Add(time.Minute)}, TemplateHash: "abc", Wave: WaveFirst,
		Prior:    []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(prior)}},
		Desired:  []v1alpha1.ContainerResources{{Name: "app", Resources: podview.ToResources(desired)}},
		Baseline: []v1alpha1.ContainerBaseline{{Name: "app", ContainerID: "containerd://app-0", StartedAt: &started, Ready: true}},
	}
	require.Equal(t, want, record, "of exactly the containers that move")
}
