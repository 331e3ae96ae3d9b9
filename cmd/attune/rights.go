package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	workloadloop "attune.io/attune/controller/workload"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/workload"
)

// rightsTimeout bounds one question to the API server, and all that mayResize asks.
const rightsTimeout = 5 * time.Second

// addRights adds the runnable that watches whether the operator may resize pods. The leader is not ready while it
// may not, so that an upgrade with too few rights does not replace an operator that works.
func addRights(mgr ctrl.Manager, c Config) (*workloadloop.Rights, error) {
	rights := &workloadloop.Rights{Clock: clock.RealClock{}, Ask: func(ctx context.Context) (bool, error) {
		return mayResize(ctx, c.api.clients.AuthorizationV1().SelfSubjectAccessReviews(), c.watched)
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

// servesResize returns whether the core group has the subresource pods/resize (KEP-1287).
func servesResize(api loop.Served) (bool, error) {
	return loop.Serves(api, corev1.SchemeGroupVersion.WithResource("pods/resize"))
}

// namespaces are those that the operator watches; none: all of them.
type namespaces []string

// has returns whether objects of a namespace are in the caches.
func (n namespaces) has(name string) bool { return len(n) == 0 || slices.Contains(n, name) }

// cached returns the namespaces for the caches; nil: all of them.
func (n namespaces) cached() map[string]cache.Config {
	if len(n) == 0 {
		return nil
	}
	by := make(map[string]cache.Config, len(n))
	for _, name := range n {
		by[name] = cache.Config{}
	}
	return by
}

// watchedReader returns an error with advice for an object of a namespace that is not watched. The cache's own
// error would be about a missing informer.
type watchedReader struct {
	// Reader reads from the cache.
	client.Reader
	// watched are the namespaces in the cache; empty: all.
	watched namespaces
}

// Get an object of a namespace that is watched, or of none.
// An empty namespace is that of an object of the cluster, which is always readable.
func (r watchedReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if key.Namespace != "" && !r.watched.has(key.Namespace) {
		return fmt.Errorf("the operator may not watch namespace %s yet: upgrade the release, which grants it", key.Namespace)
	}
	return r.Reader.Get(ctx, key, o, options...)
}

// mayWatch asks the API server whether the operator may watch a namespace.
// An error means that the API server could not be asked.
type mayWatch func(ctx context.Context, namespace string) (bool, error)

// watchedKinds returns the namespaced kinds in the caches of a program. They must match the informers: one kind
// that may not be watched keeps the whole cache from being filled.
func (p program) watchedKinds(workloads kinds) (all []schema.GroupResource) {
	all = []schema.GroupResource{
		{Resource: "limitranges"}, {Resource: "resourcequotas"},
		{Group: v1alpha1.GroupVersion.Group, Resource: "attunerecommendations"}, {Group: v1alpha1.GroupVersion.Group, Resource: "attunenamespacedefaults"},
	}
	if !p.controls {
		return all
	}
	all = append(all, workloads.resources...)
	if workloads.Rollouts {
		all = append(all, schema.GroupResource{Group: workload.ArgoGroupVersion.Group, Resource: workload.ArgoResource})
	}
	return append(all,
		schema.GroupResource{Resource: "pods"}, schema.GroupResource{Resource: "events"},
		schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: "attunepolicies"},
		schema.GroupResource{Group: "apps", Resource: "deployments"}, schema.GroupResource{Group: "apps", Resource: "statefulsets"},
		schema.GroupResource{Group: "apps", Resource: "daemonsets"}, schema.GroupResource{Group: "apps", Resource: "replicasets"},
		schema.GroupResource{Group: "batch", Resource: "jobs"}, schema.GroupResource{Group: "batch", Resource: "cronjobs"},
		schema.GroupResource{Group: "policy", Resource: "poddisruptionbudgets"},
		schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}, schema.GroupResource{Group: "autoscaling.k8s.io", Resource: "verticalpodautoscalers"},
	)
}

// mayWatchEverywhere returns a function that tells whether a kind may be watched in all namespaces. Of single namespaces,
// split asks for the rights.
func (a connection) mayWatchEverywhere(watched namespaces) func(context.Context, schema.GroupResource) (bool, error) {
	return func(ctx context.Context, of schema.GroupResource) (bool, error) {
		if len(watched) > 0 {
			return true, nil
		}
		return a.mayWatch(of)(ctx, metav1.NamespaceAll)
	}
}

// mayWatch returns a mayWatch that asks about each kind, with SelfSubjectAccessReviews. It asks about all of
// them because a user who may write Roles in a namespace can take a part of the rights away.
func (a connection) mayWatch(kinds ...schema.GroupResource) mayWatch {
	reviews := a.clients.AuthorizationV1().SelfSubjectAccessReviews()
	return func(ctx context.Context, namespace string) (bool, error) {
		for _, kind := range kinds {
			for _, verb := range []string{"list", "watch"} {
				ok, err := may(ctx, reviews, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: kind.Group, Resource: kind.Resource})
				if err != nil {
					return false, fmt.Errorf("asking whether %s in namespace %s may be watched: %w", kind, namespace, err)
				}
				if !ok {
					return false, nil
				}
			}
		}
		return true, nil
	}
}

// split separates the namespaces that may be watched from those that may not. A namespace that was deleted has
// lost its Roles: a cache that waited for it would keep all the others waiting. It is an error where none may be
// watched.
func (n namespaces) split(ctx context.Context, may mayWatch) (watched, left namespaces, err error) {
	for _, name := range n {
		ok, err := may(ctx, name)
		switch {
		case err != nil:
			return nil, nil, err
		case ok:
			watched = append(watched, name)
		default:
			left = append(left, name)
		}
	}
	if len(n) > 0 && len(watched) == 0 {
		return nil, nil, fmt.Errorf("--watch-namespaces %s: the operator may watch none of them: create them, and upgrade the release to grant it", strings.Join(n, ","))
	}
	return watched, left, nil
}

// leftOut waits for namespaces that may not be watched.
func leftOut(names namespaces, may mayWatch) unserved {
	return unserved{
		said:   fmt.Sprintf("Namespaces are left out, because the operator may not watch them: %s. Create them, and upgrade the release", strings.Join(names, ",")),
		failed: true,
		ask: func(ctx context.Context) (bool, error) {
			for _, name := range names {
				if ok, err := may(ctx, name); ok || err != nil {
					return ok, err
				}
			}
			return false, nil
		},
		every:  time.Minute,
		served: fmt.Errorf("one of the namespaces %s may be watched now: the next process watches it", strings.Join(names, ",")),
		clock:  clock.RealClock{},
	}
}

// syncedWithin is how long the caches may take to be filled. Rights that were taken away meanwhile would keep them
// waiting for ever; the next process asks anew what it may watch.
const syncedWithin = 10 * time.Minute

// errNotSynced ends a process whose caches are not filled.
var errNotSynced = fmt.Errorf("the caches were not filled within %s: the log says which kind cannot be listed", syncedWithin)

// startSynced starts a manager, and stops it with errNotSynced where its caches are not filled in time.
func startSynced(ctx context.Context, mgr ctrl.Manager, within time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The goroutine ends when the caches are filled, when the time is over, or with the context.
	go func() {
		bounded, end := context.WithTimeout(ctx, within)
		defer end()
		if !mgr.GetCache().WaitForCacheSync(bounded) && ctx.Err() == nil {
			cancel(errNotSynced)
		}
	}()
	err := mgr.Start(ctx)
	if cause := context.Cause(ctx); err == nil && errors.Is(cause, errNotSynced) {
		return cause
	}
	return err
}
