package tuning

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// putBackDone reports a pod that was verified to have its original resources again (resize.Restores).
func (d *watcher) putBackDone(record v1alpha1.ResizeRecord) {
	for _, row := range lifecycle.HistoryRows(d.view.Rec.Spec.Workload.Name, record, lifecycle.ResultUndone, "", d.view.Now) {
		d.reports.addRecordEvent(record, event.Normal(v1alpha1.EventResized, "Restored %s of %s/%s: %s -> %s", row.Resource, record.PodName, row.Container, row.From, row.To))
	}
	if record.Wave != resize.WaveRestore { // it was counted as a revert when it began
		d.reports.addCounts(countSuccess, record, "")
	}
}

// reportEviction reports a pod that attune has evicted: for lack of room on its node (lifecycle.Leaving), or because
// its node refused the resize.
func (d *watcher) reportEviction(record v1alpha1.ResizeRecord) {
	if d.evicted = append(d.evicted, lifecycle.EvictionGranted); lifecycle.Leaving(record) {
		d.reports.addRecordEvent(record, event.Normal(v1alpha1.EventEvicted, "Evicted pod %s from node %s, where it did not fit with the other pods; the new pod starts with its peak demand",
			record.PodName, record.Node))
		return
	}
	for _, row := range lifecycle.HistoryRows("", record, lifecycle.ResultEvicted, "", d.view.Now) {
		d.reports.addRecordEvent(record, event.Normal(v1alpha1.EventEvicted, "Evicted pod %s from node %s, which refused container %s %s of %s (it had %s); the webhook sizes the new pod",
			record.PodName, record.Node, row.Container, row.To, row.Resource, row.From))
	}
}

// closeRecord ends a record with the result of an action. The caller has already removed the record from the status.
//
// A cooldown begins only if the pod was changed (there are rows), and never after the end of a CPU startup boost,
// which is part of a normal start. Strategy Node has a cooldown only after a regression (backedOff), because the node
// loop sets its own pace.
func (d *watcher) closeRecord(record v1alpha1.ResizeRecord, action lifecycle.Action) {
	rows := lifecycle.HistoryRows(d.view.Rec.Spec.Workload.Name, record, action.Result, action.Reason, d.view.Now)
	d.history = lifecycle.AddHistory(d.history, rows)
	d.reportMissingChecks(record, action)
	if result := endOf(record, action); result != "" {
		d.reports.addCounts(result, record, "")
	}
	if action.Reason == v1alpha1.ReasonRevertPending {
		d.giveUp(record, action.Message)
	}
	d.collectRestorableRaises(record, action)
	if action.Keep {
		d.survivors = append(d.survivors, record)
	}
	if action.Result == lifecycle.ResultUndone {
		d.putBackDone(record)
	}
	if action.Result == lifecycle.ResultEvicted {
		d.reportEviction(record)
	}
	if action.Result == lifecycle.ResultSuperseded {
		d.pauses.countSupersession(record)
	}
	if len(rows) > 0 && d.coolsDown(record, action) {
		d.cooldownFrom = &metav1.Time{Time: d.view.Now}
	}
}

// coolsDown reports whether the workload's cooldown begins with the end of a record that changed its pod.
func (d *watcher) coolsDown(record v1alpha1.ResizeRecord, action lifecycle.Action) bool {
	birth := record.Wave == resize.WaveReboost || record.Wave == resize.WaveBoost && action.Result == lifecycle.ResultSuccess
	backedOff := d.backoff != nil && !action.Keep
	return !birth && (!d.view.ByNode() || backedOff) && !d.createdSince(record, action) && lifecycle.CoolsDown(record, action, d.view.Policy.Settings.Resize)
}

// createdSince reports whether a verified resize began in a cooldown, on a pod that is younger than that cooldown. It
// does not extend it: a workload whose new pods are not sized at admission, and are resized to the size of the last step
// as they come, would never make its next step.
func (d *watcher) createdSince(record v1alpha1.ResizeRecord, action lifecycle.Action) bool {
	pod, begun := d.view.Pod(record.PodUID), ptr.Deref(record.Begun, record.WrittenAt)
	return action.Keep && pod != nil && d.backoff == nil && d.cooldownFrom != nil && pod.CreationTimestamp.After(d.cooldownFrom.Time) &&
		resize.CooldownLeft(d.cooldownFrom, nil, d.view.Policy.Settings.Resize, begun.Time) > 0
}

// collectRestorableRaises collects raises whose memory may be restored: the observation has ended, or the restore was
// never sent.
func (d *watcher) collectRestorableRaises(record v1alpha1.ResizeRecord, action lifecycle.Action) {
	ended := record.Reason == resize.ReasonClimb && action.Result == lifecycle.ResultSuccess
	if ended || record.Wave == resize.WaveSpike && action.Reason == resize.ReasonNotSent {
		d.raised = append(d.raised, record)
	}
}

// reportMissingChecks reports the checks that could not be made at the end of an observation without regression, such
// as a query that was not answered.
func (d *watcher) reportMissingChecks(record v1alpha1.ResizeRecord, action lifecycle.Action) {
	if action.Result == lifecycle.ResultSuccess && action.Message != "" {
		kind := event.Normal
		if action.Alert {
			kind = event.Warning
		}
		d.reports.addRecordEvent(record, kind(v1alpha1.EventResized, "Observation of pod %s ended: %s", record.PodName, action.Message))
	}
}
