package workload

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
)

// Indexes: pods by their workload, recommendations by their policy.
const (
	byWorkload = "attune.workload"
	byPolicy   = "attune.policy"
)

// Register adds the loop to a manager.
func (c *Controller) Register(mgr ctrl.Manager) error {
	ctx := context.Background()
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, byWorkload, workloadOf); err != nil {
		return err
	}
	err := mgr.GetFieldIndexer().IndexField(ctx, &v1alpha1.AttuneRecommendation{}, byPolicy, func(o client.Object) []string {
		return []string{o.(*v1alpha1.AttuneRecommendation).Spec.Policy.Name}
	})
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("workload").
		For(&v1alpha1.AttuneRecommendation{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(recommendationOf), builder.WithPredicates(podChanged())).
		Watches(&v1alpha1.AttunePolicy{}, handler.EnqueueRequestsFromMapFunc(c.recommendationsOfPolicy), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(c)
}

func workloadOf(o client.Object) []string {
	id, ok := workload.OwnerOf(o, o.GetNamespace(), nil)
	if !ok {
		return nil
	}
	return []string{id.String()}
}

func recommendationOf(_ context.Context, o client.Object) []reconcile.Request {
	id, ok := workload.OwnerOf(o, o.GetNamespace(), nil)
	if !ok {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: id.Namespace, Name: id.RecommendationName()}}}
}

func (c *Controller) recommendationsOfPolicy(ctx context.Context, o client.Object) []reconcile.Request {
	list := &v1alpha1.AttuneRecommendationList{}
	if err := c.Client.List(ctx, list, client.InNamespace(o.GetNamespace()), client.MatchingFields{byPolicy: o.GetName()}); err != nil {
		return nil
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// podChanged passes what an assessment reads: the spec, conditions, container states and resources.
// Kubelets touch pods for other reasons too.
func podChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
			return before.Generation != after.Generation ||
				(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
				!equality.Semantic.DeepEqual(before.Annotations, after.Annotations) ||
				!equality.Semantic.DeepEqual(before.Status, after.Status)
		},
	}
}
