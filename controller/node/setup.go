package node

import (
	"context"

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
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
)

// Register adds the loop to a manager. Each value on held names a recommendation whose pods became blocked or
// unblocked. The loop lists pods with the workload loop's index by node, so the workload loop must be registered too.
func (c *Controller) Register(mgr ctrl.Manager, held <-chan event.TypedGenericEvent[types.NamespacedName]) error {
	told := source.TypedChannel(held, handler.TypedFuncs[types.NamespacedName, reconcile.Request]{
		GenericFunc: func(ctx context.Context, e event.TypedGenericEvent[types.NamespacedName], q loop.Queue) {
			c.Held(ctx, e.Object, q)
		},
	})
	return loop.Add(mgr, "node", c, c.Watches(), told, Options())
}

// Options returns the options of the loop's queue: 4 workers, without fairness between namespaces, because a node has
// none.
func Options() controller.Options { return controller.Options{MaxConcurrentReconciles: 4} }

// Watches returns the loop's watches. Tests use the same list to play a manager.
func (c *Controller) Watches() []loop.Watch {
	return []loop.Watch{
		{Object: &corev1.Node{}, When: loop.Updated(func(before, after *corev1.Node) bool {
			return !equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
		})},
		{Object: &corev1.Pod{}, Map: onNode, When: podChanged(), After: loop.Debounce},
		{Object: &v1alpha1.AttuneRecommendation{}, Map: c.nodesOf, When: demandChanged(), After: loop.Debounce},
	}
}

// Held wakes the loop for the nodes of a recommendation whose pods became blocked or unblocked. It does nothing if
// the recommendation cannot be read.
func (c *Controller) Held(ctx context.Context, name types.NamespacedName, q loop.Queue) {
	rec := &v1alpha1.AttuneRecommendation{}
	if c.Client.Get(ctx, name, rec) != nil {
		return
	}
	for _, request := range c.nodesOf(ctx, rec) {
		q.AddAfter(request, loop.Debounce)
	}
}

// onNode returns the node that a pod is bound to; nil: it is not bound yet.
func onNode(_ context.Context, o client.Object) []reconcile.Request {
	if o.(*corev1.Pod).Spec.NodeName == "" {
		return nil
	}
	return []reconcile.Request{requestFor(o.(*corev1.Pod).Spec.NodeName)}
}

// requestFor is the request for a node, which has no namespace.
func requestFor(node string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: node}}
}

// nodesOf returns the nodes on which the pods of a recommendation's workload run, each once.
func (c *Controller) nodesOf(ctx context.Context, o client.Object) []reconcile.Request {
	rec := o.(*v1alpha1.AttuneRecommendation)
	pods, err := lookup.Pods(ctx, c.Client, workload.IdentityOf(rec))
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

// podChanged passes pods that were bound, deleted, resized or started, or whose containers restarted (for example
// after an OOM kill).
func podChanged() predicate.Predicate {
	return loop.Updated(func(before, after *corev1.Pod) bool {
		return before.Spec.NodeName != after.Spec.NodeName || before.Generation != after.Generation ||
			before.Status.Phase != after.Status.Phase || before.Status.QOSClass != after.Status.QOSClass ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			resize.Footprint(before) != resize.Footprint(after) || restarts(before) != restarts(after)
	})
}

// restarts sums the restart counts of the pod's regular containers.
func restarts(pod *corev1.Pod) (n int32) {
	for i := range pod.Status.ContainerStatuses {
		n += pod.Status.ContainerStatuses[i].RestartCount
	}
	return n
}

// demandChanged passes recommendations of the strategy Node whose demands changed, or whose pods may be changed under
// other conditions (number of records, floors). It also passes changes of the strategy, in both directions.
func demandChanged() predicate.Predicate {
	byNode := func(o client.Object) bool {
		return o.(*v1alpha1.AttuneRecommendation).Spec.Strategy == v1alpha1.StrategyNode
	}
	p := predicate.NewPredicateFuncs(byNode)
	p.UpdateFunc = loop.Updated(func(before, after *v1alpha1.AttuneRecommendation) bool {
		return (byNode(before) || byNode(after)) &&
			(before.Generation != after.Generation || len(before.Status.Records) != len(after.Status.Records) ||
				!equality.Semantic.DeepEqual(before.Status.Floors, after.Status.Floors))
	}).UpdateFunc
	return p
}
