package resize

import (
	"cmp"
	"slices"
	"time"

	"attune.io/attune/api/v1alpha1"
)

// ActionKind is what is to be done about a record.
type ActionKind string

const (
	// Wait until RequeueAfter has passed or the pod changes.
	Wait ActionKind = "Wait"
	// Pause until RequeueAfter has passed: the pod was asked for a moment ago.
	Pause ActionKind = "Pause"
	// Adopt a resize whose answer was lost: its generation is known now.
	Adopt ActionKind = "Adopt"
	// MarkVerified notes the first read that found the size applied.
	MarkVerified ActionKind = "MarkVerified"
	// StartWatch: the resize is verified; this is the moment that counts as success.
	StartWatch ActionKind = "StartWatch"
	// SendRest: a second patch (RestPlan) is to be sent: the part of the resize that waited for the first one
	// to be verified, or memory that is given up because its limit could not be lowered.
	SendRest ActionKind = "SendRest"
	// ExtendWatch once, since nothing could be concluded.
	ExtendWatch ActionKind = "ExtendWatch"
	// Revert puts the pod back (RevertPlan) because it was harmed or the resize failed.
	Revert ActionKind = "Revert"
	// Withdraw puts the pod back (RevertPlan) because the node did not take the resize.
	Withdraw ActionKind = "Withdraw"
	// Evict the pod: the node will not have its size, it is back at its old one, and the policy allows it.
	Evict ActionKind = "Evict"
	// Forget closes the record.
	Forget ActionKind = "Forget"
)

// Results of a closed record, as history rows carry them.
const (
	ResultSuccess    = "Success"
	ResultFailed     = "Failed"
	ResultReverted   = "Reverted"
	ResultWithdrawn  = "Withdrawn"
	ResultSuperseded = "Superseded"
	ResultEvicted    = "Evicted"
)

// Action is what is to be done about a record, and why.
type Action struct {
	Kind    ActionKind
	Reason  string
	Message string
	// RequeueAfter is when to look again if nothing happens before; 0: only when something does.
	RequeueAfter time.Duration
	// Deadline replaces the record's, if set.
	Deadline time.Time
	// Until is the end of the watch that starts or is extended.
	Until time.Time
	// Generation to adopt.
	Generation int64
	// Result of a closed record, for its history row; empty: it leaves none.
	Result string
	// Keep: the size was survived; it becomes the workload's kept size.
	Keep bool
	// Alert: a person should know.
	Alert bool
	// Learn floors from the state's verdict (harm.LearnHarm).
	Learn bool
}

// An eviction that cannot be made now, or that a PodDisruptionBudget denies, is asked for again, and given up
// in the end: the pod then stays as it is.
const evictFor, evictEvery = 30 * time.Minute, time.Minute

// pollEvery is how often a record is looked at while nothing reports about its pod.
const pollEvery = 15 * time.Second

// stepsEvery is how far apart the times are that watches begin and end at.
const stepsEvery = 5 * time.Second

// Circumstances are what decides about an open record beside what its pod shows.
type Circumstances struct {
	// Undo: a person asks for the sizes from before attune, and that is not carried out yet.
	Undo bool
	// Orphaned: the policy or the workload is gone or going, so that its pods are sized no longer.
	Orphaned bool
	// Tries of the workload.
	Tries []v1alpha1.Try
	// Untried: putting the pod back was not asked for since the operator started, and part of it is within reach. It is
	// asked for once before it is given up, as much may have changed meanwhile.
	Untried bool
	// Pause is how long a pod that is being put back is not asked for again; 0: it may be.
	Pause time.Duration
}

