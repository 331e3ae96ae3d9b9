package main

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/loop"
	"attune.io/attune/internal/workload"
)

// unserved waits until the operator may watch a kind or a namespace that it could not watch when the process started.
type unserved struct {
	// said is logged at the start. It is an error if failed is set, because the installation names the missing
	// object.
	said   string
	failed bool
	// ask reports whether the operator may watch it now. It is called about once per every.
	ask   func(context.Context) (bool, error)
	every time.Duration
	// served is the error that ends the process.
	served error
	clock  clock.WithTicker
}

// Start implements manager.Runnable. It returns the error served, which ends the process, as soon as the operator may
// watch the kind or namespace. Running caches cannot add one, but the caches of the next process will.
func (u unserved) Start(ctx context.Context) error {
	log := ctrl.Log.WithName("watches")
	if u.failed {
		log.Error(nil, u.said)
	} else {
		log.Info(u.said)
	}
	// The jitter keeps replicas that started together from ending together.
	for range loop.Every(ctx, u.clock, wait.Jitter(u.every, 1)) {
		served, err := u.ask(ctx)
		switch {
		case err != nil:
			log.Error(err, "Cannot check which kinds the operator may watch; retrying")
		case served:
			return u.served
		}
	}
	return nil
}

// NeedLeaderElection returns false: every replica has caches.
func (unserved) NeedLeaderElection() bool { return false }

// addClusterwide reports whether the operator uses AttuneClusterPolicies. An operator that watches only some
// namespaces does not: the status and the finalizer of a cluster-scoped object could belong to another operator too.
// If the API server does not serve the kind, or the operator may not watch it, because only a part of the chart was
// upgraded, they are not used until it can: a cache that never syncs would block everything.
func addClusterwide(mgr ctrl.Manager, c Config) (bool, error) {
	if len(c.process.watched) > 0 {
		return false, nil
	}
	ask := func(ctx context.Context) (bool, error) {
		return watchable(ctx, c.api.served, clusterPolicies, c.api.mayWatchEverywhere(nil))
	}
	used, err := ask(context.Background())
	if err != nil || used {
		return used, err
	}
	return false, mgr.Add(noClusterPolicies(ask, clock.RealClock{}))
}

var (
	clusterPolicies = v1alpha1.GroupVersion.WithResource("attuneclusterpolicies")
	rollouts        = workload.ArgoGroupVersion.WithResource(workload.ArgoResource)
)

// watchable reports whether the API server serves a resource and the operator may watch it. A kind that it may not
// watch would keep the caches from syncing. It returns an error if the API server does not answer.
func watchable(ctx context.Context, api loop.Served, of schema.GroupVersionResource, may func(context.Context, schema.GroupResource) (bool, error)) (bool, error) {
	if served, err := loop.Serves(api, of); err != nil || !served {
		return false, err
	}
	return may(ctx, of.GroupResource())
}

// errClusterPolicies ends a process that started without AttuneClusterPolicies.
var errClusterPolicies = errors.New("the API server serves AttuneClusterPolicies now, and the operator may watch them: the operator restarts to use them")

// noClusterPolicies waits until the operator can use cluster policies.
func noClusterPolicies(ask func(context.Context) (bool, error), clock clock.WithTicker) unserved {
	return unserved{
		said: "AttuneClusterPolicies are not used: the CRD attuneclusterpolicies.attune.io is missing, or the operator may not list and watch them. Apply the CRDs of the chart (crd-files), and upgrade the release",
		ask:  ask, every: time.Minute,
		served: errClusterPolicies, clock: clock,
	}
}

// watchesRollouts reports whether the program can watch Argo Rollouts.
func (p program) watchesRollouts(ctx context.Context, api connection, watched namespaces) (bool, error) {
	if !p.controls {
		return false, nil
	}
	return watchable(ctx, api.served, rollouts, api.mayWatchEverywhere(watched))
}

// errRollouts ends a process that started without Argo Rollouts.
var errRollouts = errors.New("the API server serves Argo Rollouts now: the operator restarts to watch them")

// noRollouts waits until the program can watch Argo Rollouts.
func noRollouts(c Config) unserved {
	return unserved{
		said: "Argo Rollouts are not managed: the API server does not serve them, or the operator may not watch them",
		ask:  func(ctx context.Context) (bool, error) { return c.program.watchesRollouts(ctx, c.api, c.watched) }, every: 5 * time.Minute,
		served: errRollouts, clock: clock.RealClock{},
	}
}
