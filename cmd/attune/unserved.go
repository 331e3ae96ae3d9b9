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

// unserved waits until the operator may watch a kind or a namespace that it could not watch when the process began.
type unserved struct {
	// said is logged at the start: as an error if failed is set, since the installation names what is missing.
	said   string
	failed bool
	// ask reports whether it may be watched now. It is called about once per every.
	ask   func(context.Context) (bool, error)
	every time.Duration
	// served is the error with which the process ends.
	served error
	clock  clock.WithTicker
}

// Start implements manager.Runnable. It ends with the error served, and the process with it, once it may be watched:
// caches cannot add a kind or a namespace while they run, but those of the next process will.
func (u unserved) Start(ctx context.Context) error {
	log := ctrl.Log.WithName("watches")
	if u.failed {
		log.Error(nil, u.said)
	} else {
		log.Info(u.said)
	}
	// Replicas that began together do not end together.
	for range loop.Every(ctx, u.clock, wait.Jitter(u.every, 1)) {
		served, err := u.ask(ctx)
		switch {
		case err != nil:
			log.Error(err, "Cannot ask the API server what may be watched; asking again")
		case served:
			return u.served
		}
	}
	return nil
}

// NeedLeaderElection returns false: every replica has caches.
func (unserved) NeedLeaderElection() bool { return false }

// addClusterwide returns whether the operator uses AttuneClusterPolicies. One that watches some namespaces only does
// not: the status and the finalizer of an object of the cluster would be another operator's too. Where the API server
// does not serve the kind, or does not let the operator watch it, because only a part of the chart was upgraded, none are
// used until it does: a cache that is never filled would keep everything else waiting.
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

// watchable returns whether the API server serves a resource and lets the operator watch it: a kind that may not be watched
// would keep the caches from being filled. An error means that the API server does not answer.
func watchable(ctx context.Context, api loop.Served, of schema.GroupVersionResource, may func(context.Context, schema.GroupResource) (bool, error)) (bool, error) {
	if served, err := loop.Serves(api, of); err != nil || !served {
		return false, err
	}
	return may(ctx, of.GroupResource())
}

// errClusterPolicies ends a process that began without AttuneClusterPolicies.
var errClusterPolicies = errors.New("the API server serves AttuneClusterPolicies now, and the operator may watch them: the next process uses them")

// noClusterPolicies waits until they can be used.
func noClusterPolicies(ask func(context.Context) (bool, error), clock clock.WithTicker) unserved {
	return unserved{
		said: "AttuneClusterPolicies are not used: the CRD attuneclusterpolicies.attune.io is missing, or the operator may not list and watch them. Apply the CRDs of the chart (crd-files), and upgrade the release",
		ask:  ask, every: time.Minute,
		served: errClusterPolicies, clock: clock,
	}
}

// watchesRollouts asks the API server whether a program watches Argo Rollouts.
func (p program) watchesRollouts(ctx context.Context, api connection, watched namespaces) (bool, error) {
	if !p.controls {
		return false, nil
	}
	return watchable(ctx, api.served, rollouts, api.mayWatchEverywhere(watched))
}

// errRollouts ends a process that began without Argo Rollouts.
var errRollouts = errors.New("the API server serves Argo Rollouts now: the next process watches them")

// noRollouts is for a program that began without them.
func noRollouts(c Config) unserved {
	return unserved{
		said: "Argo Rollouts are not sized: the API server does not serve them, or the operator may not watch them",
		ask:  func(ctx context.Context) (bool, error) { return c.program.watchesRollouts(ctx, c.api, c.watched) }, every: 5 * time.Minute,
		served: errRollouts, clock: clock.RealClock{},
	}
}
