package policy

import (
	"context"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
)

// byPolicy indexes recommendations by the name of their policy.
const byPolicy = "spec.policy.name"

// debounce gathers the events of a moment, such as a rollout's, into one look at a policy: each is a look at all of
// its workloads.
const debounce = 2 * time.Second

// Register adds the loop to a manager. Each value on newData names a namespace with new usage data
// or changed VerticalPodAutoscalers; "" stands for every one.
func (c *Controller) Register(mgr ctrl.Manager, newData <-chan event.TypedGenericEvent[string]) error {
	if err := loop.Register(context.Background(), mgr.GetFieldIndexer(), Indexes()); err != nil {
		return err
	}
	exposed.Store(&c.published)
	return loop.Build(mgr, "policy", c.Watches()).
		WatchesRawSource(source.TypedChannel(newData, handler.TypedEnqueueRequestsFromMapFunc(c.InNamespace))).
		WithOptions(Options()).
		Complete(loop.Measured("policy", c))
}

// Options of the loop's queue. One worker at a time looks at a namespace's policies: they write the same
// recommendations where a workload changes hands, and no namespace keeps the others waiting.
func Options() controller.Options {
	const workers = 4
	return controller.Options{MaxConcurrentReconciles: workers, NewQueue: loop.Fair(workers, 1)}
}

// Indexes that the loop lists by.
func Indexes() []loop.Index {
	return []loop.Index{{Object: &v1alpha1.AttuneRecommendation{}, Field: byPolicy, Of: func(o client.Object) []string {
		return []string{o.(*v1alpha1.AttuneRecommendation).Spec.Policy.Name}
	}}}
}

// Watches are what wakes the loop.
func (c *Controller) Watches() []loop.Watch {
	spec := predicate.GenerationChangedPredicate{}
	// Every policy of an object's namespace, or of the cluster.
	policiesIn := func(ctx context.Context, o client.Object) []reconcile.Request {
		return c.InNamespace(ctx, o.GetNamespace())
	}
	watches := []loop.Watch{
		{Object: &v1alpha1.AttunePolicy{}, When: spec},
		{Object: &v1alpha1.AttunePolicy{}, Map: policiesIn, When: spec},
		{Object: &v1alpha1.AttuneDefaults{}, Map: policiesIn, When: spec},
		{Object: &v1alpha1.AttuneNamespaceDefaults{}, Map: policiesIn, When: spec},
		{Object: owners.Namespace(), Map: func(ctx context.Context, o client.Object) []reconcile.Request { return c.InNamespace(ctx, o.GetName()) }, When: owners.BecomesTerminating()},
		{Object: &v1alpha1.AttuneRecommendation{}, Map: policyOf, When: statusChanged(), After: debounce},
		{Object: &v1alpha1.AttuneRecommendation{}, Map: gone(c.Client), When: first(), After: debounce},
		{Object: &autoscalingv2.HorizontalPodAutoscaler{}, Map: policiesIn, When: specChanged(), After: debounce},
	}
	for _, w := range []client.Object{
		&appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{}, &appsv1.ReplicaSet{}, &batchv1.Job{}, &batchv1.CronJob{},
	} {
		watches = append(watches, loop.Watch{Object: w, Map: policiesIn, When: predicate.And(workloadChanged(), whole()), After: debounce})
	}
	return watches
}

// InNamespace are the policies of a namespace that are used, and those beyond the bound that do not know it; "" stands
// for every namespace.
func (c *Controller) InNamespace(ctx context.Context, namespace string) []reconcile.Request {
	list := &v1alpha1.AttunePolicyList{}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	byNamespace := map[string][]v1alpha1.AttunePolicy{}
	for i := range list.Items {
		byNamespace[list.Items[i].Namespace] = append(byNamespace[list.Items[i].Namespace], list.Items[i])
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		used, beyond := policy.Used(byNamespace[namespace])
		for i := range beyond {
			if !knowsItIsLeftOut(&beyond[i]) {
				used = append(used, beyond[i])
			}
		}
		for i := range used {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&used[i])})
		}
	}
	return out
}

// gone looks at a policy that a recommendation names and that is not there: it was deleted while the operator was
// away, and its workloads are to be let go.
func gone(in client.Reader) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		requests := policyOf(ctx, o)
		err := in.Get(ctx, requests[0].NamespacedName, &v1alpha1.AttunePolicy{})
		if apierrors.IsNotFound(err) {
			return requests
		}
		return nil
	}
}

func policyOf(_ context.Context, o client.Object) []reconcile.Request {
	rec := o.(*v1alpha1.AttuneRecommendation)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: rec.Namespace, Name: rec.Spec.Policy.Name}}}
}

// statusChanged passes updates of what a policy reads of the workload loop's half, and deletions, which are made good.
func statusChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*v1alpha1.AttuneRecommendation), e.ObjectNew.(*v1alpha1.AttuneRecommendation)
			return !equality.Semantic.DeepEqual(readOf(before.Status), readOf(after.Status))
		},
	}
}

// first passes recommendations that are seen for the first time and still seeded or shown for.
func first() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return !released(e.Object.(*v1alpha1.AttuneRecommendation).Spec) },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// readOf is what a policy reads of a workload's status: of its records, how many there are, and of its phase, whether
// it cools down. How far each record is moves with every pod.
func readOf(status v1alpha1.AttuneRecommendationStatus) v1alpha1.AttuneRecommendationStatus {
	status.Records = make([]v1alpha1.ResizeRecord, len(status.Records))
	if status.Phase != v1alpha1.PhaseCooldown {
		status.Phase = ""
	}
	status.Pods, status.CooldownFrom, status.GoneSince = nil, nil, nil
	return status
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
