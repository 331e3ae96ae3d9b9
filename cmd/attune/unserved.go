package main

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"attune.io/attune/internal/loop"
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
