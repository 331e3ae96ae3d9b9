package lifecycle

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// ActionKind is the action on an open record in one reconcile.
type ActionKind string

const (
	// Wait until RequeueAfter has passed or the pod changes.
	Wait ActionKind = "Wait"
	// Pause until RequeueAfter has passed: the pod was patched a moment ago.
	Pause ActionKind = "Pause"
	// Adopt a resize whose answer was lost: its generation is now known.
	Adopt ActionKind = "Adopt"
	// MarkVerified records the first read with the size applied.
	MarkVerified ActionKind = "MarkVerified"
	// StartWatch: the resize is verified, which counts as success; its observation period starts.
	StartWatch ActionKind = "StartWatch"
	// SendRest: send a second patch (RestPlan). It has the part of the resize that waited until the first part was
	// verified, or restores memory limits that could not be lowered.
	SendRest ActionKind = "SendRest"
	// ExtendWatch extends the observation period, since the verdict is inconclusive.
	ExtendWatch ActionKind = "ExtendWatch"
	// Revert restores the pod's prior size (RevertPlan) because of a regression or a failed resize.
	Revert ActionKind = "Revert"
	// Withdraw restores the pod's prior size (RevertPlan) because the node did not carry the resize out.
	Withdraw ActionKind = "Withdraw"
	// StepBack requests what the node has allocated to a pod that is being restored (StepBackPlan): the node has no room
	// for its previous requests, and an HPA scales on them.
	StepBack ActionKind = "StepBack"
	// Evict the pod: its node refuses the size, its prior size is restored, and the policy allows the eviction.
	Evict ActionKind = "Evict"
	// Forget closes the record.
	Forget ActionKind = "Forget"
)

// Results of a closed record, in history rows.
const (
	ResultSuccess    = "Success"
	ResultFailed     = "Failed"
	ResultReverted   = "Reverted"
	ResultWithdrawn  = "Withdrawn"
	ResultSuperseded = "Superseded"
	ResultEvicted    = "Evicted"
)

// Action is the action on a record, and its reason. Next decides it, Advance writes it into the record, and the caller
// carries it out. Fields that an action does not need are zero.
type Action struct {
	// Kind of the action.
	Kind ActionKind
	// Reason is one word for the record, events and history; empty if there is nothing to report.
	Reason string
	// Message is one sentence with the details.
	Message string
	// RequeueAfter is the delay until the record is checked again if no event comes earlier; 0: only an event triggers
	// the next check.
	RequeueAfter time.Duration
	// Deadline replaces the record's deadline; zero: it stays.
	Deadline time.Time
	// Until is the end of the observation period that StartWatch or ExtendWatch sets.
	Until time.Time
	// Generation of the pod, for Adopt.
	Generation int64
	// Result of a closed record, for its row in the history; empty: no row.
	Result string
	// Keep is true if the pod had no regression with the size: it becomes a verified size of the workload.
	Keep bool
	// Alert is true if a user should know; the caller emits an event.
	Alert bool
	// BelowHPA is true for the end of a raise that was not carried out and on whose request an HPA scales.
	BelowHPA bool
}

// evictFor is how long a denied eviction is requested again, evictEvery how often. After that the pod stays on its node
// with its old size.
const evictFor, evictEvery = 30 * time.Minute, time.Minute

// pollEvery is how often a record is checked without an event: a silent kubelet reports no progress.
const pollEvery = 15 * time.Second

// AskEvery is how often the guardrails of a policy are asked during an observation period.
const AskEvery = 30 * time.Second

// stepsEvery is the grid of times at which observation periods begin and end, so that pods of one wave share one write
// of the status.
const stepsEvery = 5 * time.Second

