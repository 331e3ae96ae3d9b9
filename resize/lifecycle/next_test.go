package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	. "attune.io/attune/resize"
	. "attune.io/attune/resize/lifecycle"
)

func TestNext(t *testing.T) {
	up, lessMemory := size(1000, 2000, 512, 1024), size(500, 1000, 256, 512)
	recreate := func(r *Rules) { r.Method = v1alpha1.ResizeInPlaceOrRecreate }
	guarded := func(r *Rules) { r.Guardrails = []v1alpha1.SLOGuardrail{{Name: "errors"}} }
	quiet := func(r *Rules) { r.AutoRevert = false }
	// Records were written a minute before noon, with a deadline at noon for CPU and a minute later for memory.
	for _, tc := range []struct {
		name   string
		state  State
		record v1alpha1.ResizeRecord
		rules  func(*Rules)
		at     time.Duration // after noon
		want   Action
	}{
		{name: "1 replaced", state: State{Kind: Replaced}, record: recorded(desired), want: Action{Kind: Forget, Reason: ReasonReplaced}},
		{name: "4 ended", state: State{Kind: Terminal}, record: recorded(desired), want: Action{Kind: Forget, Reason: ReasonTerminal}},
		{name: "19 superseded", state: State{Kind: Superseded}, record: recorded(desired),
			want: Action{Kind: Forget, Reason: ReasonSuperseded, Result: ResultSuperseded, Alert: true}},
		{name: "14 unsent, in time", state: State{Kind: Unsent}, record: recorded(desired), at: -time.Second,
			want: Action{Kind: Wait, RequeueAfter: time.Second}},
		{name: "14 unsent, out of time", state: State{Kind: Unsent}, record: recorded(desired),
			want: Action{Kind: Forget, Reason: ReasonNotSent, Message: "the resize never reached the API server"}},
		{name: "18 landed", state: State{Kind: Landed, Generation: 9}, record: recorded(desired),
			want: Action{Kind: Adopt, Generation: 9, RequeueAfter: PollEvery}},
		{name: "11 unobserved, in time", state: State{Kind: Unobserved}, record: recorded(desired), at: -20 * time.Second,
			want: Action{Kind: Wait, RequeueAfter: PollEvery}},
		{name: "11 unobserved, out of time", state: State{Kind: Unobserved}, record: recorded(desired),
			want: Action{Kind: Withdraw, Reason: ReasonUnobserved, RequeueAfter: PollEvery}},
		{name: "28 deferred: the time to actuate begins later", state: State{Kind: Deferred}, record: recorded(up),
			want: Action{Kind: Wait, RequeueAfter: PollEvery, Deadline: noon.Add(4*time.Minute + time.Minute)}},
		{name: "28 deferred again: the deadline stays", state: State{Kind: Deferred},
			record: recorded(up, func(r *v1alpha1.ResizeRecord) { r.Deadline = &metav1.Time{Time: noon.Add(5 * time.Minute)} }), at: time.Minute,
			want: Action{Kind: Wait, RequeueAfter: PollEvery}},
		{name: "28 deferred for 5 minutes", state: State{Kind: Deferred}, record: recorded(up), at: 4 * time.Minute,
			want: Action{Kind: Withdraw, Reason: ReasonDeferred, RequeueAfter: PollEvery}},
		{name: "25 infeasible: never waits", state: State{Kind: Refused}, record: recorded(up), at: -time.Minute,
			want: Action{Kind: Withdraw, Reason: ReasonInfeasible, RequeueAfter: PollEvery}},
		{name: "actuating, in time", state: State{Kind: Actuating}, record: recorded(desired), at: -time.Second,
			want: Action{Kind: Wait, RequeueAfter: time.Second}},
		{name: "actuating, out of time", state: State{Kind: Actuating}, record: recorded(desired),
			want: Action{Kind: Withdraw, Reason: ReasonTimeout, RequeueAfter: PollEvery}},
		{name: "actuating memory has a minute more", state: State{Kind: Actuating}, record: recorded(lessMemory), at: 59 * time.Second,
			want: Action{Kind: Wait, RequeueAfter: time.Second}},
		{name: "34 a lowered memory limit that failed is undone at once", state: State{Kind: Failed}, record: recorded(lessMemory), at: -time.Minute,
			want: Action{Kind: Revert, Reason: ReasonActuation, RequeueAfter: PollEvery}},
		{name: "34 and the rest of the resize goes on without it", state: State{Kind: Failed}, record: recorded(size(250, 500, 256, 512)), at: -time.Minute,
			want: Action{Kind: SendRest, Reason: ReasonActuation, RequeueAfter: PollEvery}},
		{name: "38 another error may pass", state: State{Kind: Failed}, record: recorded(up), at: -time.Second,
			want: Action{Kind: Wait, RequeueAfter: time.Second}},
		{name: "38 another error that stays", state: State{Kind: Failed}, record: recorded(up),
			want: Action{Kind: Revert, Reason: ReasonActuation, RequeueAfter: PollEvery}},
		{name: "23 the first read", state: State{Kind: Applied}, record: recorded(desired),
			want: Action{Kind: MarkVerified, RequeueAfter: SyncPeriod}},
		{name: "23 a second read too soon", state: State{Kind: Applied}, record: recorded(desired, verified(-14*time.Second)),
			want: Action{Kind: Wait, RequeueAfter: 5 * time.Second}},
		{name: "a second read that came late: its watch ends together with others", state: State{Kind: Applied}, record: recorded(desired, verified(-15*time.Second)), at: time.Second,
			want: Action{Kind: StartWatch, Until: noon.Add(5*time.Minute + 5*time.Second), RequeueAfter: 5*time.Minute + 4*time.Second}},
		{name: "23 the second read", state: State{Kind: Applied}, record: recorded(desired, verified(-15*time.Second)),
			want: Action{Kind: StartWatch, Until: noon.Add(5 * time.Minute), RequeueAfter: 5 * time.Minute}},
		{name: "the first wave is watched as every other", state: State{Kind: Applied}, record: recorded(desired, verified(-time.Minute), func(r *v1alpha1.ResizeRecord) { r.Wave = WaveFirst }),
			want: Action{Kind: StartWatch, Until: noon.Add(5 * time.Minute), RequeueAfter: 5 * time.Minute}},
		{name: "throttling is judged over a window of its own", state: State{Kind: Applied}, record: recorded(desired, verified(-time.Minute)),
			rules: func(r *Rules) { r.Observation, r.RateWindow = time.Minute, 5*time.Minute },
			want:  Action{Kind: StartWatch, Until: noon.Add(5 * time.Minute), RequeueAfter: 5 * time.Minute}},
		{name: "memory alone does not wait for it", state: State{Kind: Applied}, record: recorded(lessMemory, verified(-time.Minute)),
			rules: func(r *Rules) { r.Observation, r.RateWindow = time.Minute, 5*time.Minute },
			want:  Action{Kind: StartWatch, Until: noon.Add(time.Minute), RequeueAfter: time.Minute}},
		{name: "watching", state: State{Kind: Watching}, record: recorded(desired, watchedUntil(90*time.Second)),
			want: Action{Kind: Wait, RequeueAfter: 90 * time.Second}},
		{name: "watching beyond the end, as the pod is not as it should be", state: State{Kind: Watching}, record: recorded(desired, watchedUntil(0)),
			want: Action{Kind: Wait, RequeueAfter: PollEvery}},
		{name: "watching, with guardrails", state: State{Kind: Watching}, record: recorded(desired, watchedUntil(90*time.Second)), rules: guarded,
			want: Action{Kind: Wait, RequeueAfter: AskEvery}},
		{name: "the last seconds with guardrails", state: State{Kind: Watching}, record: recorded(desired, watchedUntil(9*time.Second)), rules: guarded,
			want: Action{Kind: Wait, RequeueAfter: 9 * time.Second}},
		{name: "the observation with guardrails begins", state: State{Kind: Applied}, record: recorded(desired, verified(-15*time.Second)), rules: guarded,
			want: Action{Kind: StartWatch, Until: noon.Add(5 * time.Minute), RequeueAfter: AskEvery}},
		{name: "the observation with guardrails is extended", state: State{Kind: Settled, Verdict: Verdict{Inconclusive: true}}, record: recorded(desired, watchedUntil(0)), rules: guarded,
			want: Action{Kind: ExtendWatch, Reason: ReasonUnconcluded, Until: noon.Add(5 * time.Minute), RequeueAfter: AskEvery}},
		{name: "settled", state: State{Kind: Settled}, record: recorded(desired, watchedUntil(0)),
			want: Action{Kind: Forget, Result: ResultSuccess, Keep: true}},
		{name: "51 settled, and the runtime reports other amounts: nothing proves them good", state: State{Kind: Settled, Drift: true, Message: "differs"},
			record: recorded(desired, watchedUntil(0)), want: Action{Kind: Forget, Result: ResultSuccess, Reason: ReasonDrift, Alert: true, Message: "differs"}},
		{name: "75 settled, inconclusive", state: State{Kind: Settled, Verdict: Verdict{Inconclusive: true}}, record: recorded(desired, watchedUntil(0)),
			want: Action{Kind: ExtendWatch, Reason: ReasonUnconcluded, Until: noon.Add(5 * time.Minute), RequeueAfter: 5 * time.Minute}},
		{name: "75 settled, inconclusive again", state: State{Kind: Settled, Verdict: Verdict{Inconclusive: true, Message: "no answer"}},
			record: recorded(desired, watchedUntil(0), func(r *v1alpha1.ResizeRecord) { r.Extended = true }),
			want: Action{Kind: Forget, Result: ResultSuccess, Reason: ReasonUnconcluded, Alert: true,
				Message: "the pod keeps its resources, but they are not verified: no answer"}},
		{name: "37 harmed", state: harmed(HarmOOM), record: recorded(lessMemory),
			want: Action{Kind: Revert, Reason: "oomkill", RequeueAfter: PollEvery, Alert: true}},
		{name: "harmed, and the policy only reports", state: harmed(HarmOOM), record: recorded(lessMemory), rules: quiet,
			want: Action{Kind: Forget, Reason: "oomkill", Result: ResultFailed, Alert: true}},
		{name: "73 harmed, and putting back would put nothing back", state: State{Kind: Harmed, Verdict: Verdict{Harm: HarmOOM}}.Idle(HarmOOM), record: recorded(up),
			want: Action{Kind: Forget, Reason: "oomkill", Result: ResultFailed, Alert: true}},
		{name: "not restored", state: State{Kind: NotRestored}, record: recorded(desired, phase(v1alpha1.RecordReverting), reason("oomkill")),
			want: Action{Kind: Revert, Reason: "oomkill", RequeueAfter: PollEvery}},
		{name: "not restored after a refusal", state: State{Kind: NotRestored}, record: recorded(desired, phase(v1alpha1.RecordWithdrawing), reason(ReasonDeferred)),
			want: Action{Kind: Withdraw, Reason: ReasonDeferred, RequeueAfter: PollEvery}},
		{name: "69 a revert is deferred: it waits, for days", state: State{Kind: Deferred, Message: "no room"}, record: recorded(desired, phase(v1alpha1.RecordReverting), reason("oomkill")), at: 72 * time.Hour,
			want: Action{Kind: Wait, Reason: "oomkill", RequeueAfter: PollEvery, Alert: true,
				Message: "attune requested the previous resources, but the pod does not have them yet: Deferred no room"}},
		{name: "a revert is being carried out", state: State{Kind: Actuating}, record: recorded(desired, phase(v1alpha1.RecordReverting), reason("oomkill")), at: time.Hour,
			want: Action{Kind: Wait, Reason: "oomkill", RequeueAfter: PollEvery,
				Message: "attune requested the previous resources, but the pod does not have them yet: Actuating "}},
		{name: "reverted", state: State{Kind: Applied, Restored: true}, record: recorded(desired, phase(v1alpha1.RecordReverting), reason("oomkill")),
			want: Action{Kind: Forget, Reason: "oomkill", Result: ResultReverted}},
		{name: "73 nothing was put back", state: State{Kind: Applied}, record: recorded(up, phase(v1alpha1.RecordReverting), reason("oomkill")),
			want: Action{Kind: Forget, Reason: "oomkill", Result: ResultFailed}},
		{name: "withdrawn", state: State{Kind: Applied, Restored: true}, record: recorded(up, phase(v1alpha1.RecordWithdrawing), reason(ReasonDeferred)),
			want: Action{Kind: Forget, Reason: ReasonDeferred, Result: ResultWithdrawn}},
		{name: "withdrawn, evicted where the policy allows it", state: State{Kind: Applied, Restored: true}, record: recorded(up, phase(v1alpha1.RecordWithdrawing), reason(ReasonInfeasible)), rules: recreate,
			want: Action{Kind: Evict, Reason: ReasonInfeasible, RequeueAfter: EvictEvery}},
		{name: "66 a PodDisruptionBudget denied it just now", state: State{Kind: Applied, Restored: true}, record: recorded(up, phase(v1alpha1.RecordWithdrawing), reason(ReasonInfeasible), deadline(2*time.Minute)), rules: recreate, at: 110 * time.Second,
			want: Action{Kind: Wait, RequeueAfter: 10 * time.Second}},
		{name: "asked for, and the pod is still there", state: State{Kind: Applied, Restored: true}, record: recorded(up, phase(v1alpha1.RecordEvicting), reason(ReasonInfeasible), deadline(time.Minute)), rules: recreate, at: 2 * time.Minute,
			want: Action{Kind: Evict, Reason: ReasonInfeasible, RequeueAfter: EvictEvery}},
		{name: "evicted", state: State{Kind: Terminal}, record: recorded(up, phase(v1alpha1.RecordEvicting), reason(ReasonDeferred)), rules: recreate,
			want: Action{Kind: Forget, Reason: ReasonDeferred, Result: ResultEvicted}},
		{name: "evicted, and gone before anybody looked", state: State{Kind: Replaced}, record: recorded(up, phase(v1alpha1.RecordEvicting), reason(ReasonDeferred)), rules: recreate,
			want: Action{Kind: Forget, Reason: ReasonDeferred, Result: ResultEvicted}},
		{name: "66 a PodDisruptionBudget denied it for half an hour", state: State{Kind: Applied, Restored: true}, record: recorded(up, phase(v1alpha1.RecordWithdrawing), reason(ReasonInfeasible)), rules: recreate, at: 29 * time.Minute,
			want: Action{Kind: Forget, Reason: ReasonInfeasible, Result: ResultWithdrawn}},
		{name: "a lowering is not worth an eviction", state: State{Kind: Applied, Restored: true}, record: recorded(desired, phase(v1alpha1.RecordWithdrawing), reason(ReasonDeferred)), rules: recreate,
			want: Action{Kind: Forget, Reason: ReasonDeferred, Result: ResultWithdrawn}},
		{name: "a kubelet that saw nothing is not worth an eviction", state: State{Kind: Applied, Restored: true}, record: recorded(up, phase(v1alpha1.RecordWithdrawing), reason(ReasonUnobserved)), rules: recreate,
			want: Action{Kind: Forget, Reason: ReasonUnobserved, Result: ResultWithdrawn}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rules := auto()
			if tc.rules != nil {
				tc.rules(&rules)
			}
			assert.Equal(t, tc.want, Next(tc.state, tc.record, rules, Circumstances{}, noon.Add(tc.at)))
		})
	}
}

