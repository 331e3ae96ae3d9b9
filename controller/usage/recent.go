package usage

import (
	"context"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
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
	ticker := l.Clock.NewTicker(l.Interval)
	defer ticker.Stop()
	for {
		if err := l.Recent.Refresh(ctx, l.Clock.Now()); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Reading what pods use lately; asking again at the next tick")
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
	}
}

// NeedLeaderElection is true: one replica asks the source.
func (l *RecentLoop) NeedLeaderElection() bool { return true }
