package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"attune.io/attune/internal/loop"
)

// serves returns whether the API server serves a resource of a group version. An error means that it does not answer.
func serves(api coreResources, version schema.GroupVersion, is func(metav1.APIResource) bool) (bool, error) {
	list, err := api.ServerResourcesForGroupVersion(version.String())
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("asking the API server for %s: %w", version, err)
	}
	return slices.ContainsFunc(list.APIResources, is), nil
}

// unserved watches whether the API server serves a kind that it did not serve when the process began.
type unserved struct {
	// said is logged at the start.
	said string
	// ask returns whether the kind is served by now; it is asked every so often.
	ask   func(context.Context) (bool, error)
	every time.Duration
	// served is the error with which the process ends.
	served error
	clock  clock.WithTicker
}

// Start implements manager.Runnable. It ends with the error served, and the process with it, once the kind is served:
// loops cannot watch another kind while they run, but those of the next process will.
func (u unserved) Start(ctx context.Context) error {
	log := ctrl.Log.WithName("kinds")
	log.Info(u.said)
	// Replicas that began together do not end together.
	for range loop.Every(ctx, u.clock, wait.Jitter(u.every, 1)) {
		served, err := u.ask(ctx)
		switch {
		case err != nil:
			log.Error(err, "Cannot ask the API server which kinds it serves; asking again")
		case served:
			return u.served
		}
	}
	return nil
}

// NeedLeaderElection returns false: every replica has caches.
func (unserved) NeedLeaderElection() bool { return false }