func verified(after time.Duration) func(*v1alpha1.ResizeRecord) {
	return func(r *v1alpha1.ResizeRecord) { r.VerifiedOnce = &metav1.Time{Time: noon.Add(after)} }
}

func harmed(h Harm) State { return State{Kind: Harmed, Verdict: Verdict{Harm: h}} }

func TestPauseAndScheduleNeverStopARevert(t *testing.T) {
	rules := auto()
	rules.Paused = []string{"cluster"}
	rules.Schedule = Schedule{Days: map[time.Weekday]bool{time.Sunday: false}}
	assert.Equal(t, Revert, Next(harmed(HarmOOM), recorded(size(500, 1000, 256, 512)), rules, Circumstances{}, noon).Kind)
	assert.Equal(t, Withdraw, Next(State{Kind: Refused}, recorded(size(1000, 2000, 512, 1024)), rules, Circumstances{}, noon).Kind)
}

// An inconclusive end keeps the reason of the resize: other code looks for it in the history (the end of a boost, a pod
// limit that lagged).
func TestTheReasonOfAResizeOutlivesALongerWatch(t *testing.T) {
	open := State{Kind: Settled, Verdict: Verdict{Inconclusive: true, Message: "no answer"}}
	for _, why := range []string{ReasonBoost, ReasonPodLimitBehind} {
		record := recorded(desired, watchedUntil(0), reason(why))
		first := Next(open, record, auto(), Circumstances{}, noon)
		assert.Equal(t, ExtendWatch, first.Kind)
		record = Advance(record, first, noon)
		assert.Equal(t, why, record.Reason)
		last := Next(open, record, auto(), Circumstances{}, noon.Add(time.Hour))
		assert.Equal(t, Forget, last.Kind, "once")
		assert.Equal(t, why, last.Reason)
	}
}