// Circumstances are the facts about a record that its pod does not show. The zero value does not change the action.
type Circumstances struct {
	// Undo is true if a user requested the original resources and the request is not complete yet.
	Undo bool
	// Orphaned is true if the policy or the workload no longer exists or is being deleted, so that its pods are no
	// longer sized.
	Orphaned bool
	// Tries of the workload.
	Tries []v1alpha1.Try
	// Untried is true if restoring the pod was not attempted since attune started and part of it is possible now. It is
	// attempted once before attune gives up, since the cluster may have changed in the meantime.
	Untried bool
	// Pause is the wait before a pod that is being restored is patched again; 0: it may be patched at once.
	Pause time.Duration
	// Climbs is the sentence about a container of the pod that attune raises before an OOM kill as soon as the record
	// is closed; empty: no such raise is planned and allowed. Spike is the sentence about a raise for a spike that is
	// over; empty: not known.
	Climbs, Spike string
	// HPASync is the period of HPAs if the pod requests more than it has of a resource on which an HPA scales
	// (RequestsMore); otherwise 0.
	HPASync time.Duration
}

// Next decides the action on a record in a state; no other function does. Later rules take precedence, in this order:
//  1. next: the action for the pod's state. A regression takes precedence over every state that attune can still act on,
//     and a size that another writer set is never changed.
//  2. An undo request withdraws open resizes. Without a request, an undo that is no longer wanted is withdrawn.
//  3. nextBelowHPA: a raise that is not carried out in time does not wait below an HPA.
//  4. nextRaised: the observation period ends if its container has to be raised, and a raise is observed until it proves
//     to be a spike.
//  5. inVain: restoring ends after a day, or earlier for an orphaned record.
//  6. Pause: a pod that is being restored is not patched too often.
func Next(state State, record v1alpha1.ResizeRecord, rules resize.Rules, c Circumstances, now time.Time) Action {
	action := next(state, record, rules, now)
	if c.Undo {
		action = nextUndoing(state, record, action)
	} else {
		action = nextResumed(state, record, action)
	}
	action = nextBelowHPA(state, record, action, c, now)
	action = nextRaised(record, action, c, now)
	if end := inVain(state, record, action, c.Tries, c.Orphaned, now); end.Kind != Forget || !c.Untried || !action.restores() {
		action = end
	}
	if c.Pause > 0 && action.PutsBackAgain(record) {
		return Action{Kind: Pause, RequeueAfter: c.Pause}
	}
	return action
}

// restores reports whether the action patches the pod towards its prior size.
func (a Action) restores() bool { return a.Kind == Revert || a.Kind == Withdraw }

// PutsBackAgain reports whether the action patches a pod towards its prior size, and the record did so before.
func (a Action) PutsBackAgain(record v1alpha1.ResizeRecord) bool {
	return resize.PuttingBack(record) && a.restores()
}

// next decides by the pod's state only. States that end a record come first, then regressions, then the two directions:
// a record that restores its pod never goes forward again.
func next(state State, record v1alpha1.ResizeRecord, rules resize.Rules, now time.Time) Action {
	switch state.Kind {
	case Replaced:
		return closeGoneRecord(record, resize.ReasonReplaced, state)
	case Terminal:
		return closeGoneRecord(record, resize.ReasonTerminal, state)
	case Superseded:
		return Action{Kind: Forget, Reason: resize.ReasonSuperseded, Message: state.Message, Result: ResultSuperseded, Alert: true}
	case Harmed:
		return nextRegression(state, record, rules)
	case NotRestored:
		again := Action{Kind: Withdraw, Reason: record.Reason, RequeueAfter: pollEvery}
		if record.Phase == v1alpha1.RecordReverting {
			again.Kind = Revert
		}
		return again
	}
	if resize.PuttingBack(record) {
		return nextRestoring(state, record, rules, now)
	}
	return nextOpen(state, record, rules, now)
}

// closeGoneRecord closes the record of a pod that has finished or no longer exists. If attune evicted it, the result
// says so.
func closeGoneRecord(record v1alpha1.ResizeRecord, reason string, state State) Action {
	if record.Phase == v1alpha1.RecordEvicting {
		return Action{Kind: Forget, Reason: record.Reason, Message: state.Message, Result: ResultEvicted}
	}
	return Action{Kind: Forget, Reason: reason, Message: state.Message}
}