// Next says what to do about a record in a state; it is the last word about it. Harm outranks everything that can still
// be acted on; another writer is never fought; an undo goes before what is open; putting back is tried for a day.
func Next(state State, record v1alpha1.ResizeRecord, rules Rules, c Circumstances, now time.Time) Action {
	action := next(state, record, rules, now)
	if c.Undo {
		action = nextUndoing(state, record, action)
	} else {
		action = nextResumed(state, record, action)
	}
	if end := inVain(state, record, action, c.Tries, c.Orphaned, now); end.Kind != Forget || !c.Untried || !action.putsBack() {
		action = end
	}
	if c.Pause > 0 && action.PutsBackAgain(record) {
		return Action{Kind: Pause, RequeueAfter: c.Pause}
	}
	return action
}

// putsBack: the action asks for the pod's prior size.
func (a Action) putsBack() bool { return a.Kind == Revert || a.Kind == Withdraw }

// PutsBackAgain: the action asks for a prior size that was asked for before.
func (a Action) PutsBackAgain(record v1alpha1.ResizeRecord) bool {
	return PuttingBack(record) && a.putsBack()
}

// next is the action by what the pod shows alone.
func next(state State, record v1alpha1.ResizeRecord, rules Rules, now time.Time) Action {
	switch state.Kind {
	case Replaced:
		return gone(record, ReasonReplaced, state)
	case Terminal:
		return gone(record, ReasonTerminal, state)
	case Superseded:
		return Action{Kind: Forget, Reason: ReasonSuperseded, Message: state.Message, Result: ResultSuperseded, Alert: true}
	case Harmed:
		return nextHarmed(state, record, rules)
	case NotRestored:
		return Action{Kind: putBackKind(record), Reason: record.Reason, RequeueAfter: pollEvery}
	}
	if PuttingBack(record) {
		return nextPuttingBack(state, record, rules, now)
	}
	return nextOpen(state, record, rules, now)
}

// gone closes the record of a pod that is gone or going; where that is our doing, it says so.
func gone(record v1alpha1.ResizeRecord, reason string, state State) Action {
	if record.Phase == v1alpha1.RecordEvicting {
		return Action{Kind: Forget, Reason: record.Reason, Message: state.Message, Result: ResultEvicted}
	}
	return Action{Kind: Forget, Reason: reason, Message: state.Message}
}

func nextOpen(state State, record v1alpha1.ResizeRecord, rules Rules, now time.Time) Action {
	written := record.WrittenAt.Time
	if restores(record.Wave) && waitsForKubelet(state) {
		return nextRestore(state, record)
	}
	switch state.Kind {
	case Unsent:
		return nextUnsent(state, record, now)
	case Landed:
		return Action{Kind: Adopt, Generation: state.Generation, RequeueAfter: pollEvery}
	case Unobserved:
		return until(written.Add(UnobservedFor), now, state, withdraw(ReasonUnobserved, state))
	case Deferred:
		return nextDeferred(state, record, now)
	case Refused:
		return withdraw(ReasonInfeasible, state)
	case Actuating:
		return until(deadlineOf(record), now, state, withdraw(ReasonTimeout, state))
	case Failed:
		return nextFailed(state, record, now)
	case Applied:
		return nextApplied(state, record, rules, now)
	case Watching:
		return nextWatching(state, record, now)
	case Settled:
		return nextSettled(state, record, rules, now)
	}
	return Action{Kind: Wait, RequeueAfter: pollEvery, Message: state.Message}
}

// nextUnsent: a first patch that never arrived changed nothing, and is decided afresh; a second one is sent
// again, as the pod has half of what was wanted.
func nextUnsent(state State, record v1alpha1.ResizeRecord, now time.Time) Action {
	if InSecondPatch(record) {
		if record.Attempts >= mostSeconds {
			return until(record.WrittenAt.Add(SyncPeriod), now, state, secondUnsent(record, state))
		}
		again := doubled(SyncPeriod, record.Attempts-1)
		return until(record.WrittenAt.Add(again), now, state, Action{Kind: SendRest, RequeueAfter: pollEvery})
	}
	return until(record.WrittenAt.Add(UnobservedFor), now, state, Action{Kind: Forget, Reason: ReasonNotSent,
		Message: "the resize never reached the API server"})
}

