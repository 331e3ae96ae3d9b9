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
)

// Decision is the result of one pass: plain data. The loop stores Status first, then sends Writes and asks
// for Evictions, then emits Events. A Decision with Unknowns is not carried out: Decide is called again
// with the answers.
type Decision struct {
	// Status is the whole new status of the AttuneRecommendation. It may equal the stored one: then
	// nothing is written.
	Status v1alpha1.AttuneRecommendationStatus
	// Writes are the patches of the resize subresource, in the order in which they are sent. Each has a
	// record in Status.
	Writes []Write
	// Evictions are pods to be evicted now; their records in Status say so.
	Evictions []*corev1.Pod
	// EvictionOutcomes are the results of evictions of earlier passes, for the metrics.
	EvictionOutcomes []lifecycle.EvictionOutcome
	// Events are what people read in kubectl describe. They are sent only after Status is stored.
	Events []Event
	// Counts are the metric increments of this pass.
	Counts []Count

	// Unknowns are what the decision rests on without having looked: it is not carried out before they are looked at.
	Unknowns Unknowns
	// Lessons are what records show about their nodes, such as a kubelet that does not carry out resizes.
	Lessons []Lesson
	// Topics are the objects outside of the workload whose change may lift a refusal. A change wakes the
	// workload.
	Topics []Topic
	// Pending has one sentence for each pod that should have its old size back and does not have it yet.
	// The first becomes the condition Degraded.
	Pending []string
	// ByNode is for the node loop (strategy Node); the zero value under the strategy Workload.
	ByNode NodeNews

	// Due reports that a record was taken a step that has to be stored in this pass. Otherwise the loop
	// may put the write off (pace).
	Due bool
	// After is when to look again if no event comes before; 0: only after an event.
	After time.Duration
}

// NodeNews is what a pass reports to the nodes of its pods (strategy Node). The maps are by pod uid; nil:
// the pass did not get so far.
type NodeNews struct {
	// Held are the pods whose size may not change now, with the reason. The node loop shares around them
	// (frozen).
	Held map[types.UID]string
	// NotEvictable are the pods that are not evicted even if they do not fit, with the reason.
	NotEvictable map[types.UID]string
	// WaitingSince is since when each waiting pod waits for its turn to be resized.
	WaitingSince map[types.UID]time.Time
}

// Event is an event about a pod, or about the workload as a whole where Pod is empty.
type Event struct {
	event.Event
	// Pod is the uid of the pod; empty: the event is about the workload.
	Pod types.UID
	// Name is the name of the pod, which may be gone.
	Name string
	// OnWorkload sends the event about the workload on its own object too.
	OnWorkload bool
}

// Write is one resize. Its record is stored before it is sent.
type Write struct {
	// Pod is the pod that the plan was made for. Its uid, and its version where something is lowered, go
	// into the patch.
	Pod *corev1.Pod
	// Plan is what the patch changes. Of a resize in two patches it is only the part that is sent now.
	Plan resize.Plan
	// Begins reports a resize that is new and answers no OOM kill. Only such writes count against the rate
	// of the whole operator.
	Begins bool
}

// Lesson is what one record of a namespace shows about its node. The namespace is kept because a lesson
// binds only its own namespace until a second one has met the same: users of one namespace must not be
// able to block a node for others.
type Lesson struct {
	// Namespace is that of the record's workload.
	Namespace string
	// Record is the resize that the node did not carry out.
	Record v1alpha1.ResizeRecord
	// Reason is the machine-readable cause, Message the kubelet's or the API server's words.
	Reason, Message string
}

// Begins counts the writes that are new and answer no OOM kill: the number of turns that the pass takes
// from the operator's rate limit.
func (d Decision) Begins() int {
	n := 0
	for _, w := range d.Writes {
		if w.Begins {
			n++
		}
	}
	return n
}

// Wake asks for another look after a duration. The shortest one counts; 0 and less change nothing.
func (d *Decision) Wake(after time.Duration) {
	if after > 0 && (d.After == 0 || after < d.After) {
		d.After = after
	}
}

// Presses reports a decision that must not wait for the rest of the pass: something is put back or
// completed on a pod, or a kill has taught something. The rest of a pass may ask a usage source, which can
// take 10 seconds.
func (d Decision) Presses(v View) bool {
	before := v.Rec.Status
	return len(d.Writes) > 0 || !equality.Semantic.DeepEqual(d.Status.Floors, before.Floors) || !slices.Equal(d.Status.BadSeeds, before.BadSeeds) ||
		!equality.Semantic.DeepEqual(d.Status.BirthCrashes, before.BirthCrashes) || !equality.Semantic.DeepEqual(d.Status.AdmissionWithdrawn, before.AdmissionWithdrawn)
}

// Count is one metric increment, decided as data and applied by the workload loop. Which metric it is
// follows from its fields:
//   - Took > 0: one observation of attune_resize_duration_seconds.
//   - Raise: one increment of attune_memory_raises_total.
//   - Resource empty: one increment of attune_reverts_total with Reason.
//   - otherwise: one increment of attune_resize_total with Resource and Result.
type Count struct {
	// Resource is cpu or memory, Result is success, failed or reverted, and Reason is the kind of harm.
	Resource, Result, Reason string
	// Raise is what became of a raise before an OOM kill; empty: it is none.
	Raise string
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

// countsOf returns one Count for each resource that a record moved, one for a raise before an OOM kill or its way back, and
// one for the harm where reason is not empty. The order is not fixed, as it comes from a map; counters do not depend on it.
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

// raiseOf returns how a result is counted of a raise before an OOM kill; empty: the record is no raise and no way back, or
// a way back that failed, after which the container keeps what it has.
func raiseOf(result string, record v1alpha1.ResizeRecord) string {
	switch {
	case record.Reason == resize.ReasonClimb && result == countSuccess:
		return countRaised
	case record.Reason == resize.ReasonClimb:
		return result
	case record.Wave == resize.WaveSpike && result == countSuccess:
		return countGivenBack
	}
	return ""
}

// Results of attune_resize_total, and of attune_memory_raises_total.
const (
	countRaised    = "raised"
	countGivenBack = "given_back"

	countSuccess  = "success"
	countFailed   = "failed"
	countReverted = "reverted"
)
