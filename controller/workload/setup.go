package workload

import (
	"context"
	"maps"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	helpers "k8s.io/component-helpers/resource"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	channel "sigs.k8s.io/controller-runtime/pkg/source"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/lookup"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// retryFirst and retryLast limit the delay after a failed pass. The limit is short, so that the loop continues soon
// after an outage of the API server.
const retryFirst, retryLast = 50 * time.Millisecond, 30 * time.Second

// Register adds the loop and its indexes to a manager, and registers its metrics. Each value on told names a
// recommendation about which another loop has news: the grants of its pods changed, or its targets are valid again.
// It returns an error if an index or the controller cannot be added.
func (c *Controller) Register(mgr ctrl.Manager, told <-chan event.TypedGenericEvent[types.NamespacedName]) error {
	if err := loop.Register(context.Background(), mgr.GetFieldIndexer(), Indexes()); err != nil {
		return err
	}
	loop.Show(&c.memory.meters.fleet)
	news := channel.TypedChannel(told, handler.TypedEnqueueRequestsFromMapFunc(
		func(_ context.Context, name types.NamespacedName) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: name}}
		}))
	return loop.Add(mgr, "workload", c, c.Watches(), news, Options())
}

// Options returns the options of the loop's queue: 8 workers, of which one namespace uses at most half. A pass may
// wait for a server that the namespace's policies name; the other half remains for other namespaces.
func Options() controller.Options {
	const workers = 8
	return controller.Options{
		MaxConcurrentReconciles: workers,
		NewQueue:                loop.Fair(workers, workers/2),
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](retryFirst, retryLast),
	}
}

// Watches returns the loop's watches. Tests use the same list to play a manager.
func (c *Controller) Watches() []loop.Watch {
	spec, wake := predicate.GenerationChangedPredicate{}, c.wakers()
	watches := []loop.Watch{
		{Object: &v1alpha1.AttuneRecommendation{}, When: recommendationChanged(&c.memory.stored)},
		{Object: &corev1.Pod{}, Map: wake.recommendationOf, When: podChanged(), Urgent: podInTrouble},
		{Object: &corev1.Pod{}, Map: wake.waitingFor(tuning.AboutNode, nodeOf), When: roomFreed()},
		{Object: &corev1.Node{}, Map: wake.waitingFor(tuning.AboutNode, client.Object.GetName), When: nodeChanged(c.memory.nodes.Forget)},
		{Object: &corev1.ResourceQuota{}, Map: wake.waitingFor(tuning.AboutQuotas, client.Object.GetNamespace), When: quotaChanged()},
		{Object: &corev1.LimitRange{}, Map: wake.waitingFor(tuning.AboutLimits, client.Object.GetNamespace)},
		{Object: &policyv1.PodDisruptionBudget{}, Map: wake.waitingFor(tuning.AboutBudgets, client.Object.GetNamespace), When: budgetChanged()},
		{Object: &corev1.Event{}, Map: wake.rejected, When: loop.Updated(func(before, after *corev1.Event) bool { return !timeOf(before).Equal(timeOf(after)) })},
		{Object: &autoscalingv2.HorizontalPodAutoscaler{}, Map: scaled, When: loop.ScalingChanged()},
		{Object: &v1alpha1.AttunePolicy{}, Map: wake.listed(client.Object.GetNamespace, client.Object.GetName), When: spec},
		{Object: &v1alpha1.AttuneDefaults{}, Map: wake.listed(client.Object.GetNamespace, nil), When: spec},
		{Object: &v1alpha1.AttuneNamespaceDefaults{}, Map: wake.listed(client.Object.GetNamespace, nil), When: spec},
		{Object: lookup.Namespace(), Map: wake.listed(client.Object.GetName, nil), When: lookup.BecomesTerminating()},
	}
	if c.Settings.Clusterwide {
		instance := func(o client.Object) string { return policy.InstanceName(o.GetName()) }
		watches = append(watches, loop.Watch{Object: &v1alpha1.AttuneClusterPolicy{}, Map: wake.listed(client.Object.GetNamespace, instance), When: spec})
	}
	for _, kind := range c.Access.Sized.Kinds() {
		watches = append(watches, loop.Watch{Object: c.Access.Sized.NewObject(kind).(client.Object), Map: itself, When: workloadChanged()})
	}
	return watches
}

