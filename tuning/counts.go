package tuning

import (
	"strings"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// Count is one increment, decided in data; one of a duration, where that is set.
type Count struct {
	Resource, Result, Reason string
	Took                     time.Duration
}

// tookOf is how long a resize took that has just been verified.
func tookOf(record v1alpha1.ResizeRecord) []Count {
	if record.VerifiedOnce == nil || !record.VerifiedOnce.After(record.WrittenAt.Time) {
		return nil
	}
	return []Count{{Took: record.VerifiedOnce.Sub(record.WrittenAt.Time)}}
}

// endOf is how the end of a record is counted. A revert for harm is counted when it begins, and the end of what a
// person took back is no failure: neither counts anything here (empty).
func endOf(record v1alpha1.ResizeRecord, action resize.Action) string {
	actuation := record.Reason == resize.ReasonActuation
	switch {
	case action.Reason == v1alpha1.ReasonRevertPending:
		return countFailed
	case action.Result == resize.ResultReverted && actuation:
		return countReverted
	case action.Result != resize.ResultFailed && action.Result != resize.ResultWithdrawn:
		return ""
	case record.Reason == resize.ReasonUndo, record.Phase == v1alpha1.RecordReverting && !actuation:
		return ""
	}
	return countFailed
}

// countsOf is one count for each resource that a record moved, and one of the harm that is the reason (empty: none).
func countsOf(result string, record v1alpha1.ResizeRecord, reason string) []Count {
	moved := map[string]bool{}
	for _, row := range resize.HistoryRows("", record, resize.ResultSuccess, "", record.WrittenAt.Time) {
		for _, r := range strings.Split(row.Resource, "+") {
			moved[r] = true
		}
	}
	var out []Count
	for r := range moved {
		out = append(out, Count{Resource: r, Result: result, Reason: reason})
	}
	if reason != "" {
		out = append(out, Count{Reason: reason})
	}
	return out
}

// Results of attune_resize_total.
const (
	countSuccess  = "success"
	countFailed   = "failed"
	countReverted = "reverted"
)
