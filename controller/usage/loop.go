// Package usage is the tick that brings usage history from its source into the
// store. It runs on the leader.
package usage

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/internal/loop"
)

// Store is what the loop keeps up to date.
type Store interface {
	// Refresh reads what is new, and reports whether more of the past can be read at once.
	Refresh(ctx context.Context, now time.Time) (more bool)
}

// Loop refreshes the store every Interval, and without pause while the past is being read.
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

// NeedLeaderElection is true: one replica asks the source.
func (l *Loop) NeedLeaderElection() bool { return true }

// Recent is what RecentLoop keeps up to date.
type Recent interface {
	Refresh(ctx context.Context, now time.Time) error
	// Followed counts the containers that are followed, and by namespace those for which there is no room.
	Followed() (containers int, refused map[string]int)
}

var (
	followed = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "attune_usage_recent_containers", Help: "Containers whose own recent usage is followed, for the strategy Node.",
	})
	refusals = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "attune_usage_recent_refused", Help: "Containers of the strategy Node whose recent usage is not followed for want of room: they keep what they hold.",
	}, []string{"namespace"})
)

func init() { metrics.Registry.MustRegister(followed, refusals) }

// show counts in the metrics. A namespace of which nothing is refused has no series.
func show(r Recent) {
	containers, refused := r.Followed()
	followed.Set(float64(containers))
	refusals.Reset()
	for namespace, n := range refused {
		refusals.WithLabelValues(namespace).Set(float64(n))
	}
}

// RecentLoop follows what pods use themselves, for the policies of the strategy Node.
type RecentLoop struct {
	Recent   Recent
	Interval time.Duration
	Clock    clock.WithTicker
}

// Start refreshes until the context ends. A source that fails is asked again at the next tick; until then pods
// keep what they hold.
func (l *RecentLoop) Start(ctx context.Context) error {
	for now := range loop.Every(ctx, l.Clock, l.Interval) {
		if err := l.Recent.Refresh(ctx, now); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Reading what pods use lately; asking again at the next tick")
		}
		show(l.Recent)
	}
	return nil
}

// NeedLeaderElection is true: one replica asks the source.
func (l *RecentLoop) NeedLeaderElection() bool { return true }