// mostSeconds is how often a second patch is sent that does not arrive, at ever longer intervals: some 6 minutes in all.
const mostSeconds = 5

// secondUnsent puts back a pod that has half of what was wanted, and does not get the rest.
func secondUnsent(record v1alpha1.ResizeRecord, state State) Action {
	if record.Reason == ReasonActuation {
		return Action{Kind: Revert, Reason: ReasonActuation, Message: state.Message, RequeueAfter: pollEvery}
	}
	return withdraw(ReasonNotSent, state)
}

// nextDeferred waits, and leaves the kubelet its time to act after it may have found room at last.
func nextDeferred(state State, record v1alpha1.ResizeRecord, now time.Time) Action {
	end := record.WrittenAt.Add(DeferredFor)
	action := until(end, now, state, withdraw(ReasonDeferred, state))
	if deadline := deadlineOf(record); action.Kind == Wait && deadline.Before(end) {
		action.Deadline = end.Add(deadline.Sub(record.WrittenAt.Time))
	}
	return action
}

// nextFailed: a memory limit that could not be lowered is allocated all the same, and a container that
// crashes now comes up with it; that is undone at once, and the rest of the resize goes on without it. Other
// errors may pass: the kubelet tries again.
func nextFailed(state State, record v1alpha1.ResizeRecord, now time.Time) Action {
	revert := Action{Kind: Revert, Reason: ReasonActuation, Message: state.Message, RequeueAfter: pollEvery}
	lowered := slices.ContainsFunc(Changes(record), func(c Change) bool {
		return lowersMemoryLimit(c.Move())
	})
	if !lowered {
		return until(deadlineOf(record), now, state, revert)
	}
	if _, left := givingUpLimits(record); left {
		revert.Kind = SendRest
	}
	return revert
}

func nextApplied(state State, record v1alpha1.ResizeRecord, rules Rules, now time.Time) Action {
	if record.VerifiedOnce == nil {
		return Action{Kind: MarkVerified, RequeueAfter: SyncPeriod, Message: state.Message}
	}
	if len(record.Then) > 0 {
		return until(record.VerifiedOnce.Add(SyncPeriod), now, state, Action{Kind: SendRest, RequeueAfter: pollEvery})
	}
	if restores(record.Wave) {
		return until(record.VerifiedOnce.Add(SyncPeriod), now, state, Action{Kind: Forget, Reason: record.Reason, Result: ResultUndone})
	}
	end := onStep(now.Add(WatchFor(record, rules)))
	return until(onStep(record.VerifiedOnce.Add(SyncPeriod)), now, state, Action{
		Kind: StartWatch, Until: end, RequeueAfter: end.Sub(now), Message: state.Message,
	})
}

// onStep is the next of the times that steps which can wait are taken at: pods of one wave, whose kubelets were not
// equally fast, share one write of the status.
func onStep(at time.Time) time.Time {
	if on := at.Truncate(stepsEvery); on.Before(at) {
		return on.Add(stepsEvery)
	}
	return at
}

func nextWatching(state State, record v1alpha1.ResizeRecord, now time.Time) Action {
	if state.Verdict.OtherKill {
		return endedByOtherKill(state, record)
	}
	after := pollEvery
	if record.WatchUntil != nil && record.WatchUntil.After(now) {
		after = record.WatchUntil.Sub(now)
	}
	return Action{Kind: Wait, RequeueAfter: after, Message: state.Message}
}

// endedByOtherKill ends the watch of a resize that left alone what killed its container: the answer is more memory,
// which waits for no watch. Nothing proves the size good.
func endedByOtherKill(state State, record v1alpha1.ResizeRecord) Action {
	return Action{Kind: Forget, Result: ResultSuccess, Reason: record.Reason, Message: state.Verdict.Message + ": its watch ends"}
}

