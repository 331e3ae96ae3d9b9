package main

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"attune.io/attune/internal/argo"
	"attune.io/attune/internal/loop"
)

// watchesRollouts asks the API server whether a program watches Argo Rollouts: their CRD may be missing, and a kind that
// may not be watched would keep the caches from being filled.
// An error means that the API server does not answer.
func (p program) watchesRollouts(ctx context.Context, api *rest.Config, watched namespaces) (bool, error) {
	if !p.controls {
		return false, nil
	}
	client, err := discovery.NewDiscoveryClientForConfig(api)
	if err != nil {
		return false, err
	}
	if served, err := servesRollouts(client); err != nil || !served {
		return false, err
	}
	return mayWatchEverywhere(ctx, api, watched, schema.GroupResource{Group: argo.GroupVersion.Group, Resource: argo.Resource})
}

// servesRollouts returns whether the API server serves them.
func servesRollouts(api loop.Served) (bool, error) {
	return loop.Serves(api, argo.GroupVersion, func(r metav1.APIResource) bool { return r.Name == argo.Resource })
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
