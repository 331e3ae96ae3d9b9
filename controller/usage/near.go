package usage

import (
	"context"
	"time"

	metric "github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/internal/loop"
	"attune.io/attune/usage/prometheus"
)

// Near finds the pods whose containers are close to their memory limits.
type Near interface {
	Refresh(ctx context.Context, now time.Time) (prometheus.NearPods, error)
}

// NearLoop has the workloads looked at whose containers are close to their memory limits and hold ever more, by a server
// that tells of them.
// The embedded source tells by itself.
type NearLoop struct {
	Near Near
	// Tell wakes the workload of a pod. It must not block.
	Tell  func(ctx context.Context, pod prometheus.NearPod)
	Clock clock.WithTicker
	// saidLeft is when the log said last that there was no room for all pods.
	saidLeft time.Time
}

const (
	// nearEvery is how often the server is asked: as often as it is likely to know anything new.
	nearEvery = 15 * time.Second
	// leftEvery is how often the log says that there is no room for all pods.
	leftEvery = time.Hour
)

var left = metric.NewGauge(metric.GaugeOpts{
	Name: "attune_usage_near_left", Help: "Pods close to their memory limits for which there was no room at the last look: their memory is not raised before an OOM kill.",
})

func init() { metrics.Registry.MustRegister(left) }

// Start asks until the context ends. A server that fails is asked again at the next tick.
func (l *NearLoop) Start(ctx context.Context) error {
	for now := range loop.Every(ctx, l.Clock, nearEvery) {
		bounded, cancel := context.WithTimeout(ctx, nearEvery)
		pods, err := l.Near.Refresh(bounded, now)
		cancel()
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("The server does not tell which containers are close to their memory limits", "cause", err.Error())
		}
		if err == nil {
			l.showLeft(ctx, pods.Left, now)
		}
		for _, pod := range pods.Grown {
			l.Tell(ctx, pod)
		}
	}
	return nil
}

// showLeft tells of the pods that there was no room for: always in the metrics, and from time to time in the log.
func (l *NearLoop) showLeft(ctx context.Context, pods int, now time.Time) {
	left.Set(float64(pods))
	if pods > 0 && now.Sub(l.saidLeft) >= leftEvery {
		l.saidLeft = now
		log.FromContext(ctx).Info("More pods are close to their memory limits than are looked at; the memory of the others is not raised before an OOM kill", "left", pods)
	}
}

// NeedLeaderElection is true: one replica asks the server.
func (l *NearLoop) NeedLeaderElection() bool { return true }
