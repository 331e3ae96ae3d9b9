package main

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"attune.io/attune/internal/board"
)

// boards are where the loops meet: what one loop publishes and another one reads, and the queues with which loops
// wake each other. They replace imports between loops.
type boards struct {
	// grants is written by the node loop and read by the workload loop.
	grants *board.Grants
	// confirmed is written by the policy loop: until when stored targets hold. The workload loop reads it.
	confirmed *board.Confirmed
	// largest is written by the policy loop: the largest node that is known. Samples are judged by it.
	largest *board.Largest
	// newData wakes the policy loop for a namespace; "" means every namespace.
	newData news[string]
	// look wakes the workload loop for a recommendation, held wakes the node loop for the nodes of a
	// recommendation.
	look, held news[types.NamespacedName]
}

// newBoards makes the boards of one operator. Each is used by the loops that are added with it.
func newBoards() boards {
	return boards{
		grants: &board.Grants{}, confirmed: &board.Confirmed{}, largest: &board.Largest{},
		newData: newNews[string](), look: newNews[types.NamespacedName](), held: newNews[types.NamespacedName](),
	}
}

// news is a queue of names from one loop to another. A sender blocks while the queue is full (1024 names).
type news[T any] chan event.TypedGenericEvent[T]

// newNews makes a queue with room for 1024 names.
func newNews[T any]() news[T] { return make(news[T], 1024) }

// tell sends several names.
func (n news[T]) tell(names []T) {
	for _, name := range names {
		n.tellOne(name)
	}
}

// tellIfRoom sends a name, unless the queue is full. What is not sent is told again by whoever finds it anew.
func (n news[T]) tellIfRoom(name T) {
	select {
	case n <- event.TypedGenericEvent[T]{Object: name}:
	default:
	}
}

// tellOne sends a name. It blocks while the queue is full, until the receiving loop has taken one.
func (n news[T]) tellOne(name T) { n <- event.TypedGenericEvent[T]{Object: name} }