// nextOpen decides about a resize that goes forward. Each state that can last has a time after which the resize is
// withdrawn or reverted. Only a resize that restores a pod's original or template size waits for its kubelet without a
// limit, as a revert does.
func nextOpen(state State, record v1alpha1.ResizeRecord, rules resize.Rules, now time.Time) Action {
	written := record.WrittenAt.Time
	if resize.Restores(record.Wave) && waitsForKubelet(state) {
		return Action{Kind: Wait, Reason: record.Reason, RequeueAfter: pollEvery, Alert: state.Kind == Deferred,
			Message: "attune requested the original resources, but the pod does not have them yet: " + string(state.Kind) + " " + state.Message}
	}
	switch state.Kind {
	case Unsent:
		return nextUnsent(state, record, now)
	case Landed:
		return Action{Kind: Adopt, Generation: state.Generation, RequeueAfter: pollEvery}
	case Unobserved:
		return until(written.Add(resize.UnobservedFor), now, state, withdraw(resize.ReasonUnobserved, state))
	case Deferred:
		return nextDeferred(state, record, now)
	case Refused:
		return withdraw(resize.ReasonInfeasible, state)
	case Actuating:
		return until(deadlineOf(record), now, state, withdraw(resize.ReasonTimeout, state))
	case Failed:
		return nextFailed(state, record, now)
	case Applied:
		return nextApplied(state, record, rules, now)
	case Watching:
		return nextWatching(state, record, rules, now)
	case Settled:
		return nextSettled(state, record, rules, now)
	}
	return Action{Kind: Wait, RequeueAfter: pollEvery, Message: state.Message}
}

// waitForRun waits until a container runs whose CPU limit the second patch raises (waitsForRun). It may never run, for
// example without its image, so the resize is withdrawn DeferredFor after a time. The reason is not ReasonTimeout, which
// would block the node.
func waitForRun(since time.Time, record v1alpha1.ResizeRecord, state State, now time.Time) Action {
	state.Message = "the second patch raises the CPU limit of a container that is not running"
	return until(since.Add(DeferredFor), now, state, withoutRest(record, resize.ReasonNotRunning, state))
}

// nextUnsent handles a patch that never arrived. If it was the first patch, nothing was changed: the record is closed
// and the resize is decided again. A second patch is sent again, since the pod has half of the planned resize.
func nextUnsent(state State, record v1alpha1.ResizeRecord, now time.Time) Action {
	switch {
	case !InSecondPatch(record):
		return until(record.WrittenAt.Add(resize.UnobservedFor), now, state, Action{Kind: Forget, Reason: resize.ReasonNotSent,
			Message: "the resize never reached the API server"})
	case state.waitsForRun:
		return waitForRun(record.WrittenAt.Time, record, state, now)
	case record.Attempts >= mostSeconds:
		return until(record.WrittenAt.Add(SyncPeriod), now, state, withoutRest(record, resize.ReasonNotSent, state))
	}
	again := resize.Doubled(SyncPeriod, record.Attempts-1)
	return until(record.WrittenAt.Add(again), now, state, Action{Kind: SendRest, RequeueAfter: pollEvery})
}

// mostSeconds is how often a second patch that does not arrive is sent, at intervals that start at SyncPeriod and
// double.
const mostSeconds = 5

// withoutRest restores a pod that has the first half of a resize and does not get the second half.
func withoutRest(record v1alpha1.ResizeRecord, reason string, state State) Action {
	switch record.Reason {
	case resize.ReasonActuation:
		return Action{Kind: Revert, Reason: resize.ReasonActuation, Message: state.Message, RequeueAfter: pollEvery}
	case resize.ReasonNotRunning:
		reason = record.Reason
	}
	return withdraw(reason, state)
}