func TestAdvance(t *testing.T) {
	record := recorded(desired)
	deadline, until := noon.Add(time.Minute), noon.Add(time.Hour)

	assert.Equal(t, record, Advance(record, Action{Kind: Wait}, noon))
	assert.Equal(t, deadline, Advance(record, Action{Kind: Wait, Deadline: deadline}, noon).Deadline.Time)
	assert.Equal(t, noon, Advance(record, Action{Kind: MarkVerified}, noon).VerifiedOnce.Time)

	adopted := Advance(recorded(desired, phase(v1alpha1.RecordWritten)), Action{Kind: Adopt, Generation: 5}, noon)
	assert.Equal(t, v1alpha1.RecordApplied, adopted.Phase)
	assert.Equal(t, int64(5), adopted.Generation)

	watching := Advance(record, Action{Kind: StartWatch, Until: until}, noon)
	assert.Equal(t, v1alpha1.RecordWatching, watching.Phase)
	assert.Equal(t, until, watching.WatchUntil.Time)
	assert.Nil(t, watching.Deadline)

	longer := Advance(watching, Action{Kind: ExtendWatch, Until: until.Add(time.Hour), Reason: ReasonUnconcluded}, noon)
	assert.Equal(t, until.Add(time.Hour), longer.WatchUntil.Time)
	assert.True(t, longer.Extended)
	assert.Equal(t, watching.Reason, longer.Reason, "why the pod is resized stays what it was")

	for kind, want := range map[ActionKind]v1alpha1.RecordPhase{Revert: v1alpha1.RecordReverting, Withdraw: v1alpha1.RecordWithdrawing} {
		back := Advance(watching, Action{Kind: kind, Reason: "why"}, noon)
		assert.Equal(t, want, back.Phase)
		assert.Equal(t, "why", back.Reason)
		assert.Zero(t, back.Attempts, "only patches that were sent are counted")
		assert.Equal(t, int32(1), Sent(back).Attempts)
		assert.Zero(t, Sent(watching).Attempts)
		assert.Equal(t, watching.Generation, back.Generation, "a view of the pod from before the resize is still too old")
		assert.Nil(t, back.Deadline, "putting back has no deadline")
		assert.Equal(t, watching.Prior, back.Prior)
	}
	assert.Equal(t, v1alpha1.RecordWatching, watching.Phase, "the record given stays as it is")
}

func TestARecordSurvivesTheAPIServer(t *testing.T) {
	// Case 14: the stored record has everything that a decision needs; times come back in whole seconds.
	written := noon.Add(123 * time.Millisecond)
	plan := mustPlan(t, web(), wish(size(250, 500, 256, 512)))
	record := NewRecord(plan, web(), written, auto())
	back := stored(t, record)
	assert.Equal(t, Changes(record)[0].Prior, Changes(*back)[0].Prior)
	assert.Equal(t, Changes(record)[0].Desired, Changes(*back)[0].Desired)
	for _, pod := range []bool{true, false} {
		p := resized(size(250, 500, 256, 512), done(size(250, 500, 256, 512)))
		if !pod {
			p = nil
		}
		assert.Equal(t, Assess(p, record, able(), noon).Kind, Assess(p, *back, able(), noon).Kind)
	}
}
