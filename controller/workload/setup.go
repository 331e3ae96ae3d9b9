package workload

import (
	"context"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	channel "sigs.k8s.io/controller-runtime/pkg/source"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/workload"
	"attune.io/attune/tuning"
)

// Names of the indexes: pods by their workload and by their node, recommendations by their policy.
const (
	byWorkload = workload.PodsByWorkload
	byNode     = workload.PodsByNode
	byPolicy   = "attune.policy"
)

// retryFirst and retryLast bound the delay after a look that failed. The bound is short: an outage of the
// API server should not be followed by a long silence.
const retryFirst, retryLast = 50 * time.Millisecond, 30 * time.Second

// Register adds the loop and its indexes to a manager. Each value on told names a recommendation that
// another loop has news of: the grants of its pods changed, or its targets hold again. It returns an error
// if an index or the controller cannot be added.
func (c *Controller) Register(mgr ctrl.Manager, told <-chan event.TypedGenericEvent[types.NamespacedName]) error {
	if err := loop.Register(context.Background(), mgr.GetFieldIndexer(), Indexes()); err != nil {
		return err
	}
	return loop.Build(mgr, "workload", c.Watches()).
		WatchesRawSource(channel.TypedChannel(told, handler.TypedEnqueueRequestsFromMapFunc(
			func(_ context.Context, name types.NamespacedName) []reconcile.Request {
				return []reconcile.Request{{NamespacedName: name}}
			}))).
		WithOptions(Options()).
		Complete(loop.Measured("workload", c))
}

// Options returns the options of the loop's queue: 8 workers, of which one namespace has at most half. A
// pass may wait for a server that the namespace's policies name; the other half stays for the other
// namespaces.
func Options() controller.Options {
	const workers = 8
	return controller.Options{
		MaxConcurrentReconciles: workers,
		NewQueue:                loop.Fair(workers, workers/2),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryLast),
	}
}

// Watches returns what wakes the loop. A test uses the same list to play a manager.
func (c *Controller) Watches() []loop.Watch {
	spec, wake := predicate.GenerationChangedPredicate{}, wakers{c}
	watches := []loop.Watch{
		{Object: &v1alpha1.AttuneRecommendation{}, When: recommendationChanged(&c.stored)},
		{Object: &corev1.Pod{}, Map: wake.recommendationOf, When: podChanged(), Urgent: podInTrouble},
		{Object: &corev1.Pod{}, Map: wake.waitingForRoom, When: roomFreed()},
		{Object: &corev1.Node{}, Map: wake.waitingForNode, When: nodeChanged(c.nodes.forget)},
		{Object: &corev1.ResourceQuota{}, Map: wake.waitingForQuotas, When: quotaChanged()},
		{Object: &corev1.LimitRange{}, Map: wake.waitingForLimits},
		{Object: &policyv1.PodDisruptionBudget{}, Map: wake.waitingForBudgets, When: budgetChanged()},
		{Object: &autoscalingv2.HorizontalPodAutoscaler{}, Map: scaled, When: scalingChanged()},
		{Object: &v1alpha1.AttunePolicy{}, Map: wake.recommendationsOfPolicy, When: spec},
		{Object: &v1alpha1.AttuneDefaults{}, Map: wake.recommendationsIn, When: spec},
		{Object: &v1alpha1.AttuneNamespaceDefaults{}, Map: wake.recommendationsIn, When: spec},
		{Object: owners.Namespace(), Map: func(ctx context.Context, o client.Object) []reconcile.Request {
			return wake.recommendations(ctx, client.InNamespace(o.GetName()))
		}, When: owners.BecomesTerminating()},
	}
	for _, kind := range workload.Kinds {
		watches = append(watches, loop.Watch{Object: workload.NewObject(kind).(client.Object), Map: itself, When: workloadChanged()})
	}
	return watches
}

// Indexes returns the indexes by which the loop lists objects.
func Indexes() []loop.Index {
	return []loop.Index{
		{Object: &corev1.Pod{}, Field: byWorkload, Of: workloadOf},
		{Object: &corev1.Pod{}, Field: byNode, Of: func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }},
		{Object: &v1alpha1.AttuneRecommendation{}, Field: byPolicy, Of: func(o client.Object) []string {
			return []string{o.(*v1alpha1.AttuneRecommendation).Spec.Policy.Name}
		}},
	}
}

func workloadOf(o client.Object) []string { return workload.IndexOf(o) }

// wakers map a changed object to the recommendations that it concerns.
type wakers struct{ *Controller }

// recommendationOf returns the recommendation of a pod's workload; nil: the pod has none.
func (c wakers) recommendationOf(_ context.Context, o client.Object) []reconcile.Request {
	id, ok := workload.OwnerOf(o, o.GetNamespace(), owners.Jobs{Reader: c.Client})
	if !ok {
		return nil
	}
	return requestFor(id)
}

func requestFor(id workload.Identity) []reconcile.Request {
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: id.Namespace, Name: id.RecommendationName()}}}
}

// itself returns the recommendation of a workload; a part of another workload (a CronJob's Job) has none.
func itself(_ context.Context, o client.Object) []reconcile.Request {
	w, ok := workload.From(o)
	if !ok || w.Part() {
		return nil
	}
	return requestFor(w.Identity)
}

// scaled returns the recommendation of the workload that an HPA scales.
func scaled(_ context.Context, o client.Object) []reconcile.Request {
	of := o.(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef
	return requestFor(workload.Identity{Kind: v1alpha1.WorkloadKind(of.Kind), Namespace: o.GetNamespace(), Name: of.Name})
}

func (c wakers) waitingForRoom(_ context.Context, o client.Object) []reconcile.Request {
	return c.waiting.wake(tuning.AboutNode(o.(*corev1.Pod).Spec.NodeName))
}

func (c wakers) waitingForNode(_ context.Context, o client.Object) []reconcile.Request {
	return c.waiting.wake(tuning.AboutNode(o.GetName()))
}

func (c wakers) waitingForQuotas(_ context.Context, o client.Object) []reconcile.Request {
	return c.waiting.wake(tuning.AboutQuotas(o.GetNamespace()))
}

func (c wakers) waitingForLimits(_ context.Context, o client.Object) []reconcile.Request {
	return c.waiting.wake(tuning.AboutLimits(o.GetNamespace()))
}

func (c wakers) waitingForBudgets(_ context.Context, o client.Object) []reconcile.Request {
	return c.waiting.wake(tuning.AboutBudgets(o.GetNamespace()))
}

func (c wakers) recommendationsOfPolicy(ctx context.Context, o client.Object) []reconcile.Request {
	return c.recommendations(ctx, client.InNamespace(o.GetNamespace()), client.MatchingFields{byPolicy: o.GetName()})
}

// recommendationsIn returns those of an object's namespace, and all of the cluster for an object without a
// namespace.
func (c wakers) recommendationsIn(ctx context.Context, o client.Object) []reconcile.Request {
	return c.recommendations(ctx, client.InNamespace(o.GetNamespace()))
}

// recommendations lists recommendations from the cache. On an error it wakes none: the next regular look
// finds the change.
func (c wakers) recommendations(ctx context.Context, which ...client.ListOption) []reconcile.Request {
	list := &v1alpha1.AttuneRecommendationList{}
	if err := c.Client.List(ctx, list, append(which, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}