// nextDeferred waits for room until DeferredFor has passed. It also moves the record's deadline after that time, so
// that a kubelet that finds room at the last moment has its full time to carry the resize out.
func nextDeferred(state State, record v1alpha1.ResizeRecord, now time.Time) Action {
	end := record.WrittenAt.Add(DeferredFor)
	action := until(end, now, state, withdraw(resize.ReasonDeferred, state))
	if deadline := deadlineOf(record); action.Kind == Wait && deadline.Before(end) {
		action.Deadline = end.Add(deadline.Sub(record.WrittenAt.Time))
	}
	return action
}

// nextFailed handles an error of the kubelet or runtime. A memory limit that could not be lowered is allocated
// nevertheless: a container that crashes would start with the lower limit and be killed. So a second patch restores the
// limit at once, and the rest of the resize goes on. Other errors may lift, as the kubelet retries until the deadline.
func nextFailed(state State, record v1alpha1.ResizeRecord, now time.Time) Action {
	revert := Action{Kind: Revert, Reason: resize.ReasonActuation, Message: state.Message, RequeueAfter: pollEvery}
	if !resize.AnyChange(record, resize.Move.LowersMemoryLimit) {
		return until(deadlineOf(record), now, state, revert)
	}
	if _, left := givingUpLimits(record); left {
		revert.Kind = SendRest
	}
	return revert
}

// nextApplied counts a size as verified only when two reads, SyncPeriod apart, agree: the first one can be premature.
// Then it sends the second patch if there is one, and otherwise starts the observation period.
func nextApplied(state State, record v1alpha1.ResizeRecord, rules resize.Rules, now time.Time) Action {
	if record.VerifiedOnce == nil {
		return Action{Kind: MarkVerified, RequeueAfter: SyncPeriod, Message: state.Message}
	}
	if state.waitsForRun {
		return waitForRun(record.VerifiedOnce.Time, record, state, now)
	}
	if len(record.Then) > 0 {
		return until(record.VerifiedOnce.Add(SyncPeriod), now, state, Action{Kind: SendRest, RequeueAfter: pollEvery})
	}
	if resize.Restores(record.Wave) {
		return until(record.VerifiedOnce.Add(SyncPeriod), now, state, Action{Kind: Forget, Reason: record.Reason, Result: ResultUndone})
	}
	end := onStep(now.Add(WatchFor(record, rules)))
	return until(onStep(record.VerifiedOnce.Add(SyncPeriod)), now, state, Action{
		Kind: StartWatch, Until: end, RequeueAfter: untilAsked(end.Sub(now), rules), Message: state.Message,
	})
}

// onStep rounds a time up to the grid of stepsEvery.
func onStep(at time.Time) time.Time {
	if on := at.Truncate(stepsEvery); on.Before(at) {
		return on.Add(stepsEvery)
	}
	return at
}

// nextWatching waits for the end of the observation period, or until the guardrails are asked next.
func nextWatching(state State, record v1alpha1.ResizeRecord, rules resize.Rules, now time.Time) Action {
	if state.Verdict.OtherKill {
		return endedByOtherKill(state, record)
	}
	after := pollEvery
	if record.WatchUntil != nil && record.WatchUntil.After(now) {
		after = record.WatchUntil.Sub(now)
	}
	return Action{Kind: Wait, RequeueAfter: untilAsked(after, rules), Message: state.Message}
}

// untilAsked shortens a wait if the policy has guardrails.
func untilAsked(wait time.Duration, rules resize.Rules) time.Duration {
	if len(rules.Guardrails) > 0 {
		return min(wait, AskEvery)
	}
	return wait
}

// endedByOtherKill ends the observation of a resize that did not change the memory of an OOM-killed container. The
// answer to the kill is more memory, which the open record would block. The new size was not verified, so it is not
// stored.
func endedByOtherKill(state State, record v1alpha1.ResizeRecord) Action {
	if record.Wave == resize.WaveReboost { // otherwise the next restart would multiply the boosted CPU once more
		return withdraw(resize.ReasonBoost, state)
	}
	return Action{Kind: Forget, Result: ResultSuccess, Reason: record.Reason, Message: state.Verdict.Message + "; its observation ends"}
}