func nextSettled(state State, record v1alpha1.ResizeRecord, rules Rules, now time.Time) Action {
	switch {
	case state.Verdict.OtherKill:
		return endedByOtherKill(state, record)
	case !state.Verdict.Inconclusive && state.Drift:
		return Action{Kind: Forget, Result: ResultSuccess, Reason: cmp.Or(record.Reason, ReasonDrift), Alert: true, Message: state.Message}
	case !state.Verdict.Inconclusive:
		return Action{Kind: Forget, Result: ResultSuccess, Reason: record.Reason, Keep: record.Wave != WaveBoost, Message: state.Verdict.Message}
	case !record.Extended:
		longer := WatchFor(record, rules)
		return Action{Kind: ExtendWatch, Reason: ReasonUnconcluded, Until: now.Add(longer), RequeueAfter: longer,
			Message: state.Verdict.Message}
	}
	return Action{Kind: Forget, Result: ResultSuccess, Reason: cmp.Or(record.Reason, ReasonUnconcluded), Alert: true,
		Message: "the pod keeps its size, but nothing proves it good: " + state.Verdict.Message}
}

// nextHarmed puts the pod back, unless the policy says otherwise, there is nothing to put back, or the
// size that did the harm is what a person asked to go back to.
func nextHarmed(state State, record v1alpha1.ResizeRecord, rules Rules) Action {
	action := Action{Kind: Revert, Reason: string(state.Verdict.Harm), Message: state.Message, Alert: true, Learn: true}
	if rules.AutoRevert && !restores(record.Wave) && !state.idle[state.Verdict.Harm] {
		action.RequeueAfter = pollEvery
		return action
	}
	action.Kind, action.Result = Forget, ResultFailed
	return action
}

// nextPuttingBack waits for as long as it takes, then closes the record.
func nextPuttingBack(state State, record v1alpha1.ResizeRecord, rules Rules, now time.Time) Action {
	if state.Kind != Applied && !state.asFarAsItGoes {
		return Action{Kind: Wait, Reason: record.Reason, RequeueAfter: pollEvery, Alert: state.Kind == Deferred || state.Kind == Refused || state.Kind == Failed,
			Message: "the old size is asked for and the pod does not have it yet: " + string(state.Kind) + " " + state.Message}
	}
	done := Action{Kind: Forget, Reason: record.Reason, Result: ResultWithdrawn}
	switch {
	case record.Phase == v1alpha1.RecordReverting && state.Restored:
		done.Result = ResultReverted
	case record.Phase == v1alpha1.RecordReverting:
		done.Result = ResultFailed
	case worthEvicting(record, rules) && now.Before(record.WrittenAt.Add(evictFor)):
		return until(nextTry(record), now, state, Action{Kind: Evict, Reason: record.Reason, RequeueAfter: evictEvery})
	case Leaving(record):
		done.Result = ""
	}
	return done
}

// nextTry is when an eviction may be asked for again; the first time at once.
func nextTry(record v1alpha1.ResizeRecord) time.Time {
	if record.Deadline == nil {
		return time.Time{}
	}
	return record.Deadline.Time
}

// worthEvicting: only growth that the node refused is worth a new pod, or that all others on it fit.
func worthEvicting(record v1alpha1.ResizeRecord, rules Rules) bool {
	if Leaving(record) {
		return rules.NodeEviction
	}
	if rules.Method != v1alpha1.ResizeInPlaceOrRecreate || record.Reason != ReasonInfeasible && record.Reason != ReasonDeferred {
		return false
	}
	for _, c := range Changes(record) {
		if c.Move().Raises() {
			return true
		}
	}
	return false
}

