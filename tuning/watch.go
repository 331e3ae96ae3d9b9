package tuning

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
)

// watcher advances every record: its pod is observed, verified, reverted or evicted, or the record is closed.
// harm.Assess assesses the pod, and only lifecycle.Next chooses the action, so that a step after a crash is the same
// as before it.
type watcher struct {
	view     *View
	records  *records
	tries    *tries
	writes   *writes
	unknowns *Unknowns
	reports  *reports
	learned  *learned
	pauses   *pauses
	gates    *gates
	climber  *climber
	evictor  *evictor
	// history, cooldownFrom and backoff are fields of the status. evicted is Decision.EvictionOutcomes.
	history      []v1alpha1.HistoryEntry
	cooldownFrom *metav1.Time
	backoff      *v1alpha1.Backoff
	evicted      []lifecycle.EvictionOutcome
	// survivors are records of pods without a regression until the end of the observation, hurt those whose pods showed
	// a regression in this reconcile. storeVerifiedSizes reads both after all records are processed, so that a size that
	// harmed one pod is not verified because another pod survived it.
	survivors, hurt []v1alpha1.ResizeRecord
	// raised are raises before an OOM kill whose observation has ended, and restores after a spike that were never
	// sent.
	raised []v1alpha1.ResizeRecord
}

// advance advances every record. It empties the list first: each step appends its record again unless it is closed.
// In between, the list has only the records that were already advanced.
func (d *watcher) advance() {
	for _, record := range d.records.takeAll() {
		d.step(record)
	}
	d.storeVerifiedSizes()
}

// storeVerifiedSizes stores the verified sizes (status.verified), after all records are advanced: a size that harmed a
// sibling is not stored, whichever of the two records comes first. A success without any regression in the reconcile
// ends the backoff.
func (d *watcher) storeVerifiedSizes() {
	for _, record := range d.survivors {
		if !d.view.ByNode() {
			d.learned.addVerified(record)
		}
		if len(d.hurt) == 0 && lifecycle.EndsBackoff(d.backoff, record) {
			d.backoff = nil
		}
	}
	for _, record := range d.records.open {
		if record.Phase == v1alpha1.RecordReverting {
			d.learned.dropVerified(record)
		}
	}
	for _, record := range d.hurt {
		d.learned.dropVerified(record)
	}
}

// step advances one record. If the API server's answer was lost (Adopt) and the pod shows that its resize was
// accepted, the record is updated first and assessed again. A record stays as it is if it is in backoff (Pause), if
// only the whole reconcile can assess it, or if its pod could not be read.
func (d *watcher) step(record v1alpha1.ResizeRecord) {
	pod := d.view.Pod(record.PodUID)
	state, action := d.assess(pod, record)
	if action.Kind == lifecycle.Adopt {
		record = lifecycle.Advance(record, action, d.view.Now)
		d.tries.accept(record)
		state, action = d.assess(pod, record)
	}
	if action.Kind == lifecycle.Pause {
		d.reports.requeueAfter(action.RequeueAfter)
		d.records.add(record)
		return
	}
	if d.leftForLater(record, state) || d.unsure(record, action, state) {
		d.records.add(record)
		return
	}
	d.gates.learn(pod, record, action, state)
	d.tries.addFailure(record, action, state)
	d.unknowns.askLive(d.view, pod, record, action)
	d.applyAction(pod, record, action, state)
}

// assess returns the state of a record's pod (nil pod: deleted), and the next action.
func (d *watcher) assess(pod *corev1.Pod, record v1alpha1.ResizeRecord) (lifecycle.State, lifecycle.Action) {
	state := harm.Assess(pod, record, d.view.capabilitiesOn(record.Node), d.view.Now, d.view.Policy.Settings.Resize, d.view.signals(record))
	return state, lifecycle.Next(state, record, d.view.Policy.Settings.Resize, d.circumstances(pod, record), d.view.Now)
}

// circumstances returns the inputs of lifecycle.Next that do not come from the pod: a deleted policy or workload, an
// undo, a raise before an OOM kill or the end of its spike, and the backoff of a revert.
func (d *watcher) circumstances(pod *corev1.Pod, record v1alpha1.ResizeRecord) lifecycle.Circumstances {
	c := lifecycle.Circumstances{Orphaned: d.view.orphaned(), Tries: d.tries.list}
	_, c.Undo = d.view.undoing()
	c.Climbs, c.Spike = d.climber.circumstances(pod, record)
	if d.view.requestsMore(pod, record) {
		c.HPASync = d.view.Operator.HPASync
	}
	if resize.PuttingBack(record) {
		c.Pause = d.backoffBeforeRevert(record)
		_, asked := d.view.Past.AskedAt[record.PodUID]
		c.Untried = !asked && d.canPutBack(pod, record)
	}
	return c
}

