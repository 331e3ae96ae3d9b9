package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"attune.io/attune/internal/argo"
	"attune.io/attune/internal/loop"
)

// watchesRollouts asks the API server whether a program watches Argo Rollouts: their CRD may be missing, and a kind that
// may not be watched would keep the caches from being filled. Of single namespaces, split asks for the rights.
// An error means that the API server does not answer.
func (p program) watchesRollouts(ctx context.Context, api *rest.Config, watched namespaces) (bool, error) {
	if !p.controls {
		return false, nil
	}
	client, err := discovery.NewDiscoveryClientForConfig(api)
	if err != nil {
		return false, err
	}
	if served, err := servesRollouts(client); err != nil || !served || len(watched) > 0 {
		return served, err
	}
	may, err := askMayWatch(api, []schema.GroupResource{{Group: argo.GroupVersion.Group, Resource: argo.Resource}})
	if err != nil {
		return false, err
	}
	return may(ctx, metav1.NamespaceAll)
}

// servesRollouts returns whether the API server serves them.
func servesRollouts(api coreResources) (bool, error) {
	list, err := api.ServerResourcesForGroupVersion(argo.GroupVersion.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking the API server for the resources of %s: %w", argo.GroupVersion, err)
	}
	return slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == argo.Resource }), nil
}

// errServed ends a process that began without Argo Rollouts.
var errServed = errors.New("the API server serves Argo Rollouts now: the next process watches them")

// unserved watches whether the API server serves Argo Rollouts.
type unserved struct {
	// ask returns whether it does.
	ask   func(context.Context) (bool, error)
	clock clock.WithTicker
}

// newUnserved makes the runnable of a program that began without Argo Rollouts.
func newUnserved(p program, api *rest.Config, watched namespaces) unserved {
	ask := func(ctx context.Context) (bool, error) { return p.watchesRollouts(ctx, api, watched) }
	return unserved{ask, clock.RealClock{}}
}

// Start implements manager.Runnable. It ends with errServed, and the process with it, once Argo Rollouts are served:
// loops cannot watch another kind while they run, but those of the next process will.
func (u unserved) Start(ctx context.Context) error {
	// Replicas that began together do not end together.
	for range loop.Every(ctx, u.clock, wait.Jitter(5*time.Minute, 1)) {
		served, err := u.ask(ctx)
		if err != nil {
			ctrl.Log.WithName("rollouts").Error(err, "Cannot ask whether Argo Rollouts are served; asking again in some minutes")
			continue
		}
		if served {
			return errServed
		}
	}
	return nil
}

// NeedLeaderElection returns false: every replica has caches.
func (unserved) NeedLeaderElection() bool { return false }
