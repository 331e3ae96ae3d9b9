package tuning

import (
	"maps"
	"slices"
	"strings"
	"time"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// Count is one metric increment, decided as data and applied by the workload loop. Which metric it is
// follows from its fields:
//   - Took > 0: one observation of attune_resize_duration_seconds.
//   - Resource empty: one increment of attune_reverts_total with Reason.
//   - otherwise: one increment of attune_resize_total with Resource and Result.
type Count struct {
	// Resource is cpu or memory, Result is success, failed or reverted, and Reason is the kind of harm.
	Resource, Result, Reason string
	// Took is the time from the decision until the pod was seen to have its size; 0: this is no duration.
	Took time.Duration
}

// tookOf returns how long a resize took that has just been verified, as at most one Count. It returns nil
// where the record has no verification or where the clock went backwards.
func tookOf(record v1alpha1.ResizeRecord) []Count {
	if record.VerifiedOnce == nil || !record.VerifiedOnce.After(record.WrittenAt.Time) {
		return nil
	}
	return []Count{{Took: record.VerifiedOnce.Sub(record.WrittenAt.Time)}}
}

// endOf returns how the end of a record is counted; empty: it is not counted here. A revert for harm is
// counted when it begins (watcher.harmed), and the end of what a person took back is no failure.
func endOf(record v1alpha1.ResizeRecord, action lifecycle.Action) string {
	actuation := record.Reason == resize.ReasonActuation
	switch {
	case action.Reason == v1alpha1.ReasonRevertPending:
		return countFailed
	case action.Result == lifecycle.ResultReverted && actuation:
		return countReverted
	case action.Result != lifecycle.ResultFailed && action.Result != lifecycle.ResultWithdrawn:
		return ""
	case record.Reason == lifecycle.ReasonUndo, record.Phase == v1alpha1.RecordReverting && !actuation:
		return ""
	}
	return countFailed
}

// countsOf returns one Count for each resource that a record moved, and one for the harm where reason is
// not empty. The order is not fixed, as it comes from a map; counters do not depend on it.
func countsOf(result string, record v1alpha1.ResizeRecord, reason string) []Count {
	moved := map[string]bool{}
	for _, row := range lifecycle.HistoryRows("", record, lifecycle.ResultSuccess, "", record.WrittenAt.Time) {
		for _, r := range strings.Split(row.Resource, "+") {
			moved[r] = true
		}
	}
	var out []Count
	for _, r := range slices.Sorted(maps.Keys(moved)) {
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