// applyAction applies an action to the decision. Calls to the API server become writes or evictions. Regressions are
// learned first, whatever the action is: one that is not reverted also raises floors. Due stays false for steps that
// every reconcile can derive again from the pod; they are stored with the next write.
func (d *watcher) applyAction(pod *corev1.Pod, record v1alpha1.ResizeRecord, action lifecycle.Action, state lifecycle.State) {
	d.reports.storeNow(!slices.Contains([]lifecycle.ActionKind{lifecycle.Wait, lifecycle.MarkVerified, lifecycle.Adopt}, action.Kind))
	next := lifecycle.Advance(record, action, d.view.Now)
	if state.Kind == lifecycle.Harmed {
		d.learnFromRegression(record, action, state.Verdict)
	}
	switch action.Kind {
	case lifecycle.Forget:
		d.closeRecord(next, action)
		return
	case lifecycle.Evict:
		d.reports.requeueAfter(action.RequeueAfter)
		if result, stays := d.evictor.evict(pod, record, next); stays {
			action.Result = result
			d.closeRecord(record, action)
		}
		return
	case lifecycle.Revert, lifecycle.Withdraw:
		if record.Phase != next.Phase && state.Kind != lifecycle.Harmed && action.Reason != resize.ReasonBoost {
			d.reports.addRecordEvent(record, event.Warning(v1alpha1.EventResizeFailed, "Reverting the failed resize of pod %s: %s: %s", record.PodName, action.Reason, action.Message))
		}
		if !d.putBackAsFar(pod, record, next) {
			action.RequeueAfter = lookAgain
		}
	case lifecycle.StepBack:
		d.stepBack(pod, record, action)
	case lifecycle.SendRest:
		d.writes.add(Write{Pod: pod, Plan: lifecycle.RestPlan(pod, next)})
	case lifecycle.StartWatch:
		d.reportVerified(next, state)
	case lifecycle.Wait:
		d.waitsToBePutBack(record, action, state)
		d.evictor.denied(pod, record)
	}
	d.reports.requeueAfter(action.RequeueAfter)
	d.records.add(next)
}

// learnFromRegression learns from a regression: floors, dropped verified sizes, a bad seed, a longer backoff. It runs
// once per record, because the record is reverted or closed in the same reconcile. A regression that is not reverted is
// reported with the reason (whyKept).
func (d *watcher) learnFromRegression(record v1alpha1.ResizeRecord, action lifecycle.Action, verdict resize.Verdict) {
	d.hurt = append(d.hurt, record)
	d.learned.learnHarm(record, verdict)
	if action.Kind != lifecycle.Revert {
		d.reports.addRecordEvent(record, event.Warning(v1alpha1.EventResizeFailed, "The resize of pod %s caused a regression and is not reverted (%s): %s: %s",
			record.PodName, d.whyKept(record), action.Reason, action.Message))
		return
	}
	d.backoff = lifecycle.MoreBackoff(d.backoff, record, d.view.Now)
	d.reports.addRecordEvent(record, event.Warning(v1alpha1.EventReverted, "Reverting the resize of pod %s: %s: %s", record.PodName, action.Reason, action.Message))
	d.reports.addCounts(countReverted, record, action.Reason)
}

// whyKept explains why a regression is reported and learned from, but not reverted.
func (d *watcher) whyKept(record v1alpha1.ResizeRecord) string {
	switch {
	case record.Wave == resize.WaveUndo:
		return "a user requested these resources"
	case !d.view.Policy.Settings.Resize.AutoRevert:
		return "autoRevert is false"
	}
	return "no previous amount would help"
}

// reportVerified reports a verified resize whose observation begins, and any difference from the wanted size
// (State.Drift).
func (d *watcher) reportVerified(record v1alpha1.ResizeRecord, state lifecycle.State) {
	var parts []string
	for _, row := range lifecycle.HistoryRows(d.view.Rec.Spec.Workload.Name, record, lifecycle.ResultSuccess, "", d.view.Now) {
		parts = append(parts, fmt.Sprintf("%s of container %s %s -> %s", row.Resource, row.Container, row.From, row.To))
	}
	switch changed := strings.Join(parts, "; "); {
	case changed == "":
	case state.Drift:
		d.reports.addRecordEvent(record, event.Warning(v1alpha1.EventResized, "Resized pod %s: %s, but %s; observing it", record.PodName, changed, state.Message))
	default:
		d.reports.addRecordEvent(record, event.Normal(v1alpha1.EventResized, "Resized pod %s: %s; observing it", record.PodName, changed))
	}
	if !state.Drift { // the metrics count only amounts that the runtime reports
		d.reports.addCounts(countSuccess, record, "")
		d.reports.counts = append(d.reports.counts, tookOf(record)...)
	}
}

// unsure reports that an action needs the pod from the API server, and that it could not be read. Regressions are
// reverted anyway, and reverts in progress continue: waiting would be worse than an unnecessary patch.
func (d *watcher) unsure(record v1alpha1.ResizeRecord, action lifecycle.Action, state lifecycle.State) bool {
	return d.view.Looked.Unread.Pods[record.PodUID] != nil && state.Kind != lifecycle.Harmed && !action.PutsBackAgain(record) && needsLivePod(action)
}

// leftForLater reports that only the whole reconcile assesses the end of a record's observation, because it has the
// measurements of a usage source.
func (d *watcher) leftForLater(record v1alpha1.ResizeRecord, state lifecycle.State) bool {
	judged := state.Kind == lifecycle.Settled || state.Kind == lifecycle.Watching
	return d.view.Part != WholePass && judged && d.view.WatchEnded(record)
}