// nextSettled closes the record after the observation period. The size becomes a verified size only if the verdict is
// conclusive and the runtime reports exactly this size. Without a conclusion the period is extended once, or as often
// as the verdict says (Again). The size after a boost is not stored either, since it was verified before.
func nextSettled(state State, record v1alpha1.ResizeRecord, rules resize.Rules, now time.Time) Action {
	switch {
	case state.Verdict.OtherKill:
		return endedByOtherKill(state, record)
	case record.Wave == resize.WaveReboost:
		return nextReboosted(state, record, rules, now)
	case !state.Verdict.Inconclusive && state.Drift:
		return Action{Kind: Forget, Result: ResultSuccess, Reason: cmp.Or(record.Reason, resize.ReasonDrift), Alert: true, Message: state.Message}
	case !state.Verdict.Inconclusive:
		return Action{Kind: Forget, Result: ResultSuccess, Reason: record.Reason, Keep: record.Wave != resize.WaveBoost, Message: state.Verdict.Message}
	case !record.Extended, state.Verdict.Again:
		longer := WatchFor(record, rules)
		return Action{Kind: ExtendWatch, Reason: resize.ReasonUnconcluded, Until: now.Add(longer), RequeueAfter: untilAsked(longer, rules),
			Message: state.Verdict.Message}
	}
	return Action{Kind: Forget, Result: ResultSuccess, Reason: cmp.Or(record.Reason, resize.ReasonUnconcluded), Alert: true,
		Message: "the pod keeps its resources, but they are not verified: " + state.Verdict.Message}
}

// nextReboosted ends the startup boost of a restarted container: the size before it is restored. A pod that is not ready
// keeps it for one more period. A pod that never becomes ready must not keep its record, which blocks other resizes.
func nextReboosted(state State, record v1alpha1.ResizeRecord, rules resize.Rules, now time.Time) Action {
	if state.notReady && !record.Extended {
		longer := WatchFor(record, rules)
		return Action{Kind: ExtendWatch, Reason: resize.ReasonBoost, Until: now.Add(longer), RequeueAfter: pollEvery, Message: "the pod is not ready yet"}
	}
	return withdraw(resize.ReasonBoost, state)
}

// raiseWatch is how long a raise before an OOM kill is observed after its first period, until the growth proves a
// spike.
const raiseWatch = 25 * time.Minute

// nextRaised ends the observation of a pod that is about to be raised: the open record would block the raise, and the
// record's size is not verified.
func nextRaised(record v1alpha1.ResizeRecord, action Action, c Circumstances, now time.Time) Action {
	watched := action.Kind == Wait || action.Kind == ExtendWatch || action.Kind == Forget && action.Result == ResultSuccess
	if record.Phase != v1alpha1.RecordWatching || !watched {
		return action
	}
	switch {
	case c.Climbs != "" && record.Wave == resize.WaveReboost:
		return Action{Kind: Withdraw, Reason: resize.ReasonBoost, Message: c.Climbs, RequeueAfter: pollEvery}
	case c.Climbs != "":
		return Action{Kind: Forget, Result: ResultSuccess, Reason: record.Reason, Message: c.Climbs + "; its observation ends"}
	case record.Reason == resize.ReasonClimb:
		return observeRaise(record, action, c, now)
	}
	return action
}

// observeRaise extends the observation of a raise before an OOM kill until its spike ends.
func observeRaise(record v1alpha1.ResizeRecord, action Action, c Circumstances, now time.Time) Action {
	over := action.Kind != Wait
	switch {
	case c.Spike != "" && (over || record.Extended):
		return Action{Kind: Forget, Result: ResultSuccess, Reason: record.Reason, Message: c.Spike}
	case over && !record.Extended:
		return Action{Kind: ExtendWatch, Reason: record.Reason, Until: now.Add(raiseWatch), RequeueAfter: spikePoll, Message: action.Message}
	case record.Extended && action.Kind == Wait:
		action.RequeueAfter = min(action.RequeueAfter, spikePoll)
	}
	return action
}

