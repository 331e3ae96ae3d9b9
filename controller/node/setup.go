package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/measure"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
)

// debounce gathers the events of a moment, such as a rollout's, into one look at a node.
const debounce = 2 * time.Second

// queue of nodes to look at.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Register adds the loop to a manager. Each value on held names a recommendation whose pods are held otherwise
// than before. The index of pods by node is the workload loop's.
func (c *Controller) Register(mgr ctrl.Manager, held <-chan event.TypedGenericEvent[types.NamespacedName]) error {
	return ctrl.NewControllerManagedBy(mgr).Named("node").
		For(&corev1.Node{}, builder.WithPredicates(allocatableChanged())).
		Watches(&corev1.Pod{}, later(func(_ context.Context, o client.Object) []string { return onNode(o.(*corev1.Pod)) }), builder.WithPredicates(podChanged())).
		Watches(&v1alpha1.AttuneRecommendation{}, later(c.nodesOf), builder.WithPredicates(demandChanged())).
		WatchesRawSource(source.TypedChannel(held, handler.TypedFuncs[types.NamespacedName, reconcile.Request]{
			GenericFunc: func(ctx context.Context, e event.TypedGenericEvent[types.NamespacedName], q queue) {
				rec := &v1alpha1.AttuneRecommendation{}
				if c.Client.Get(ctx, e.Object, rec) == nil {
					add(q, c.nodesOf(ctx, rec))
				}
			},
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(measure.Reconciler("node", c))
}

// later looks at nodes a moment after the event.
func later(nodes func(context.Context, client.Object) []string) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(q, nodes(ctx, e.Object)) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { add(q, nodes(ctx, e.ObjectNew)) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(q, nodes(ctx, e.Object)) },
	}
}

func add(q queue, nodes []string) {
	for _, name := range nodes {
		q.AddAfter(reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}, debounce)
	}
}

func onNode(pod *corev1.Pod) []string {
	if pod.Spec.NodeName == "" {
		return nil
	}
	return []string{pod.Spec.NodeName}
}

// nodesOf are those that the pods of a recommendation's workload run on.
func (c *Controller) nodesOf(ctx context.Context, o client.Object) []string {
	rec := o.(*v1alpha1.AttuneRecommendation)
	id := workload.IdentityOf(rec)
	list := &corev1.PodList{}
	if err := c.Client.List(ctx, list, client.InNamespace(rec.Namespace), client.MatchingFields{workload.PodsByWorkload: id.String()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	seen := map[string]bool{}
	var names []string
	for i := range list.Items {
		if name := list.Items[i].Spec.NodeName; name != "" && !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// allocatableChanged passes nodes that have more or less to share, not their heartbeats.
func allocatableChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
		return !equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
	}}
}

// podChanged passes pods that are bound, gone, resized, started, or whose containers were restarted (an OOM kill).
func podChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
		return before.Spec.NodeName != after.Spec.NodeName || before.Generation != after.Generation ||
			before.Status.Phase != after.Status.Phase || before.Status.QOSClass != after.Status.QOSClass ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			resize.Footprint(before) != resize.Footprint(after) || restarts(before) != restarts(after)
	}}
}

func restarts(pod *corev1.Pod) (n int32) {
	for i := range pod.Status.ContainerStatuses {
		n += pod.Status.ContainerStatuses[i].RestartCount
	}
	return n
}

// demandChanged passes recommendations of the strategy Node that say something else of what their pods need, or of
// whether they may be changed.
func demandChanged() predicate.Predicate {
	byNode := func(o client.Object) bool {
		return o.(*v1alpha1.AttuneRecommendation).Spec.Strategy == v1alpha1.StrategyNode
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return byNode(e.Object) },
		DeleteFunc: func(e event.DeleteEvent) bool { return byNode(e.Object) },
		UpdateFunc: func(e event.UpdateEvent) bool {
			if !byNode(e.ObjectOld) && !byNode(e.ObjectNew) {
				return false
			}
			before, after := e.ObjectOld.(*v1alpha1.AttuneRecommendation), e.ObjectNew.(*v1alpha1.AttuneRecommendation)
			return before.Generation != after.Generation || len(before.Status.Records) != len(after.Status.Records) ||
				!equality.Semantic.DeepEqual(before.Status.Floors, after.Status.Floors)
		},
	}
}
