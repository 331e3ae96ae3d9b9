package usage

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/internal/loop"
	"attune.io/attune/usage/prometheus"
)

// Near finds the pods whose containers are close to their memory limits.
type Near interface {
	Refresh(ctx context.Context, now time.Time) ([]prometheus.NearPod, error)
}

// NearLoop has the workloads looked at whose containers are close to their memory limits, by a server that tells of them.
// The embedded source tells by itself.
type NearLoop struct {
	Near Near
	// Tell wakes the workload of a pod. It must not block.
	Tell  func(ctx context.Context, pod prometheus.NearPod)
	Clock clock.WithTicker
}

// nearEvery is how often the server is asked: as often as it is likely to know anything new.
const nearEvery = 15 * time.Second

// Start asks until the context ends. A server that fails is asked again at the next tick.
func (l *NearLoop) Start(ctx context.Context) error {
	for now := range loop.Every(ctx, l.Clock, nearEvery) {
		bounded, cancel := context.WithTimeout(ctx, nearEvery)
		pods, err := l.Near.Refresh(bounded, now)
		cancel()
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("The server does not tell which containers are close to their memory limits", "cause", err.Error())
		}
		for _, pod := range pods {
			l.Tell(ctx, pod)
		}
	}
	return nil
}

// NeedLeaderElection is true: one replica asks the server.
func (l *NearLoop) NeedLeaderElection() bool { return true }
