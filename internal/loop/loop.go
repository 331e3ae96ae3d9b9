// Package loop has what the control loops have in common. It writes down what wakes a loop, so that whatever runs the
// loop wires it the same way: a manager, or a test that plays one. It measures what a loop does, has a queue in which no
// namespace keeps the others waiting, and the tick of the loops that look again and again.
package loop

import (
	"context"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue of what a loop has to look at.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Watch is one kind of event that wakes a loop.
type Watch struct {
	Object client.Object
	// Map names what to look at. Nil: the object itself, which is what the loop reconciles; one Watch of a loop has none.
	Map handler.MapFunc
	// When passes the events that matter. Nil: all of them.
	When predicate.Predicate
	// After gathers the events of a moment, such as a rollout's, into one look. 0: the look is due at once.
	After time.Duration
	// Urgent passes updates whose look goes ahead of the others in the queue, where the queue knows priorities. Nil: none.
	Urgent func(before, after client.Object) bool
}

// urgently is the priority of a look that goes ahead; that of the others is 0, or less after a start.
const urgently = 100

// Handler puts what an event names into the queue.
func (w Watch) Handler() handler.EventHandler {
	switch {
	case w.Map == nil:
		return &handler.EnqueueRequestForObject{}
	case w.Urgent != nil:
		return ahead(w.Map, w.Urgent)
	case w.After == 0:
		return handler.EnqueueRequestsFromMapFunc(w.Map)
	}
	return later(w.Map, w.After)
}

// ahead looks at once, and first after an urgent update.
func ahead(names handler.MapFunc, urgent func(before, after client.Object) bool) handler.EventHandler {
	plain := handler.EnqueueRequestsFromMapFunc(names)
	return handler.Funcs{
		CreateFunc: plain.Create, DeleteFunc: plain.Delete, GenericFunc: plain.Generic,
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q Queue) {
			first, knows := q.(priorityqueue.PriorityQueue[reconcile.Request])
			if !knows || !urgent(e.ObjectOld, e.ObjectNew) {
				plain.Update(ctx, e, q)
				return
			}
			first.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(urgently)}, append(names(ctx, e.ObjectOld), names(ctx, e.ObjectNew)...)...)
		},
	}
}

// Predicate of the watch.
func (w Watch) Predicate() predicate.Predicate {
	if w.When == nil {
		return predicate.Funcs{}
	}
	return w.When
}

// later looks a moment after the event, at what the object names now.
func later(names handler.MapFunc, after time.Duration) handler.EventHandler {
	add := func(ctx context.Context, q Queue, o client.Object) {
		for _, request := range names(ctx, o) {
			q.AddAfter(request, after)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q Queue) { add(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q Queue) { add(ctx, q, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q Queue) { add(ctx, q, e.Object) },
	}
}

// Build is a controller of a manager that the watches wake.
func Build(mgr ctrl.Manager, name string, watches []Watch) *ctrl.Builder {
	b := ctrl.NewControllerManagedBy(mgr).Named(name)
	for _, w := range watches {
		if w.Map == nil {
			b = b.For(w.Object, builder.WithPredicates(w.Predicate()))
		} else {
			b = b.Watches(w.Object, w.Handler(), builder.WithPredicates(w.Predicate()))
		}
	}
	return b
}

// Index is one that a loop lists by.
type Index struct {
	Object client.Object
	Field  string
	Of     client.IndexerFunc
}

// Register indexes with a cache.
func Register(ctx context.Context, with client.FieldIndexer, indexes []Index) error {
	for _, i := range indexes {
		if err := with.IndexField(ctx, i.Object, i.Field, i.Of); err != nil {
			return err
		}
	}
	return nil
}