// Indexes returns the indexes by which the loop lists objects.
func Indexes() []loop.Index {
	return []loop.Index{
		{Object: &corev1.Pod{}, Field: workload.PodsByWorkload, Of: func(o client.Object) []string { return workload.IndexOf(o) }},
		{Object: &corev1.Pod{}, Field: workload.PodsByNode, Of: func(o client.Object) []string { return []string{nodeOf(o)} }},
		{Object: &batchv1.Job{}, Field: workload.JobsByCronJob, Of: func(o client.Object) []string { return workload.IndexOfJob(o) }},
		{Object: &v1alpha1.AttuneRecommendation{}, Field: policy.RecommendationsByPolicy, Of: func(o client.Object) []string {
			return []string{policy.NameOf(o.(*v1alpha1.AttuneRecommendation).Spec.Policy)}
		}},
	}
}

// wakers map a changed object to the recommendations that depend on it.
type wakers struct {
	client     client.Reader
	clock      clock.PassiveClock
	sized      workload.Sized
	waiting    *waiting
	rejections *rejections
}

func (c *Controller) wakers() wakers {
	return wakers{c.Client, c.Clock, c.Access.Sized, &c.memory.waiting, &c.memory.rejections}
}

// recommendationOf returns the recommendation of a pod's workload; nil: the pod has none. Pods may have owners of any
// kind. For kinds that are not sized, it returns only existing recommendations: they may have open resizes from the
// time when the kind was sized, and regressions from these are reverted at once too.
func (c wakers) recommendationOf(ctx context.Context, o client.Object) []reconcile.Request {
	id, ok := workload.OwnerOf(o, o.GetNamespace(), lookup.Owners{Reader: c.client})
	if !ok {
		return nil
	}
	requests := requestFor(id)
	if c.sized.Has(id.Kind) {
		return requests
	}
	if c.client.Get(ctx, requests[0].NamespacedName, &v1alpha1.AttuneRecommendation{}, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	return requests
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
	return requestFor(w.RecommendedAs())
}

// scaled returns the recommendation of the workload that an HPA scales.
func scaled(_ context.Context, o client.Object) []reconcile.Request {
	of := o.(*autoscalingv2.HorizontalPodAutoscaler).Spec.ScaleTargetRef
	kind, known := workload.KindOf(schema.FromAPIVersionAndKind(of.APIVersion, of.Kind).GroupKind())
	if !known {
		kind = v1alpha1.WorkloadKind(of.Kind)
	}
	return requestFor(workload.Identity{Kind: kind, Namespace: o.GetNamespace(), Name: of.Name})
}

// waitingFor wakes the workloads that wait for a change of the node, or the namespace, of an object.
func (c wakers) waitingFor(about func(string) tuning.Topic, of func(client.Object) string) handler.MapFunc {
	return func(_ context.Context, o client.Object) []reconcile.Request { return c.waiting.wake(about(of(o))) }
}

func nodeOf(pod client.Object) string { return pod.(*corev1.Pod).Spec.NodeName }

// listed returns, from the cache, the recommendations in the namespace of an object (empty: in all), of the policy
// with a name (nil: of any). After an error it wakes none: the next regular pass finds the change.
func (c wakers) listed(in, of func(client.Object) string) handler.MapFunc {
	return func(ctx context.Context, o client.Object) []reconcile.Request {
		which := []client.ListOption{client.InNamespace(in(o)), client.UnsafeDisableDeepCopy}
		if of != nil {
			which = append(which, client.MatchingFields{policy.RecommendationsByPolicy: of(o)})
		}
		list := &v1alpha1.AttuneRecommendationList{}
		if err := c.client.List(ctx, list, which...); err != nil {
			return nil
		}
		return loop.RequestsFor(list.Items)
	}
}

// podChanged passes changes of the fields that an assessment reads: the spec, annotations, conditions, container
// states and resources. Kubelets update pods for other reasons too.
func podChanged() predicate.Predicate {
	return loop.Updated(func(before, after *corev1.Pod) bool {
		return before.Generation != after.Generation ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) ||
			!equality.Semantic.DeepEqual(before.Status, after.Status)
	})
}

// recommendationChanged passes writes of the policy loop, deletions, and statuses that another writer changed. It
// does not pass a status that this loop wrote: a pass that must continue requeues itself, and an event for each own
// write would double the passes.
func recommendationChanged(by *stored) predicate.Predicate {
	return loop.Updated(func(before, after *v1alpha1.AttuneRecommendation) bool {
		return before.Generation != after.Generation || before.UID != after.UID ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
			!equality.Semantic.DeepEqual(before.Status, after.Status) && !by.own(after)
	})
}

