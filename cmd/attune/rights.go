package main

import (
	"context"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workloadloop "attune.io/attune/controller/workload"
)

// rightsTimeout bounds one question.
const rightsTimeout = 5 * time.Second

// rightsOf follows whether the operator may resize pods. The leader is not ready while it may not: nothing it is
// there for would work, and an upgrade with too few rights is not to replace one that works.
func rightsOf(mgr ctrl.Manager, watched namespaces) (*workloadloop.Rights, error) {
	rights := &workloadloop.Rights{Clock: clock.RealClock{}, Ask: func(ctx context.Context) (bool, error) {
		return mayResize(ctx, mgr.GetClient(), watched)
	}}
	if err := mgr.AddReadyzCheck("rights", rights.Ready); err != nil {
		return nil, err
	}
	return rights, mgr.Add(rights)
}

// mayResize asks the API server what the operator itself may do: in every namespace, or in any of those it watches. That
// one of those denies it is about that one alone.
func mayResize(ctx context.Context, api client.Client, watched namespaces) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	if len(watched) == 0 {
		watched = namespaces{metav1.NamespaceAll}
	}
	for _, namespace := range watched {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "patch", Resource: "pods", Subresource: "resize"},
		}}
		if err := api.Create(ctx, review); err != nil || review.Status.Allowed {
			return review.Status.Allowed, err
		}
	}
	return false, nil
}
