// Package usage is the loop that reads usage from its source into the store, at an interval. It runs on the leader.
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

// Store is the history that the loop updates.
type Store interface {
	// Refresh reads new usage, and reports whether more of the past can be read at once.
	Refresh(ctx context.Context, now time.Time) (more bool)
}

// Loop refreshes the store every Interval, and continuously while the past is being read.
type Loop struct {
	Store    Store
	Interval time.Duration
	Clock    clock.WithTicker
}

// Start refreshes until the context ends.
func (l *Loop) Start(ctx context.Context) error {
	for range loop.Every(ctx, l.Clock, l.Interval) {
		for l.Store.Refresh(ctx, l.Clock.Now()) && ctx.Err() == nil {
		}
	}
	return nil
}

// Recent is the recent usage that RecentLoop updates.
type Recent interface {
	Refresh(ctx context.Context, now time.Time) error
	// Followed counts the followed containers, and by namespace the containers beyond the limit.
	Followed() (containers int, refused map[string]int)
}

var (
	followed = metric.NewGauge(metric.GaugeOpts{
		Name: "attune_usage_recent_containers", Help: "Number of containers whose recent usage attune tracks for strategy Node.",
	})
	refusals = metric.NewGaugeVec(metric.GaugeOpts{
		Name: "attune_usage_recent_refused", Help: "Number of containers of strategy Node whose recent usage attune does not track, because a limit is reached, by namespace; they keep their resources.",
	}, []string{"namespace"})
)

func init() { metrics.Registry.MustRegister(followed, refusals) }

// show updates the metrics. A namespace without refused containers has no series.
func show(r Recent) {
	containers, refused := r.Followed()
	followed.Set(float64(containers))
	refusals.Reset()
	for namespace, n := range refused {
		refusals.WithLabelValues(namespace).Set(float64(n))
	}
}

// RecentLoop reads the recent usage of single pods, for the policies of the strategy Node.
type RecentLoop struct {
	Recent   Recent
	Interval time.Duration
	Clock    clock.WithTicker
}

// Start refreshes until the context ends. After an error it tries again at the next tick; until then pods keep their
// present resources.
func (l *RecentLoop) Start(ctx context.Context) error {
	for now := range loop.Every(ctx, l.Clock, l.Interval) {
		if err := l.Recent.Refresh(ctx, now); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Cannot read the recent usage of pods; retrying at the next tick")
		}
		show(l.Recent)
	}
	return nil
}

// Near finds the pods whose containers are close to their memory limits.
type Near interface {
	Refresh(ctx context.Context, now time.Time) (prometheus.NearPods, error)
}

// NearLoop wakes the workloads of containers that are close to their memory limits and still grow, as reported by a
// Prometheus server. The embedded source reports such containers itself.
type NearLoop struct {
	Near Near
	// Tell wakes the workload of a pod. It must not block.
	Tell  func(ctx context.Context, pod prometheus.NearPod)
	Clock clock.WithTicker
	// saidLeft is when the log last reported pods beyond the limit.
	saidLeft time.Time
}

const (
	// nearEvery is the time between two queries: the server is unlikely to have new samples earlier.
	nearEvery = 15 * time.Second
	// leftEvery is how often the log reports pods beyond the limit.
	leftEvery = time.Hour
)

var left = metric.NewGauge(metric.GaugeOpts{
	Name: "attune_usage_near_left", Help: "Number of pods close to their memory limits that attune did not track at the last query, because a limit is reached; it does not raise their memory before an OOM kill.",
})

func init() { metrics.Registry.MustRegister(left) }

// Start queries the server until the context ends. After an error it tries again at the next tick.
func (l *NearLoop) Start(ctx context.Context) error {
	for now := range loop.Every(ctx, l.Clock, nearEvery) {
		bounded, cancel := context.WithTimeout(ctx, nearEvery)
		pods, err := l.Near.Refresh(bounded, now)
		cancel()
		if err != nil && ctx.Err() == nil {
			log.FromContext(ctx).V(1).Info("Cannot query the containers close to their memory limits", "cause", err.Error())
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

// showLeft reports the pods beyond the limit: always in the metrics, and from time to time in the log.
func (l *NearLoop) showLeft(ctx context.Context, pods int, now time.Time) {
	left.Set(float64(pods))
	if pods > 0 && now.Sub(l.saidLeft) >= leftEvery {
		l.saidLeft = now
		log.FromContext(ctx).Info("Cannot track all pods close to their memory limits; the others get no memory before an OOM kill", "untracked", pods)
	}
}
