package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/tick"
)

// namespaces are those that the operator watches; none: all of them.
type namespaces []string

// has reports whether objects of a namespace are in the caches.
func (n namespaces) has(name string) bool { return len(n) == 0 || slices.Contains(n, name) }

// cached is what the caches are to hold.
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

// mayWatch asks the API server whether the operator may watch a namespace.
type mayWatch func(ctx context.Context, namespace string) (bool, error)

// askMayWatch asks about what every program of the operator reads.
func askMayWatch(config *rest.Config) (mayWatch, error) {
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, namespace string) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, rightsTimeout)
		defer cancel()
		review, err := api.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "list", Group: v1alpha1.GroupVersion.Group, Resource: "attunerecommendations"},
		}}, metav1.CreateOptions{})
		if err != nil {
			return false, fmt.Errorf("asking whether namespace %s may be watched: %w", namespace, err)
		}
		return review.Status.Allowed, nil
	}, nil
}

// split tells the namespaces that may be watched from those that may not. The Roles of a namespace go with it when it is
// deleted: a cache that waited for it would keep all the others waiting.
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
		return nil, nil, fmt.Errorf("--watch-namespaces %s: the operator may list attunerecommendations in none of them: create them, and upgrade the release to grant it", strings.Join(n, ","))
	}
	return watched, left, nil
}

// leftOut looks whether a namespace that was left out may be watched by now.
type leftOut struct {
	names namespaces
	may   mayWatch
	clock clock.WithTicker
}

// Start ends with an error, and the process with it, once one of them may be watched: caches cannot take up a namespace
// while they run, and the next process does.
func (l leftOut) Start(ctx context.Context) error {
	log := ctrl.Log.WithName("namespaces")
	log.Error(nil, "Namespaces are left out: the operator may not watch them. Create them, and upgrade the release", "namespaces", l.names)
	for range tick.Every(ctx, l.clock, time.Minute) {
		for _, name := range l.names {
			ok, err := l.may(ctx, name)
			if err != nil {
				log.Error(err, "Cannot ask the API server; asking again in a minute")
				break
			}
			if ok {
				return fmt.Errorf("namespace %s may be watched now: the next process watches it", name)
			}
		}
	}
	return nil
}

// NeedLeaderElection is false: every replica has caches.
func (leftOut) NeedLeaderElection() bool { return false }

// watchedOf finds the namespaces that this process watches.
func (o *options) watchedOf(ctx context.Context, config *rest.Config) (*leftOut, error) {
	if len(o.watchNamespaces) == 0 {
		return nil, nil
	}
	may, err := askMayWatch(config)
	if err != nil {
		return nil, err
	}
	var left namespaces
	if o.watched, left, err = o.watchNamespaces.split(ctx, may); err != nil || len(left) == 0 {
		return nil, err
	}
	return &leftOut{names: left, may: may, clock: clock.RealClock{}}, nil
}
