package usage

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/internal/tick"
)

// Recent is what RecentLoop keeps up to date.
type Recent interface {
	Refresh(ctx context.Context, now time.Time) error
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
	for now := range tick.Every(ctx, l.Clock, l.Interval) {
		if err := l.Recent.Refresh(ctx, now); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Reading what pods use lately; asking again at the next tick")
		}
	}
	return nil
}

// NeedLeaderElection is true: one replica asks the source.
func (l *RecentLoop) NeedLeaderElection() bool { return true }
