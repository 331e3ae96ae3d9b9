package tuning

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
)

// Decision is what one pass comes to: plain data. The loop stores the status, then sends the resizes and asks for the
// evictions, then emits the events.
type Decision struct {
	Status v1alpha1.AttuneRecommendationStatus
	Writes []Write
	// Evictions are pods whose records say that they are being evicted; EvictionOutcomes what became of others.
	Evictions        []*corev1.Pod
	EvictionOutcomes []resize.EvictionOutcome
	Events           []Event
	Counts           []Count

	// Unknowns are what the decision rests on without having looked: it is not carried out before they are looked at.
	Unknowns Unknowns
	// Lessons are what records say of their nodes.
	Lessons []Lesson
	// Topics are the changes outside of the workload that may lift a refusal.
	Topics []Topic
	// Pending are pods that are to have their old size back and do not get it, as sentences.
	Pending []string
	// ByNode is for the nodes of the pods (strategy Node).
	ByNode NodeNews

	// Due: a record was taken a step that is to be stored now.
	Due bool
	// After is when to look again if nothing happens before; 0: only when something does.
	After time.Duration
}

// NodeNews is what a pass says to the nodes of its pods (strategy Node).
type NodeNews struct {
	// Held are the pods that their nodes are to leave as they are, with the reason.
	Held map[types.UID]string
	// NotEvictable are the pods that are not evicted whatever their nodes want, with the reason.
	NotEvictable map[types.UID]string
	// WaitingSince is since when pods wait for their turn to be resized.
	WaitingSince map[types.UID]time.Time
}

// Event is about a pod, or about the workload as a whole where it names none.
type Event struct {
	event.Event
	Pod  types.UID
	Name string
}

// Write is one resize. Its record is stored before it is sent.
type Write struct {
	Pod  *corev1.Pod
	Plan resize.Plan
	// Begins: it is new and answers no OOM kill.
	Begins bool
}

// Lesson is what one record of a namespace says of its node.
type Lesson struct {
	Namespace       string
	Record          v1alpha1.ResizeRecord
	Reason, Message string
}

// Begins counts the writes that are new and answer no OOM kill.
func (d Decision) Begins() int {
	n := 0
	for _, w := range d.Writes {
		if w.Begins {
			n++
		}
	}
	return n
}

// Wake asks for another look after a while; the soonest counts.
func (d *Decision) Wake(after time.Duration) {
	if after > 0 && (d.After == 0 || after < d.After) {
		d.After = after
	}
}

// Presses: something is put back or completed on a pod, or a kill has taught something. Such a decision does not wait
// for the rest of the pass.
func (d Decision) Presses(v View) bool {
	before := v.Rec.Status
	return len(d.Writes) > 0 || !equality.Semantic.DeepEqual(d.Status.Floors, before.Floors) || !slices.Equal(d.Status.BadSeeds, before.BadSeeds) ||
		!equality.Semantic.DeepEqual(d.Status.BirthCrashes, before.BirthCrashes)
}
