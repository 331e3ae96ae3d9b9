package loop

import (
	"context"
	"iter"
	"time"

	"k8s.io/utils/clock"
)

// Every begins a round at once, and one at every tick of an interval after that, until the context ends; it yields
// the time at which the round begins. Rounds never overlap: of the ticks that come during one, the first is made good at
// once, and the others are lost.
func Every(ctx context.Context, c clock.WithTicker, interval time.Duration) iter.Seq[time.Time] {
	return func(round func(time.Time) bool) {
		ticker := c.NewTicker(interval)
		defer ticker.Stop()
		for round(c.Now()) {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C():
			}
		}
	}
}
