package main

import (
	"context"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/internal/loop"
)

// rightsTimeout bounds one question to the API server, and all that mayResize asks.
const rightsTimeout = 5 * time.Second

// addRights adds the runnable that watches whether the operator may resize pods. The leader is not ready while it
// may not, so that an upgrade with too few rights does not replace an operator that works.
func addRights(mgr ctrl.Manager, watched namespaces) (*workloadloop.Rights, error) {
	api, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	rights := &workloadloop.Rights{Clock: clock.RealClock{}, Ask: func(ctx context.Context) (bool, error) {
		return mayResize(ctx, api.AuthorizationV1().SelfSubjectAccessReviews(), watched)
	}}
	if err := mgr.AddReadyzCheck("rights", rights.Ready); err != nil {
		return nil, err
	}
	return rights, mgr.Add(rights)
}

// mayResize returns whether the operator may resize pods: in all namespaces, or in at least one of those that it
// watches. One namespace that denies it must not stop the others.
func mayResize(ctx context.Context, reviews authorizationclient.SelfSubjectAccessReviewInterface, watched namespaces) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	if len(watched) == 0 {
		watched = namespaces{metav1.NamespaceAll}
	}
	for _, namespace := range watched {
		allowed, err := may(ctx, reviews, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "patch", Resource: "pods", Subresource: "resize"})
		if err != nil || allowed {
			return allowed, err
		}
	}
	return false, nil
}

// may asks the API server whether the operator itself has a right (SelfSubjectAccessReview).
func may(ctx context.Context, reviews authorizationclient.SelfSubjectAccessReviewInterface, what authorizationv1.ResourceAttributes) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what}}
	review, err := reviews.Create(ctx, review, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}

// addServed adds the runnable that watches whether the API server serves pods/resize (KEP-1287).
func addServed(mgr ctrl.Manager) (*workloadloop.Served, error) {
	api, err := discovery.NewDiscoveryClientForConfig(mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	served := &workloadloop.Served{Clock: clock.RealClock{}, Ask: func(context.Context) (bool, error) { return servesResize(api) }}
	return served, mgr.Add(served)
}

// servesResize returns whether the core group has the subresource pods/resize.
func servesResize(api loop.Served) (bool, error) {
	return loop.Serves(api, corev1.SchemeGroupVersion, func(r metav1.APIResource) bool { return r.Name == "pods/resize" })
}
