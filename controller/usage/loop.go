// Package usage is the tick that brings usage history from its source into the
// store. It runs on the leader.
package usage

import (
	"context"
	"time"

	"k8s.io/utils/clock"

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
