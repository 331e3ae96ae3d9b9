package tuning

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// closing ends records.
type closing struct {
	*pass
	pauser   *pauser
	reverter *reverter
	// survivors are records whose pods were well to the end of their watch.
	survivors []v1alpha1.ResizeRecord
}

// putBackDone tells of a pod that was verified to have its original size.
func (d *closing) putBackDone(record v1alpha1.ResizeRecord) {
	for _, row := range resize.HistoryRows(d.view.Rec.Spec.Workload.Name, record, resize.ResultUndone, "", d.view.Now) {
		d.tellOf(record, putBack(record, row))
	}
	d.count(countSuccess, record, "")
}

// evicted tells of a pod that is gone because it was evicted.
func (d *closing) evicted(record v1alpha1.ResizeRecord) {
	if d.out.EvictionOutcomes = append(d.out.EvictionOutcomes, resize.EvictionGranted); resize.Leaving(record) {
		d.tellOf(record, evictedForRoom(record))
		return
	}
	for _, row := range resize.HistoryRows("", record, resize.ResultEvicted, "", d.view.Now) {
		d.tellOf(record, evictedForSize(record, row))
	}
}

// close ends a record: its rows go to the history, a survived size is kept.
func (d *closing) close(record v1alpha1.ResizeRecord, action resize.Action) {
	rows := resize.HistoryRows(d.view.Rec.Spec.Workload.Name, record, action.Result, action.Reason, d.view.Now)
	d.out.Status.History = resize.AddHistory(d.out.Status.History, rows)
	d.survived(record, action)
	if result := endOf(record, action); result != "" {
		d.count(result, record, "")
	}
	if action.Reason == v1alpha1.ReasonRevertPending {
		d.reverter.giveUp(record, action.Message)
	}
	if action.Keep {
		d.survivors = append(d.survivors, record)
	}
	if action.Result == resize.ResultUndone {
		d.putBackDone(record)
	}
	if action.Result == resize.ResultEvicted {
		d.evicted(record)
	}
	if action.Result == resize.ResultSuperseded {
		d.pauser.supersede(record)
	}
	birth := record.Wave == resize.WaveBoost && action.Result == resize.ResultSuccess
	backedOff := d.out.Status.Backoff != nil && !action.Keep
	if len(rows) > 0 && !birth && (!d.view.ByNode() || backedOff) && resize.CoolsDown(record, action, d.view.Policy.Settings.Resize) {
		d.out.Status.CooldownFrom = &metav1.Time{Time: d.view.Now}
	}
}

// survived tells what the end of a watch left open.
func (d *closing) survived(record v1alpha1.ResizeRecord, action resize.Action) {
	if action.Result == resize.ResultSuccess && action.Message != "" {
		d.tellOf(record, watchEnded(record, action.Alert, action.Message))
	}
}
