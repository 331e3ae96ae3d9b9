package policy

import (
	"context"
	"maps"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
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
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
)

// Register adds the loop to a manager, and registers its metrics. Each value on newData names a namespace with new
// usage data or changed VerticalPodAutoscalers; "" stands for all namespaces. The loop lists recommendations with the
// workload loop's index by policy, so the workload loop must be registered too.
func (c *Controller) Register(mgr ctrl.Manager, newData <-chan event.TypedGenericEvent[string]) error {
	loop.Show(&c.published)
	told := source.TypedChannel(newData, handler.TypedEnqueueRequestsFromMapFunc(c.InNamespace))
	return loop.Add(mgr, "policy", c, c.Watches(), told, Options())
}

// Options returns the options of the loop's queue: 4 workers, and one at a time for a namespace. Two policies of a
// namespace write the same recommendation when a workload moves from one to the other, and one namespace must not
// delay the others.
func Options() controller.Options {
	const workers = 4
	return controller.Options{MaxConcurrentReconciles: workers, NewQueue: loop.Fair(workers, 1)}
}

// Watches returns the loop's watches. A workload wakes all policies of its namespace, because another policy may size
// it after the change.
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
		{Object: lookup.Namespace(), Map: func(ctx context.Context, o client.Object) []reconcile.Request { return c.InNamespace(ctx, o.GetName()) }, When: lookup.BecomesTerminating()},
		{Object: &v1alpha1.AttuneRecommendation{}, Map: policyOf, When: statusChanged(), After: loop.Debounce},
		{Object: &v1alpha1.AttuneRecommendation{}, Map: c.gone, When: first(), After: loop.Debounce},
		{Object: &autoscalingv2.HorizontalPodAutoscaler{}, Map: policiesIn, When: loop.ScalingChanged(), After: loop.Debounce},
	}
	if c.Nodes.Reader != nil {
		watches = append(watches, loop.Watch{Object: &corev1.Node{}, Map: c.forgetNodes, When: nodesChanged()})
	}
	if c.Settings.Clusterwide {
		watches = append(watches,
			loop.Watch{Object: &v1alpha1.AttuneClusterPolicy{}, Map: c.everywhere, When: spec},
			loop.Watch{Object: lookup.Namespace(), Map: c.selecting, When: predicate.LabelChangedPredicate{}})
	}
	// Recommendations depend on the spec (replicas, template), labels and annotations of a workload. They do not
	// depend on the status, which changes with every pod.
	changed := predicate.And(predicate.Or[client.Object](spec, predicate.AnnotationChangedPredicate{}, predicate.LabelChangedPredicate{}), whole())
	for _, kind := range c.Sized.Kinds() {
		watches = append(watches, loop.Watch{Object: c.Sized.NewObject(kind), Map: policiesIn, When: changed, After: loop.Debounce})
	}
	return watches
}

// InNamespace returns the used policies of a namespace, including instances of cluster policies, and those beyond the
// limit whose status does not report that yet. "" stands for every namespace. After an error it returns nothing;
// resync compensates for that.
func (c *Controller) InNamespace(ctx context.Context, namespace string) []reconcile.Request {
	list := &v1alpha1.AttunePolicyList{}
	if err := c.Client.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	instances, err := c.Settings.Instances(ctx, namespace)
	if err != nil {
		return nil
	}
	byNamespace := map[string][]v1alpha1.AttunePolicy{}
	for i := range list.Items {
		byNamespace[list.Items[i].Namespace] = append(byNamespace[list.Items[i].Namespace], list.Items[i])
	}
	out := loop.RequestsFor(instances)
	for _, namespace := range slices.Sorted(maps.Keys(byNamespace)) {
		used, beyond := policy.Used(byNamespace[namespace])
		for i := range beyond {
			if !alreadyLeftOut(&beyond[i]) {
				used = append(used, beyond[i])
			}
		}
		out = append(out, loop.RequestsFor(used)...)
	}
	return out
}

