// Package loop has the parts that the control loops share:
//   - Watch: an event source of a loop, as data. A manager (Add) and tests wire the loop in the same way.
//   - Fair: a work queue in which no namespace blocks the others (fair.go).
//   - Measured: metrics of a loop: duration and errors.
//   - Every: the rounds of loops that run at an interval instead of by events.
//
// An event passes Watch.When, is mapped to names by Watch.Map, waits for Watch.After, and enters the queue; a worker
// takes the name and calls Reconcile. The package knows nothing about policies, workloads or nodes. Start reading with
// Watch.
package loop

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// Queue is the work queue of a loop: names of objects to reconcile.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Watch is one kind of event that triggers a reconcile.
type Watch struct {
	// Object is an empty object of the kind to watch.
	Object client.Object
	// Map returns the names to reconcile for an object. nil means the object itself, of the kind that the loop
	// reconciles; exactly one Watch of a loop has no Map.
	Map handler.MapFunc
	// When passes the relevant events; nil passes all of them.
	When predicate.Predicate
	// After delays the reconcile, so that many events at the same time, such as a rollout, cause one reconcile. 0 means
	// no delay.
	After time.Duration
	// Urgent selects updates that take precedence in a queue with priorities; nil selects no update. It has no effect
	// together with a nil Map. After has no effect together with Urgent.
	Urgent func(before, after client.Object) bool
}

// urgently is the priority of an urgent reconcile. Others have 0; controller-runtime gives less to the reconciles after
// a start (handler.LowPriority).
const urgently = 100

// Handler returns the event handler that adds the names of an event to the queue.
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

// ahead handles events without a delay and gives urgent updates a priority. An update enqueues the names of the old and
// the new object, because a pod may have changed its owner.
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

// Predicate returns the filter of the watch. It passes every event if When is nil.
func (w Watch) Predicate() predicate.Predicate {
	if w.When == nil {
		return predicate.Funcs{}
	}
	return w.When
}

// later adds names to the queue after a delay. For an update it uses only the new object.
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

// Debounce is the Watch.After that joins simultaneous events, such as a rollout's, into one reconcile.
const Debounce = 2 * time.Second

// Add adds a loop to a manager: its reconciler, measured under its name, its watches, a source for other loops (told),
// and the options of its queue.
func Add(mgr ctrl.Manager, name string, of reconcile.Reconciler, watches []Watch, told source.Source, options controller.Options) error {
	b := ctrl.NewControllerManagedBy(mgr).Named(name).WithOptions(options).WatchesRawSource(told)
	for _, w := range watches {
		if w.Map == nil {
			b = b.For(w.Object, builder.WithPredicates(w.Predicate()))
		} else {
			b = b.Watches(w.Object, w.Handler(), builder.WithPredicates(w.Predicate()))
		}
	}
	return b.Complete(Measured(name, of))
}

// Show registers a collector's metrics. It replaces an earlier collector with the same descriptions.
func Show(c prometheus.Collector) {
	metrics.Registry.Unregister(c)
	metrics.Registry.MustRegister(c)
}

// Index is an index of the cache that a loop lists objects by.
type Index struct {
	// Object is an empty object of the indexed kind.
	Object client.Object
	// Field is the name of the index, as client.MatchingFields uses it.
	Field string
	// Of returns the index values of an object.
	Of client.IndexerFunc
}

// Register adds indexes to a cache. Call it before the cache starts. It returns the first error, for example if an
// index exists already.
func Register(ctx context.Context, with client.FieldIndexer, indexes []Index) error {
	for _, i := range indexes {
		if err := with.IndexField(ctx, i.Object, i.Field, i.Of); err != nil {
			return err
		}
	}
	return nil
}

// Every yields the start of each round: the first at once, then one per tick of the interval, until the context ends or
// the caller leaves the range loop. Rounds never overlap. If ticks pass during a round, the next round starts at once,
// and the other ticks are lost. The ticker stops with the range loop.
func Every(ctx context.Context, c clock.WithTicker, interval time.Duration) iter.Seq[time.Time] {
	return func(round func(time.Time) bool) {
		ticker := c.NewTicker(interval)
		defer ticker.Stop()
		for round(c.Now()) {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
			}
		}
	}
}

// RequestsFor returns a request for each object of a list.
func RequestsFor[T any, P interface {
	*T
	client.Object
}](items []T) []reconcile.Request {
	out := make([]reconcile.Request, 0, len(items))
	for i := range items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(P(&items[i]))})
	}
	return out
}