// podInTrouble reports that a container of the pod has ended or is no longer ready, or that its kubelet does not
// carry out a resize. Such pods take precedence, because a regression may have to be reverted.
func podInTrouble(old, new client.Object) bool {
	before, after := old.(*corev1.Pod), new.(*corev1.Pod)
	for _, condition := range []corev1.PodConditionType{corev1.PodReady, corev1.PodResizePending, corev1.PodResizeInProgress} {
		if got := reasonOf(after, condition); got != reasonOf(before, condition) && got != "" {
			return true
		}
	}
	return !maps.Equal(endsOf(before), endsOf(after))
}

// reasonOf returns why a condition shows a problem of a pod; empty: it shows none.
func reasonOf(pod *corev1.Pod, of corev1.PodConditionType) string {
	for _, c := range pod.Status.Conditions {
		switch {
		case c.Type != of:
		case of == corev1.PodReady && c.Status != corev1.ConditionTrue:
			return "NotReady"
		case of != corev1.PodReady && (c.Reason == corev1.PodReasonError || c.Reason == corev1.PodReasonInfeasible || c.Reason == corev1.PodReasonDeferred):
			return c.Reason
		}
	}
	return ""
}

// endsOf returns, for each container, a text that changes whenever the container ends. It consists of container IDs
// and end times, so that it covers containers that are not restarted.
func endsOf(pod *corev1.Pod) map[string]string {
	ends := map[string]string{}
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		for _, ended := range []*corev1.ContainerStateTerminated{s.State.Terminated, s.LastTerminationState.Terminated} {
			if ended != nil {
				ends[s.Name] += ended.ContainerID + ended.FinishedAt.String() + " "
			}
		}
	}
	return ends
}

// roomFreed passes pods that free room on their node: deleted, ended, smaller, or no longer deferred. New pods take
// room and are not passed.
func roomFreed() predicate.Predicate {
	p := loop.Updated(func(before, after *corev1.Pod) bool {
		if helpers.IsPodResizeDeferred(before) && !helpers.IsPodResizeDeferred(after) {
			return true
		}
		took, takes := resize.Footprint(before), resize.Footprint(after)
		return takes[recommender.CPU] < took[recommender.CPU] || takes[recommender.Memory] < took[recommender.Memory]
	})
	p.CreateFunc = func(event.CreateEvent) bool { return false }
	return p
}

// nodeChanged passes nodes that may answer resizes differently now, but not their heartbeats. A deleted node is first
// dropped from the loop's memory (forget), because a new node may get its name.
func nodeChanged(forget func(node string)) predicate.Predicate {
	p := loop.Updated(func(before, after *corev1.Node) bool { return resize.TermsOf(before) != resize.TermsOf(after) })
	p.DeleteFunc = func(e event.DeleteEvent) bool {
		forget(e.Object.GetName())
		return true
	}
	return p
}

// quotaChanged passes changes of a quota's limits and of its usage.
func quotaChanged() predicate.Predicate {
	return loop.Updated(func(before, after *corev1.ResourceQuota) bool {
		return !equality.Semantic.DeepEqual(before.Spec, after.Spec) || !equality.Semantic.DeepEqual(before.Status, after.Status)
	})
}

// budgetChanged passes changes of the pods that a PodDisruptionBudget selects and of whether it allows a disruption.
// Its other counts change with every pod.
func budgetChanged() predicate.Predicate {
	return loop.Updated(func(before, after *policyv1.PodDisruptionBudget) bool {
		return before.Generation != after.Generation || before.Status.ObservedGeneration != after.Status.ObservedGeneration ||
			before.Status.DisruptionsAllowed != after.Status.DisruptionsAllowed
	})
}

// workloadChanged passes changes of the fields that a decision reads: the spec, the annotations and the state of the
// rollout. The rest of the status changes with every pod.
func workloadChanged() predicate.Predicate {
	return loop.Updated(func(before, after client.Object) bool {
		then, _ := workload.From(before)
		now, _ := workload.From(after)
		return before.GetGeneration() != after.GetGeneration() || !maps.Equal(then.Annotations, now.Annotations) ||
			then.Rollout != now.Rollout || then.Replicas != now.Replicas || then.Deleting != now.Deleting ||
			then.Rejected != now.Rejected
	})
}
