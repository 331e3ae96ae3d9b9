package main

import (
	"os"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"attune.io/attune/internal/decision"
)

// renewDeadline is the manager's own: a leader that could not renew its lease for so long gives up.
const renewDeadline = 10 * time.Second

// newLock is the lease of the leader, whose holder is a pod and not a process. A pod's next process begins when the last
// one has ended, and leads on at once, with the samples on the pod's volume. Another replica would have to wait for
// the lease to end, and would know no more than the checkpoints. Outside of a pod there is none: nil is the
// manager's own, whose holder is a process.
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
