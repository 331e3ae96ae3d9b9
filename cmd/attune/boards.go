package main

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"attune.io/attune/internal/board"
)

// boards are where the loops meet: what one of them knows and another one reads, and whom it wakes by it. No loop knows
// another one.
type boards struct {
	// grants of the node loop, for the workload loop.
	grants *board.Grants
	// confirmed by the policy loop: until when stored targets hold, for the workload loop.
	confirmed *board.Confirmed
	// newData names the namespaces that the policy loop is to look at; "" stands for every one.
	newData news[string]
	// look names the recommendations that the workload loop is to look at, held those whose nodes are.
	look, held news[types.NamespacedName]
}

func newBoards() boards {
	return boards{
		grants: &board.Grants{}, confirmed: &board.Confirmed{},
		newData: newNews[string](), look: newNews[types.NamespacedName](), held: newNews[types.NamespacedName](),
	}
}

// news names what another loop has news of. Who tells waits while the queue of it is full.
type news[T any] chan event.TypedGenericEvent[T]

func newNews[T any]() news[T] { return make(news[T], 1024) }

func (n news[T]) tell(names []T) {
	for _, name := range names {
		n.tellOne(name)
	}
}

func (n news[T]) tellOne(name T) { n <- event.TypedGenericEvent[T]{Object: name} }
