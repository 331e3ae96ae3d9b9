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
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/workload"
)

// rightsTimeout limits one request to the API server, and all requests of mayResize together.
const rightsTimeout = 5 * time.Second

// addRights adds the runnable that checks whether the operator may resize pods. The leader is not ready while it may
// not, so that an upgrade with too few rights does not replace a working operator.
func addRights(mgr ctrl.Manager, c Config) (*workloadloop.Rights, error) {
	rights := &workloadloop.Rights{Clock: clock.RealClock{}, Ask: func(ctx context.Context) (bool, error) {
		return mayResize(ctx, c.api.clients.AuthorizationV1().SelfSubjectAccessReviews(), c.watched)
	}}
	if err := mgr.AddReadyzCheck("rights", rights.Ready); err != nil {
		return nil, err
	}
	return rights, mgr.Add(rights)
}

// mayResize reports whether the operator may resize pods, in all namespaces or in at least one of the watched ones.
// One namespace that denies it must not stop the others.
func mayResize(ctx context.Context, reviews authorizationclient.SelfSubjectAccessReviewInterface, watched namespaces) (bool, error) {
	return mayInAny(ctx, reviews, watched, authorizationv1.ResourceAttributes{Verb: "patch", Resource: "pods", Subresource: "resize"})
}

// mayInAny reports whether the operator has a right in all namespaces, or in at least one of the watched ones.
func mayInAny(ctx context.Context, reviews authorizationclient.SelfSubjectAccessReviewInterface, watched namespaces, what authorizationv1.ResourceAttributes) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
	defer cancel()
	if len(watched) == 0 {
		watched = namespaces{metav1.NamespaceAll}
	}
	for _, what.Namespace = range watched {
		allowed, err := may(ctx, reviews, what)
		if err != nil || allowed {
			return allowed, err
		}
	}
	return false, nil
}

// mayRetarget reports whether the operator may change the targets of HPAs, in all namespaces or in at least one of the
// watched ones. Without an answer it may: the API server rejects each change anyway.
func mayRetarget(ctx context.Context, c Config) bool {
	patch := authorizationv1.ResourceAttributes{Verb: "patch", Group: "autoscaling", Resource: "horizontalpodautoscalers"}
	allowed, err := mayInAny(ctx, c.api.clients.AuthorizationV1().SelfSubjectAccessReviews(), c.watched, patch)
	if err == nil && !allowed {
		ctrl.Log.Info("--hpa-retarget has no effect: the operator's ServiceAccount may not patch horizontalpodautoscalers. Set the chart value hpa.retarget: true")
	}
	return err != nil || allowed
}

// may reports whether the operator has a right (SelfSubjectAccessReview).
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

// servesResize reports whether the API server has the subresource pods/resize (KEP-1287).
func servesResize(api loop.Served) (bool, error) {
	return loop.Serves(api, corev1.SchemeGroupVersion.WithResource("pods/resize"))
}

// namespaces are the watched namespaces; empty means all.
type namespaces []string

// has reports whether objects of a namespace are in the caches.
func (n namespaces) has(name string) bool { return len(n) == 0 || slices.Contains(n, name) }

// cached returns the namespaces for the caches; nil means all.
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

// watchedReader returns an error with advice for objects in a namespace that is not watched. The cache's own error
// would mention a missing informer.
type watchedReader struct {
	// Reader reads from the cache.
	client.Reader
	// watched are the namespaces in the cache; empty means all.
	watched namespaces
}

// Get reads an object of a watched namespace or a cluster-scoped object. Cluster-scoped objects have no namespace and
// are always readable.
func (r watchedReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
	if key.Namespace != "" && !r.watched.has(key.Namespace) {
		return fmt.Errorf("the operator may not watch namespace %s yet: upgrade the release to grant it", key.Namespace)
	}
	return r.Reader.Get(ctx, key, o, options...)
}

// mayWatch reports whether the operator may watch a namespace. It returns an error if the API server does not answer.
type mayWatch func(ctx context.Context, namespace string) (bool, error)

// watchedKinds returns the namespaced kinds in the caches of a program. They must match the informers: one kind that
// the operator may not watch keeps the whole cache from syncing.
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
		schema.GroupResource{Group: autoscale.ScaledObjectKind.Group, Resource: "scaledobjects"},
	)
}

// mayWatchEverywhere returns a function that reports whether the operator may watch a kind in all namespaces. With
// watched namespaces it always returns true, because split checks their rights.
func (a connection) mayWatchEverywhere(watched namespaces) func(context.Context, schema.GroupResource) (bool, error) {
	return func(ctx context.Context, of schema.GroupResource) (bool, error) {
		if len(watched) > 0 {
			return true, nil
		}
		return a.mayWatch(of)(ctx, metav1.NamespaceAll)
	}
}

// mayWatch returns a mayWatch that checks every kind, with SelfSubjectAccessReviews. It must check all of them,
// because a user that may edit Roles in a namespace can remove some of the rights.
func (a connection) mayWatch(kinds ...schema.GroupResource) mayWatch {
	reviews := a.clients.AuthorizationV1().SelfSubjectAccessReviews()
	return func(ctx context.Context, namespace string) (bool, error) {
		for _, kind := range kinds {
			for _, verb := range []string{"list", "watch"} {
				ok, err := may(ctx, reviews, authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: kind.Group, Resource: kind.Resource})
				if err != nil {
					return false, fmt.Errorf("checking whether %s in namespace %s may be watched: %w", kind, namespace, err)
				}
				if !ok {
					return false, nil
				}
			}
		}
		return true, nil
	}
}

// split separates the namespaces that the operator may watch from the others. A deleted namespace has lost its
// Roles, and a cache that waits for it never syncs. It returns an error if the operator may watch none of them.
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
		return nil, nil, fmt.Errorf("--watch-namespaces %s: the operator may not watch any of them: create them, and upgrade the release to grant it", strings.Join(n, ","))
	}
	return watched, left, nil
}

// leftOut waits until the operator may watch one of the namespaces.
func leftOut(names namespaces, may mayWatch) unserved {
	return unserved{
		said:   fmt.Sprintf("Namespaces are ignored, because the operator may not watch them: %s. Create them, and upgrade the release", strings.Join(names, ",")),
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
		served: fmt.Errorf("one of the namespaces %s may be watched now: the operator restarts to watch it", strings.Join(names, ",")),
		clock:  clock.RealClock{},
	}
}

// syncedWithin limits the time for the caches to sync. If rights are removed in the meantime, the caches would wait
// for ever; the next process checks its rights again.
const syncedWithin = 10 * time.Minute

// errNotSynced ends a process whose caches have not synced.
var errNotSynced = fmt.Errorf("the caches did not sync within %s: the log has the kind that cannot be listed", syncedWithin)

// startSynced starts a manager. It stops the manager with errNotSynced if its caches do not sync in time.
func startSynced(ctx context.Context, mgr ctrl.Manager, within time.Duration) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// The goroutine ends when the caches have synced, when the time is over, or with the context.
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