// everywhere returns a cluster policy as a whole and in every namespace, because it may now select other namespaces.
// It also returns the other cluster policies, because the workloads that they size may change too.
func (c *Controller) everywhere(ctx context.Context, o client.Object) []reconcile.Request {
	out := []reconcile.Request{{NamespacedName: summaryOf(o.GetName())}}
	namespaces, err := c.Settings.Namespaces(ctx)
	if err != nil {
		return out
	}
	for i := range namespaces {
		key := types.NamespacedName{Namespace: namespaces[i].Name, Name: policy.InstanceName(o.GetName())}
		out = append(out, reconcile.Request{NamespacedName: key})
	}
	others, _ := c.Settings.Instances(ctx, "")
	own := func(p v1alpha1.AttunePolicy) bool { return p.Name == policy.InstanceName(o.GetName()) }
	return append(out, loop.RequestsFor(slices.DeleteFunc(others, own))...)
}

// selecting returns every cluster policy in a namespace whose labels changed: each may now select it, or not any
// more.
func (c *Controller) selecting(ctx context.Context, o client.Object) []reconcile.Request {
	used, beyond, err := c.Settings.ClusterPolicies(ctx)
	if err != nil {
		return nil
	}
	var out []reconcile.Request
	for _, p := range append(slices.Clip(used), beyond...) {
		key := types.NamespacedName{Namespace: o.GetName(), Name: policy.InstanceName(p.Name)}
		out = append(out, reconcile.Request{NamespacedName: key})
	}
	return out
}

// gone returns the policy that a recommendation names if that policy does not exist, or is a cluster policy that does
// not select the namespace. It was deleted while attune was not running, and its workloads must be released.
func (c *Controller) gone(ctx context.Context, o client.Object) []reconcile.Request {
	p, err := c.Settings.Of(ctx, o.(*v1alpha1.AttuneRecommendation))
	if apierrors.IsNotFound(err) || err == nil && policy.OfCluster(p) && p.DeletionTimestamp != nil {
		return policyOf(ctx, o)
	}
	return nil
}

// policyOf returns the policy that a recommendation names.
func policyOf(_ context.Context, o client.Object) []reconcile.Request {
	rec := o.(*v1alpha1.AttuneRecommendation)
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: rec.Namespace, Name: policy.NameOf(rec.Spec.Policy)}}}
}

// statusChanged passes updates of the status fields that a policy reads, and deletions, after which the
// recommendation is written again.
func statusChanged() predicate.Predicate {
	p := loop.Updated(func(before, after *v1alpha1.AttuneRecommendation) bool {
		return !equality.Semantic.DeepEqual(readOf(before.Status), readOf(after.Status))
	})
	p.CreateFunc, p.GenericFunc = func(event.CreateEvent) bool { return false }, func(event.GenericEvent) bool { return false }
	return p
}

// first passes recommendations when the cache first shows them, unless they are already released.
func first() predicate.Predicate {
	p := predicate.NewPredicateFuncs(func(client.Object) bool { return false })
	p.CreateFunc = func(e event.CreateEvent) bool { return !released(e.Object.(*v1alpha1.AttuneRecommendation).Spec) }
	return p
}

// readOf reduces a status to the fields that a policy reads: of the records their number, of the phase only Cooldown.
// The details of records change with every pod and would wake the policy each time.
func readOf(status v1alpha1.AttuneRecommendationStatus) v1alpha1.AttuneRecommendationStatus {
	status.Records = make([]v1alpha1.ResizeRecord, len(status.Records))
	if status.Phase != v1alpha1.PhaseCooldown {
		status.Phase = ""
	}
	status.Pods, status.CooldownFrom, status.NextResize, status.GoneSince = nil, nil, nil, nil
	return status
}

// whole passes no workloads that are a part of another one, such as a CronJob's Job: no policy sizes them.
func whole() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool {
		w, ok := workload.From(o)
		return !ok || !w.Part()
	})
}
