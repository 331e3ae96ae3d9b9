package policy

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/measure"
	"attune.io/attune/internal/workload"
)

// byPolicy indexes recommendations by the name of their policy.
const byPolicy = "spec.policy.name"

// debounce gathers the events of a moment, such as a rollout's, into one look at a policy: each is a look at all of
// its workloads.
const debounce = 2 * time.Second

// queue of policies to look at.
type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Register adds the loop to a manager. Each value on fresh names a namespace with new usage data
// or changed VerticalPodAutoscalers; "" stands for every one.
func (c *Controller) Register(mgr ctrl.Manager, fresh <-chan event.TypedGenericEvent[string]) error {
	err := mgr.GetFieldIndexer().IndexField(context.Background(), &v1alpha1.AttuneRecommendation{}, byPolicy,
		func(o client.Object) []string { return []string{o.(*v1alpha1.AttuneRecommendation).Spec.Policy.Name} })
	if err != nil {
		return err
	}
	exposed.Store(&c.published)
	inNamespace := handler.EnqueueRequestsFromMapFunc(c.policiesIn)
	b := ctrl.NewControllerManagedBy(mgr).Named("policy").
		For(&v1alpha1.AttunePolicy{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.AttunePolicy{}, inNamespace, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.AttuneDefaults{}, handler.EnqueueRequestsFromMapFunc(c.policiesIn), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.AttuneNamespaceDefaults{}, inNamespace, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha1.AttuneRecommendation{}, later(policyOf), builder.WithPredicates(statusChanged())).
		WatchesRawSource(source.TypedChannel(fresh, handler.TypedEnqueueRequestsFromMapFunc(
			func(ctx context.Context, namespace string) []reconcile.Request { return c.policiesOf(ctx, namespace) })))
	b = b.Watches(&autoscalingv2.HorizontalPodAutoscaler{}, later(c.policiesIn), builder.WithPredicates(specChanged()))
	for _, w := range []client.Object{
		&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &appsv1.ReplicaSet{}, &batchv1.Job{}, &batchv1.CronJob{},
	} {
		b = b.Watches(w, later(c.policiesIn), builder.WithPredicates(workloadChanged(), whole()))
	}
	return b.Complete(measure.Reconciler("policy", c))
}

// later looks at policies a moment after the event.
func later(policies handler.MapFunc) handler.EventHandler {
	add := func(ctx context.Context, q queue, o client.Object) {
		for _, request := range policies(ctx, o) {
			q.AddAfter(request, debounce)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) { add(ctx, q, e.Object) },
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { add(ctx, q, e.ObjectNew) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) { add(ctx, q, e.Object) },
	}
}

// policiesIn enqueues every policy of an object's namespace, or of the cluster.
func (c *Controller) policiesIn(ctx context.Context, o client.Object) []reconcile.Request {
	return c.policiesOf(ctx, o.GetNamespace())
}

func (c *Controller) policiesOf(ctx context.Context, namespace string) []reconcile.Request {
	list := &v1alpha1.AttunePolicyList{}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

func policyOf(_ context.Context, o client.Object) []reconcile.Request {
	rec := o.(*v1alpha1.AttuneRecommendation)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: rec.Namespace, Name: rec.Spec.Policy.Name}}}
}

// statusChanged passes updates of the workload loop's half, which the policy's status repeats, and
// deletions, which are made good.
func statusChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*v1alpha1.AttuneRecommendation), e.ObjectNew.(*v1alpha1.AttuneRecommendation)
			return !equality.Semantic.DeepEqual(before.Status, after.Status)
		},
	}
}

// specChanged passes HPAs whose spec changed. Their status moves every 15 s, and not every version of
// Kubernetes gives them a generation.
func specChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*autoscalingv2.HorizontalPodAutoscaler), e.ObjectNew.(*autoscalingv2.HorizontalPodAutoscaler)
			return !equality.Semantic.DeepEqual(before.Spec, after.Spec)
		},
	}
}

// workloadChanged passes what recommendations depend on: the spec (replicas, template), labels and
// annotations; not the status, which moves with every pod.
func workloadChanged() predicate.Predicate {
	return predicate.Or[client.Object](predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{})
}

// whole leaves out what is a part of another workload, such as a CronJob's Job: no policy looks at it.
func whole() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		w, ok := workload.From(o)
		return !ok || !w.Part()
	})
}
