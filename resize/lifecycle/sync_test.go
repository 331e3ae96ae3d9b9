package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	. "attune.io/attune/resize"
	. "attune.io/attune/resize/lifecycle"
)

// An HPA divides by the request of the spec. A pod that does not have it counts as less utilized than it is.
func TestRequestsMore(t *testing.T) {
	up, lower := size(1000, 2000, 1024, 2048), size(250, 500, 256, 512)
	onCPU, onMemory := ScaledRequests{"": {true, false}}, ScaledRequests{"app": {false, true}}
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		scaled ScaledRequests
		want   bool
	}{
		{"no HPA", resized(up, observed, pending(corev1.PodReasonDeferred, 2)), nil, false},
		{"deferred", resized(up, observed, pending(corev1.PodReasonDeferred, 2)), onCPU, true},
		{"infeasible", resized(up, observed, pending(corev1.PodReasonInfeasible, 2)), onMemory, true},
		{"not observed", resized(up), onCPU, true},
		{"allocated and not carried out", resized(up, observed, allocatedTo(up), inProgress("")), onCPU, true},
		{"carried out", resized(up, done(up)), onCPU, false},
		{"a lower request that is deferred: the HPA sees more utilization", resized(lower, observed, pending(corev1.PodReasonDeferred, 2)), onCPU, false},
		{"an HPA on the other resource", resized(size(1000, 2000, 512, 1024), observed, pending(corev1.PodReasonDeferred, 2)), onMemory, false},
		{"an HPA on another container", resized(up, observed, pending(corev1.PodReasonDeferred, 2)), ScaledRequests{"side-1": {true, true}}, false},
		{"only the limit is more", resized(size(500, 1000, 512, 2048), observed, pending(corev1.PodReasonDeferred, 2)), onMemory, false},
		{"allocated, and its container restarts for it", restarting(resized(up, observed, allocatedTo(up), inProgress("")), corev1.ResourceMemory), onMemory, false},
		{"its container would restart, and it is deferred", restarting(resized(up, observed, pending(corev1.PodReasonDeferred, 2)), corev1.ResourceMemory), onMemory, true},
		{"no status", resized(up, func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }), onCPU, false},
	} {
		assert.Equal(t, tc.want, RequestsMore(tc.pod, tc.scaled), tc.name)
	}
}

// Below an HPA, a raise has less time: none if the node defers it, and otherwise a part of the sync period. Without an HPA,
// everything stays as it is (TestNext).
func TestNextBelowAnHPA(t *testing.T) {
	up := size(1000, 2000, 512, 1024)
	const period = 15 * time.Second
	written := func(r *v1alpha1.ResizeRecord) { r.WrittenAt = metav1.NewTime(noon) }
	longDeadline := func(r *v1alpha1.ResizeRecord) { r.Deadline = &metav1.Time{Time: noon.Add(time.Hour)} }
	undo := func(r *v1alpha1.ResizeRecord) { r.Wave = WaveUndo }
	reverting := []func(*v1alpha1.ResizeRecord){phase(v1alpha1.RecordReverting), reason("oomkill"), written}
	row := func(reason string) []v1alpha1.Try {
		return []v1alpha1.Try{{What: v1alpha1.TryRestore, PodUID: "uid-1", Reason: reason, Since: metav1.NewTime(noon), Until: metav1.NewTime(noon.Add(24 * time.Hour))}}
	}
	for _, tc := range []struct {
		name    string
		state   StateKind
		record  v1alpha1.ResizeRecord
		with    Circumstances
		at      time.Duration
		want    ActionKind
		reason  string
		requeue time.Duration
	}{
		{name: "deferred: at once", state: Deferred, record: recorded(up, written), want: Withdraw, reason: ReasonHPASync},
		{name: "deferred again: as without an HPA, for an eviction", state: Deferred, record: recorded(up, written), want: Withdraw, reason: ReasonDeferred,
			with: Circumstances{HPASync: period, Tries: NotInSync(nil, recorded(up), "", noon.Add(-time.Hour))}},
		{name: "a deferred undo: at once", state: Deferred, record: recorded(up, written, undo), with: Circumstances{HPASync: period, Undo: true}, want: Withdraw, reason: ReasonHPASync},
		{name: "an undo that no user wants any more", state: Deferred, record: recorded(up, written, undo), want: Withdraw, reason: ReasonUndo},
		{name: "infeasible: at once, as ever", state: Refused, record: recorded(up, written), want: Withdraw, reason: ReasonInfeasible},
		{name: "not observed, in time", state: Unobserved, record: recorded(up, written), at: 5 * time.Second, want: Wait, requeue: 7 * time.Second},
		{name: "not observed in time", state: Unobserved, record: recorded(up, written), at: 12 * time.Second, want: Withdraw, reason: ReasonHPASync},
		{name: "an undo that is not observed in time", state: Unobserved, record: recorded(up, written, undo), with: Circumstances{HPASync: period, Undo: true}, at: 12 * time.Second, want: Withdraw, reason: ReasonHPASync},
		{name: "a longer period does not lengthen what there is", state: Unobserved, record: recorded(up, written), with: Circumstances{HPASync: 5 * time.Minute}, at: time.Minute,
			want: Withdraw, reason: ReasonUnobserved},
		{name: "not carried out, in time", state: Actuating, record: recorded(up, written, longDeadline), at: 11 * time.Second, want: Wait, requeue: time.Second},
		{name: "not carried out in time", state: Actuating, record: recorded(up, written, longDeadline), at: 12 * time.Second, want: Withdraw, reason: ReasonHPASync},
		{name: "an error that may pass, in time", state: Failed, record: recorded(up, written, longDeadline), at: 11 * time.Second, want: Wait, requeue: time.Second},
		{name: "an error that may pass", state: Failed, record: recorded(up, written, longDeadline), at: 12 * time.Second, want: Withdraw, reason: ReasonHPASync},
		{name: "not on its way", state: Unsent, record: recorded(up, written, phase(v1alpha1.RecordWritten)), at: 12 * time.Second, want: Wait, requeue: PollEvery},
		{name: "observed for regressions", state: Watching, record: recorded(up, written, watchedUntil(time.Hour)), at: time.Minute, want: Wait},
		{name: "a deferred revert waits not in the spec", state: Deferred, record: recorded(desired, reverting...), want: StepBack, reason: ReasonRequestsWait},
		{name: "after the pause of its patch", state: Deferred, record: recorded(desired, reverting...), with: Circumstances{HPASync: period, Pause: time.Second, Tries: row("Deferred")}, want: Wait},
		{name: "at once when it was deferred before", state: Deferred, record: recorded(desired, reverting...), want: StepBack, reason: ReasonRequestsWait,
			with: Circumstances{HPASync: period, Pause: 4 * time.Minute, Tries: row(ReasonRequestsWait)}},
		{name: "a revert that is being carried out", state: Actuating, record: recorded(desired, reverting...), at: time.Minute, want: Wait},
		{name: "a revert whose requests wait", state: NotRestored, record: recorded(desired, reverting...), want: Pause,
			with: Circumstances{HPASync: period, Pause: 4 * time.Minute, Tries: row(ReasonRequestsWait)}},
		{name: "a revert that is given up", state: NotRestored, record: recorded(desired, reverting...), at: 25 * time.Hour, want: Forget, reason: v1alpha1.ReasonRevertPending,
			with: Circumstances{Tries: row(ReasonRequestsWait)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.with.HPASync == 0 && tc.with.Tries == nil {
				tc.with.HPASync = period
			}
			action := Next(State{Kind: tc.state}, tc.record, auto(), tc.with, noon.Add(tc.at))
			assert.Equal(t, tc.want, action.Kind)
			if tc.reason != "" {
				assert.Equal(t, tc.reason, action.Reason)
			}
			if tc.requeue > 0 {
				assert.Equal(t, tc.requeue, action.RequeueAfter)
			}
			assert.Equal(t, tc.want == Withdraw && tc.reason != ReasonUndo, action.BelowHPA, "it is remembered")
		})
	}
	for _, kind := range []StateKind{Deferred, Unobserved, Actuating} {
		assert.Equal(t, Wait, Next(State{Kind: kind}, recorded(up, written, longDeadline), auto(), Circumstances{}, noon.Add(12*time.Second)).Kind, "without an HPA")
	}
}