// Advance is the record after an action was decided: it is stored before the action is carried out.
func Advance(record v1alpha1.ResizeRecord, action Action, now time.Time) v1alpha1.ResizeRecord {
	record = *record.DeepCopy()
	if !action.Deadline.IsZero() {
		record.Deadline = timeOf(action.Deadline)
	}
	switch action.Kind {
	case Adopt:
		record.Phase, record.Generation = v1alpha1.RecordApplied, action.Generation
	case MarkVerified:
		record.VerifiedOnce = timeOf(now)
	case StartWatch:
		record.Phase, record.WatchUntil, record.Deadline = v1alpha1.RecordWatching, timeOf(action.Until), nil
	case SendRest:
		if action.Reason == ReasonActuation {
			record, _ = givingUpLimits(record)
			record.Reason = action.Reason
		}
		if !InSecondPatch(record) {
			record.Attempts = 0
		}
		record = secondPatch(record, now)
	case ExtendWatch:
		record.WatchUntil, record.Extended = timeOf(action.Until), true
	case Revert:
		record = startPuttingBack(record, v1alpha1.RecordReverting, action.Reason)
	case Withdraw:
		record = startPuttingBack(record, withdrawnPhase(action.Reason), action.Reason)
	case Evict:
		record.Phase, record.Deadline = v1alpha1.RecordEvicting, timeOf(now.Add(evictEvery))
	}
	return record
}

// NotEvicted is the record after its eviction was denied.
func NotEvicted(record v1alpha1.ResizeRecord) v1alpha1.ResizeRecord {
	record = *record.DeepCopy()
	record.Phase = v1alpha1.RecordEvictionDenied
	return record
}

// GivenUp is the record of a plan that its node can never carry out: nothing is sent, so there is nothing to
// be put back, and what is left is to find the pod another node.
func GivenUp(record v1alpha1.ResizeRecord) v1alpha1.ResizeRecord {
	if record.Reason == ReasonDoesNotFit {
		return startPuttingBack(*record.DeepCopy(), v1alpha1.RecordLeaving, record.Reason)
	}
	return startPuttingBack(*record.DeepCopy(), v1alpha1.RecordWithdrawing, ReasonInfeasible)
}

// Recreates: the pod of a record that the node refuses may be evicted instead.
func Recreates(record v1alpha1.ResizeRecord, rules Rules) bool {
	record.Reason = ReasonInfeasible
	return worthEvicting(record, rules)
}

func startPuttingBack(record v1alpha1.ResizeRecord, phase v1alpha1.RecordPhase, reason string) v1alpha1.ResizeRecord {
	if !PuttingBack(record) {
		record.Attempts = 0
	}
	record.Phase, record.Reason = phase, reason
	record.Deadline, record.WatchUntil, record.VerifiedOnce = nil, nil, nil
	return record
}

// withdrawnPhase of a record that is taken back for a reason.
func withdrawnPhase(reason string) v1alpha1.RecordPhase {
	if reason == ReasonDoesNotFit {
		return v1alpha1.RecordLeaving
	}
	return v1alpha1.RecordWithdrawing
}

func putBackKind(record v1alpha1.ResizeRecord) ActionKind {
	if record.Phase == v1alpha1.RecordReverting {
		return Revert
	}
	return Withdraw
}

func withdraw(reason string, state State) Action {
	return Action{Kind: Withdraw, Reason: reason, Message: state.Message, RequeueAfter: pollEvery}
}

// until waits for a time and then acts.
func until(end, now time.Time, state State, then Action) Action {
	if left := end.Sub(now); left > 0 {
		return Action{Kind: Wait, RequeueAfter: min(left, pollEvery), Message: state.Message}
	}
	return then
}

func deadlineOf(record v1alpha1.ResizeRecord) time.Time {
	if record.Deadline == nil {
		return record.WrittenAt.Add(MemoryActuatedFor)
	}
	return record.Deadline.Time
}

// WatchFor is how long a record is watched: at least as long as the throttling query looks back, or its
// answer would be about the time before.
func WatchFor(record v1alpha1.ResizeRecord, rules Rules) time.Duration {
	period := rules.Observation
	if record.Wave == WaveFirst && rules.CanaryObservation > 0 {
		period = rules.CanaryObservation
	}
	if record.Wave == WaveBoost {
		period = min(period, boostWatch)
	}
	for _, c := range Changes(record) {
		if c.Prior[0] != c.Desired[0] {
			period = max(period, rules.RateWindow)
		}
	}
	return period
}