// spikePoll is how often a raise is checked after its first observation period.
const spikePoll = time.Minute

// nextRegression reverts the resize, with three exceptions: the policy disables reverts, a revert would change nothing
// (idle), or the size with the regression is the original or template size. Floors are learned in every case.
func nextRegression(state State, record v1alpha1.ResizeRecord, rules resize.Rules) Action {
	action := Action{Kind: Revert, Reason: string(state.Verdict.Harm), Message: state.Message, Alert: true}
	if rules.AutoRevert && !resize.Restores(record.Wave) && !state.idle[shortage(state.Verdict.Harm)] {
		action.RequeueAfter = pollEvery
		return action
	}
	action.Kind, action.Result = Forget, ResultFailed
	return action
}

// nextRestoring waits until the pod has its old size. Then it closes the record or, if the policy allows it and the
// node refused growth, evicts the pod.
func nextRestoring(state State, record v1alpha1.ResizeRecord, rules resize.Rules, now time.Time) Action {
	if state.Kind != Applied && !state.asFarAsItGoes {
		return Action{Kind: Wait, Reason: record.Reason, RequeueAfter: pollEvery, Alert: state.Kind == Deferred || state.Kind == Refused || state.Kind == Failed,
			Message: "attune requested the previous resources, but the pod does not have them yet: " + string(state.Kind) + " " + state.Message}
	}
	done := Action{Kind: Forget, Reason: record.Reason, Result: ResultWithdrawn}
	switch {
	case record.Phase == v1alpha1.RecordReverting && state.Restored:
		done.Result = ResultReverted
	case record.Phase == v1alpha1.RecordReverting:
		done.Result = ResultFailed
	case worthEvicting(record, rules) && now.Before(record.WrittenAt.Add(evictFor)):
		again := ptr.Deref(record.Deadline, metav1.Time{}).Time // zero for the first eviction
		return until(again, now, state, Action{Kind: Evict, Reason: record.Reason, RequeueAfter: evictEvery})
	case Leaving(record):
		done.Result = ""
	case record.Reason == resize.ReasonBoost:
		done.Result = ResultSuccess
	}
	return done
}

// worthEvicting reports whether the pod of the record should move to another node: for growth that the node refused,
// with method InPlaceOrRecreate, and for a pod that leaves for lack of room (strategy Node).
func worthEvicting(record v1alpha1.ResizeRecord, rules resize.Rules) bool {
	if Leaving(record) {
		return rules.NodeEviction
	}
	if rules.Method != v1alpha1.ResizeInPlaceOrRecreate || record.Wave == resize.WaveReboost || record.Reason != resize.ReasonInfeasible && record.Reason != resize.ReasonDeferred {
		return false
	}
	return resize.AnyChange(record, resize.Move.Raises)
}

// Advance returns the record after an action was decided. The caller stores it before it carries the action out: after
// a crash between the two, the next process knows the progress of the resize. The argument is not changed.
func Advance(record v1alpha1.ResizeRecord, action Action, now time.Time) v1alpha1.ResizeRecord {
	record = *record.DeepCopy()
	if !action.Deadline.IsZero() {
		record.Deadline = &metav1.Time{Time: action.Deadline}
	}
	switch action.Kind {
	case Adopt:
		record.Phase, record.Generation = v1alpha1.RecordApplied, action.Generation
	case MarkVerified:
		record.VerifiedOnce = &metav1.Time{Time: now}
	case StartWatch:
		record.Phase, record.WatchUntil, record.Deadline = v1alpha1.RecordWatching, &metav1.Time{Time: action.Until}, nil
	case SendRest:
		if action.Reason == resize.ReasonActuation {
			record, _ = givingUpLimits(record)
			record.Reason = action.Reason
		}
		if !InSecondPatch(record) {
			record.Attempts = 0
		}
		record = secondPatch(record, now)
	case ExtendWatch:
		record.WatchUntil, record.Extended = &metav1.Time{Time: action.Until}, true
	case Revert:
		record = startRestoring(record, v1alpha1.RecordReverting, action.Reason)
	case Withdraw:
		record = startRestoring(record, withdrawnPhase(action.Reason), action.Reason)
	case Evict:
		record.Phase, record.Deadline = v1alpha1.RecordEvicting, &metav1.Time{Time: now.Add(evictEvery)}
	}
	return record
}

