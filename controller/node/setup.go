package node

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
)

// debounce gathers the events of a moment, such as a rollout's, into one look at a node.
const debounce = 2 * time.Second

// Register adds the loop to a manager. Each value on held names a recommendation whose pods are held otherwise
// than before. The index of pods by node is the workload loop's.
func (c *Controller) Register(mgr ctrl.Manager, held <-chan event.TypedGenericEvent[types.NamespacedName]) error {
	return loop.Build(mgr, "node", c.Watches()).
		WatchesRawSource(source.TypedChannel(held, handler.TypedFuncs[types.NamespacedName, reconcile.Request]{
			GenericFunc: func(ctx context.Context, e event.TypedGenericEvent[types.NamespacedName], q loop.Queue) {
				c.Held(ctx, e.Object, q)
			},
		})).
		WithOptions(Options()).
		Complete(loop.Measured("node", c))
}

// Options of the loop's queue.
func Options() controller.Options { return controller.Options{MaxConcurrentReconciles: 4} }

// Watches are what wakes the loop.
func (c *Controller) Watches() []loop.Watch {
	return []loop.Watch{
		{Object: &corev1.Node{}, When: allocatableChanged()},
		{Object: &corev1.Pod{}, Map: onNode, When: podChanged(), After: debounce},
		{Object: &v1alpha1.AttuneRecommendation{}, Map: c.nodesOf, When: demandChanged(), After: debounce},
	}
}

// Held wakes the loop for the nodes of a recommendation whose pods are held otherwise than before.
func (c *Controller) Held(ctx context.Context, name types.NamespacedName, q loop.Queue) {
	rec := &v1alpha1.AttuneRecommendation{}
	if c.Client.Get(ctx, name, rec) != nil {
		return
	}
	for _, request := range c.nodesOf(ctx, rec) {
		q.AddAfter(request, debounce)
	}
}

func onNode(_ context.Context, o client.Object) []reconcile.Request {
	if o.(*corev1.Pod).Spec.NodeName == "" {
		return nil
	}
	return []reconcile.Request{requestFor(o.(*corev1.Pod).Spec.NodeName)}
}

func requestFor(node string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: node}}
}

// nodesOf are those that the pods of a recommendation's workload run on.
func (c *Controller) nodesOf(ctx context.Context, o client.Object) []reconcile.Request {
	rec := o.(*v1alpha1.AttuneRecommendation)
	pods, err := owners.Pods(ctx, c.Client, workload.IdentityOf(rec))
	if err != nil {
		return nil
	}
	seen := map[string]bool{}
	var requests []reconcile.Request
	for _, pod := range pods {
		if name := pod.Spec.NodeName; name != "" && !seen[name] {
			seen[name] = true
			requests = append(requests, requestFor(name))
		}
	}
	return requests
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