// ScalingChanged passes updates that change the spec of an HPA, or its annotations: of these the cache keeps only the ones
// about its target (autoscale.Marks).
func ScalingChanged() predicate.Predicate {
	return Updated(func(before, after *autoscalingv2.HorizontalPodAutoscaler) bool {
		return !equality.Semantic.DeepEqual(before.Spec, after.Spec) || !maps.Equal(before.Annotations, after.Annotations)
	})
}

// Updated passes creations, deletions, and the updates for which changed returns true.
func Updated[T client.Object](changed func(before, after T) bool) predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return changed(e.ObjectOld.(T), e.ObjectNew.(T))
	}}
}

// Locked returns the change of an object since before as a patch. It fails with a conflict if the object has changed in
// the meantime.
func Locked(before client.Object) client.Patch {
	return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
}

// Guard adds or removes a finalizer with a patch that fails with a conflict if the object has changed in the meantime.
// It reports whether it sent a patch. A deleted object is not an error.
func Guard(ctx context.Context, to client.Writer, o client.Object, finalizer string, wanted bool) (changed bool, err error) {
	if controllerutil.ContainsFinalizer(o, finalizer) == wanted {
		return false, nil
	}
	before := o.DeepCopyObject().(client.Object)
	if wanted {
		controllerutil.AddFinalizer(o, finalizer)
	} else {
		controllerutil.RemoveFinalizer(o, finalizer)
	}
	return true, client.IgnoreNotFound(to.Patch(ctx, o, Locked(before)))
}

// Served lists the resources that an API server serves in a group version. Discovery clients implement it.
type Served interface {
	ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error)
}

// Serves reports whether the API server serves a resource, or a subresource such as pods/resize. An error means that it
// did not answer.
func Serves(api Served, of schema.GroupVersionResource) (bool, error) {
	list, err := api.ServerResourcesForGroupVersion(of.GroupVersion().String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("querying the API server for %s: %w", of.GroupVersion(), err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == of.Resource }), nil
}

var (
	duration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "attune_reconcile_duration_seconds",
		Help:    "Time in seconds of one reconcile, by controller: policy, workload, node.",
		Buckets: []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 120},
	}, []string{"controller"})
	failures = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_reconcile_errors_total",
		Help: "Number of reconciles that ended with an error and are retried, by error_type: the API server's reason, such as Conflict or Forbidden, Unreachable (no answer), or Other.",
	}, []string{"error_type"})
)

func init() { metrics.Registry.MustRegister(duration, failures) }

// Measured wraps a reconciler and measures how long each reconcile takes and which type of error ends it. loop is the
// label of the metric. Results and errors pass through unchanged.
func Measured(loop string, of reconcile.Reconciler) reconcile.Reconciler {
	took := duration.WithLabelValues(loop)
	return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		began := time.Now()
		result, err := of.Reconcile(ctx, req)
		took.Observe(time.Since(began).Seconds())
		if err != nil {
			failures.WithLabelValues(errorType(err)).Inc()
			return reconcile.Result{}, err // controller-runtime ignores a result beside an error, and logs a warning about it
		}
		return result, nil
	})
}

// knownReasons are the reasons that may become label values. Other texts may not: a proxy in front of the API server
// may answer with any text, and each text would be a new series.
var knownReasons = map[metav1.StatusReason]bool{
	metav1.StatusReasonUnauthorized: true, metav1.StatusReasonForbidden: true, metav1.StatusReasonNotFound: true,
	metav1.StatusReasonAlreadyExists: true, metav1.StatusReasonConflict: true, metav1.StatusReasonGone: true,
	metav1.StatusReasonInvalid: true, metav1.StatusReasonServerTimeout: true, metav1.StatusReasonTimeout: true,
	metav1.StatusReasonTooManyRequests: true, metav1.StatusReasonBadRequest: true, metav1.StatusReasonMethodNotAllowed: true,
	metav1.StatusReasonRequestEntityTooLarge: true, metav1.StatusReasonInternalError: true,
	metav1.StatusReasonExpired: true, metav1.StatusReasonServiceUnavailable: true,
}

// errorType returns a label value for an error; the API server's reason takes precedence.
func errorType(err error) string {
	if reason := apierrors.ReasonForError(err); knownReasons[reason] {
		return string(reason)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return string(metav1.StatusReasonTimeout)
	case errors.As(err, new(net.Error)):
		return "Unreachable"
	}
	return "Other"
}