// NotEvicted returns the record after its eviction was denied.
func NotEvicted(record v1alpha1.ResizeRecord) v1alpha1.ResizeRecord {
	record = *record.DeepCopy()
	record.Phase = v1alpha1.RecordEvictionDenied
	return record
}

// GivenUp returns the record of a plan that its node can never carry out. No resize was sent, so nothing has to be
// restored; the pod only has to be evicted.
func GivenUp(record v1alpha1.ResizeRecord) v1alpha1.ResizeRecord {
	if record.Reason != resize.ReasonDoesNotFit {
		record.Reason = resize.ReasonInfeasible
	}
	return startRestoring(*record.DeepCopy(), withdrawnPhase(record.Reason), record.Reason)
}

// Recreates reports whether the pod may be evicted if its node refuses the record's size. A raise before an OOM kill
// moves no pod: its successor would be created without the raise.
func Recreates(record v1alpha1.ResizeRecord, rules resize.Rules) bool {
	if record.Reason == resize.ReasonClimb {
		return false
	}
	record.Reason = resize.ReasonInfeasible
	return worthEvicting(record, rules)
}

// startRestoring starts or continues the restore; the count of attempts resets only at the start. The second patch of a
// resize.StartPlan restores the pod itself, so its desired size is the one to restore.
func startRestoring(record v1alpha1.ResizeRecord, phase v1alpha1.RecordPhase, reason string) v1alpha1.ResizeRecord {
	if !resize.PuttingBack(record) {
		record.Attempts = 0
	}
	if InSecondPatch(record) && record.Reason == resize.ReasonNotRunning {
		record.Prior, record.Desired = record.Desired, record.Prior
	}
	record.Phase, record.Reason = phase, reason
	record.Deadline, record.WatchUntil, record.VerifiedOnce = nil, nil, nil
	return record
}

// withdrawnPhase returns the phase of a withdrawn record: Leaving for a pod without room, otherwise Withdrawing.
func withdrawnPhase(reason string) v1alpha1.RecordPhase {
	if reason == resize.ReasonDoesNotFit {
		return v1alpha1.RecordLeaving
	}
	return v1alpha1.RecordWithdrawing
}

func withdraw(reason string, state State) Action {
	return Action{Kind: Withdraw, Reason: reason, Message: state.Message, RequeueAfter: pollEvery}
}

// until returns Wait before end, and then from that time on.
func until(end, now time.Time, state State, then Action) Action {
	if left := end.Sub(now); left > 0 {
		return Action{Kind: Wait, RequeueAfter: min(left, pollEvery), Message: state.Message}
	}
	return then
}

func deadlineOf(record v1alpha1.ResizeRecord) time.Time {
	return ptr.Deref(record.Deadline, metav1.NewTime(record.WrittenAt.Add(MemoryActuatedFor))).Time
}

// WatchFor returns how long a record is observed; a boost after a restart: how long it lasts. After a change of CPU it is
// at least the rate window, because the throttling query covers that window.
func WatchFor(record v1alpha1.ResizeRecord, rules resize.Rules) time.Duration {
	period := rules.Observation
	if record.Wave == resize.WaveReboost {
		lasts := time.Duration(0)
		for _, c := range record.Desired {
			lasts = max(lasts, rules.Of(c.Name).Boost)
		}
		return lasts
	}
	if record.Wave == resize.WaveBoost {
		period = min(period, boostWatch)
	}
	if resize.AnyChange(record, func(m resize.Move) bool { return m.From[recommender.CPU] != m.To[recommender.CPU] }) {
		period = max(period, rules.RateWindow)
	}
	return period
}
