package main

import (
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"attune.io/attune/internal/decision"
)

// renewDeadline is how long a leader tries to renew its lease before it gives up: the default of
// controller-runtime.
const renewDeadline = 10 * time.Second

// newLock makes the lease of the leader, whose holder is the pod and not the process. Therefore the next process
// of the same pod leads at once, with the samples on the pod's volume; another replica would have to wait for the
// lease to end, and would know only the checkpoints. Outside of a pod it returns nil: the manager then makes its
// own lock, whose holder is the process.
func newLock(o *Options, config *rest.Config) (resourcelock.Interface, error) {
	if !o.loops.leaderElect || o.loops.podUID == "" {
		return nil, nil
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	holder := resourcelock.ResourceLockConfig{Identity: host + "_" + o.loops.podUID}
	config = rest.AddUserAgent(rest.CopyConfig(config), "leader-election")
	return resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, o.process.namespace, decision.LeaseName, holder, config, renewDeadline)
}
