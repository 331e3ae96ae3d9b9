package tuning

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/resize/withdraw"
)

// Decision is the result of one reconcile, as plain data. The loop stores Status first, then sends Writes and asks
// for Evictions, then sends Events. The loop does not carry out a Decision with Unknowns; it calls Decide again with
// the answers.
type Decision struct {
	// Status is the whole new status of the AttuneRecommendation. If it equals the stored one, the loop writes
	// nothing.
	Status v1alpha1.AttuneRecommendationStatus
	// Writes are the patches of the resize subresource, in the order in which they are sent. Each has a record in
	// Status.
	Writes []Write
	// Evictions are pods to evict now. Each has a record in Status.
	Evictions []*corev1.Pod
	// EvictionOutcomes are the results of evictions of earlier reconciles, for the metrics.
	EvictionOutcomes []lifecycle.EvictionOutcome
	// Events are shown by kubectl describe. The loop sends them only after Status is stored.
	Events []Event
	// Counts are the metric increments of this reconcile.
	Counts []Count

	// Unknowns are inputs that were not read yet. The loop reads them before it carries out the decision.
	Unknowns Unknowns
	// Lessons are node limitations that records show, such as a kubelet that does not carry out resizes.
	Lessons []Lesson
	// Topics are the objects outside of the workload whose change may lift a refusal. Such a change triggers a
	// reconcile.
	Topics []Topic
	// Pending has one sentence for each pod whose revert or restore is not complete. The first becomes the condition
	// Degraded.
	Pending []string
	// ByNode is input of the node loop (strategy Node); zero under other strategies.
	ByNode NodeNews

	// Deletions are the young pods that were deleted, for the next reconcile (PastView.Deletions).
	Deletions withdraw.Deletions

	// Due reports that the loop must store a change of a record in this reconcile. Otherwise it may delay the write
	// (pace).
	Due bool
	// After is when to reconcile again if no event comes before; 0: only after an event.
	After time.Duration
}

// NodeNews is what a reconcile reports to the node loop (strategy Node). The maps are keyed by pod uid; nil: the
// reconcile ended before it filled them.
type NodeNews struct {
	// Held are the pods whose size must not change now, with the reason. The node loop keeps their sizes (frozen) and
	// shares the rest.
	Held map[types.UID]string
	// NotEvictable are the pods that must not be evicted even if they do not fit, with the reason.
	NotEvictable map[types.UID]string
	// WaitingSince is since when each waiting pod waits for its resize.
	WaitingSince map[types.UID]time.Time
}

// Event is an event about a pod, or about the workload if Pod is empty.
type Event struct {
	event.Event
	// Pod is the uid of the pod; empty: the event is about the workload.
	Pod types.UID
	// Name is the name of the pod, which may be deleted.
	Name string
	// OnWorkload sends the event also to the workload's own object.
	OnWorkload bool
}

// Write is one resize. The loop stores its record before it sends the patch.
type Write struct {
	// Pod is the pod that was planned for. The patch contains its uid, and its resourceVersion if it lowers anything.
	Pod *corev1.Pod
	// Plan is what the patch changes. If a resize needs two patches, it is the part that is sent now.
	Plan resize.Plan
	// Begins reports a new resize that is neither urgent (resize.Plan) nor a restore while attune is stopped
	// (resize.WaveRestore). Only such writes count against the operator's rate limit.
	Begins bool
}

// Lesson is a node limitation that one record shows. It binds only its own namespace until a second namespace has met
// the same, so that users of one namespace cannot block a node for others.
type Lesson struct {
	// Namespace is the namespace of the record's workload.
	Namespace string
	// Record is the resize that the node did not carry out.
	Record v1alpha1.ResizeRecord
	// Reason is the machine-readable cause. Message is the text of the kubelet or the API server.
	Reason, Message string
}

// Begins returns how many writes count against the operator's rate limit (Write.Begins).
func (d Decision) Begins() int {
	return len(slices.DeleteFunc(slices.Clone(d.Writes), func(w Write) bool { return !w.Begins }))
}

// Wake asks for another reconcile after a duration. The shortest one counts; 0 and less change nothing.
func (d *Decision) Wake(after time.Duration) {
	d.After = Soonest(d.After, after)
}

// Soonest returns the shorter of two durations. 0 and less mean no duration.
func Soonest(a, b time.Duration) time.Duration {
	if b > 0 && (a <= 0 || b < a) {
		return b
	}
	return a
}

// Presses reports a decision that the loop must carry out before the rest of the reconcile: it sends a patch, or it
// has learned from a kill or a failed creation. The rest of a reconcile may query a usage source, which can take 10
// seconds.
func (d Decision) Presses(v View) bool {
	before := v.Rec.Status
	return len(d.Writes) > 0 || !equality.Semantic.DeepEqual(d.Status.Floors, before.Floors) || !slices.Equal(d.Status.BadSeeds, before.BadSeeds) ||
		!equality.Semantic.DeepEqual(d.Status.FailedStarts, before.FailedStarts) || !equality.Semantic.DeepEqual(d.Status.AdmissionWithdrawn, before.AdmissionWithdrawn)
}

// Count is one metric increment, decided as data and applied by the workload loop. Its fields select the metric:
//   - Took > 0: one observation of attune_resize_duration_seconds.
//   - Raise: one increment of attune_memory_raises_total.
//   - Resource empty: one increment of attune_reverts_total with Reason.
//   - otherwise: one increment of attune_resize_total with Resource and Result.
type Count struct {
	// Resource is cpu or memory. Result is success, failed or reverted. Reason is the kind of regression.
	Resource, Result, Reason string
	// Raise is the result of a raise before an OOM kill; empty: not a raise.
	Raise string
	// Took is the time from the decision until the pod was verified to have its size; 0: not a duration.
	Took time.Duration
}

// tookOf returns the duration of a resize that was just verified, as at most one Count; nil: the record was not
// verified, or the clock went backwards.
func tookOf(record v1alpha1.ResizeRecord) []Count {
	if record.VerifiedOnce == nil || !record.VerifiedOnce.After(record.WrittenAt.Time) {
		return nil
	}
	return []Count{{Took: record.VerifiedOnce.Sub(record.WrittenAt.Time)}}
}

// endOf returns the result under which the end of a record is counted; empty: not counted here. A revert after a
// regression is counted when it begins (learnFromRegression). The end of an undo is not a failure.
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

// countsOf returns one Count per changed resource, sorted, one for a raise before an OOM kill or its restore, and one
// for the regression if reason is not empty.
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
	if raise := raiseOf(result, record); raise != "" {
		out = append(out, Count{Raise: raise})
	}
	if reason != "" {
		out = append(out, Count{Reason: reason})
	}
	return out
}

// raiseOf returns the result under which a raise before an OOM kill is counted. It is empty if the record is neither
// a raise nor its restore, and for a restore that failed: the container then keeps the raise.
func raiseOf(result string, record v1alpha1.ResizeRecord) string {
	switch {
	case record.Reason == resize.ReasonClimb && result == countSuccess:
		return countRaised
	case record.Reason == resize.ReasonClimb:
		return result
	case record.Wave == resize.WaveSpike && result == countSuccess:
		return countRestored
	}
	return ""
}

// Values of the label result of attune_resize_total and attune_memory_raises_total.
const (
	countRaised   = "raised"
	countRestored = "restored"

	countSuccess  = "success"
	countFailed   = "failed"
	countReverted = "reverted"
)