// The pause of requests that wait is that of the previous requests, and not that of patches that got lost.
func TestRequestsThatWaitAreTriedLater(t *testing.T) {
	record := recorded(desired, phase(v1alpha1.RecordReverting))
	row := v1alpha1.Try{What: v1alpha1.TryRestore, PodUID: record.PodUID, Reason: ReasonRequestsWait, Since: metav1.NewTime(noon)}
	assert.Equal(t, 5*time.Minute, PutBackEvery(record, []v1alpha1.Try{row}, noon))
	assert.Equal(t, 5*time.Minute, PutBackEvery(record, []v1alpha1.Try{row}, noon.Add(2*time.Hour)))
	row.Reason = ReasonDeferred
	assert.Equal(t, time.Second, PutBackEvery(record, []v1alpha1.Try{row}, noon))
}

// Limits that are restored stay requested while the requests step back, if class and containers allow it.
func TestStepBackPlan(t *testing.T) {
	low := size(250, 500, 256, 512)
	guaranteed, lowGuaranteed := size(500, 500, 512, 512), size(250, 250, 256, 256)
	deferred := func(spec, has recommender.Size) *corev1.Pod {
		return resized(spec, observed, func(p *corev1.Pod) {
			requirements := podview.ToRequirements(has)
			p.Status.ContainerStatuses[0].Resources, p.Status.ContainerStatuses[0].AllocatedResources = &requirements, requirements.Requests.DeepCopy()
			p.Status.QOSClass = podview.QOSClass(p)
		}, pending(corev1.PodReasonDeferred, 2))
	}
	old := able()
	old.ServerMinor = 33
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		caps Capabilities
		want recommender.Size
	}{
		{"requests step back, limits stay", deferred(prior, low), able(), size(250, 1000, 256, 1024)},
		{"a Guaranteed pod keeps its class", deferred(guaranteed, lowGuaranteed), able(), lowGuaranteed},
		{"memory that restarts its container steps back whole", restarting(deferred(prior, low), corev1.ResourceMemory), able(), size(250, 1000, 256, 512)},
		{"before 1.34 no memory limit is lowered", deferred(prior, low), old, size(250, 1000, 256, 1024)},
		{"only what is not allocated", deferred(prior, size(500, 1000, 256, 512)), able(), size(500, 1000, 256, 1024)},
		{"nothing is ahead", deferred(prior, prior), able(), prior},
	} {
		record := recorded(low, phase(v1alpha1.RecordReverting))
		plan := StepBackPlan(tc.pod, record, tc.caps)
		assert.Equal(t, tc.want, specOf(plan.Apply(tc.pod))["app"], tc.name)
		assert.False(t, RequestsMore(plan.Apply(tc.pod), ScaledRequests{"": {true, true}}), tc.name)
	}
}
