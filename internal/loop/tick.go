package loop

import (
	"context"
	"iter"
	"time"

	"k8s.io/utils/clock"
)

// Every yields the beginning of each round: the first at once, then one at each tick of the interval,
// until the context ends or the caller leaves the range loop. Rounds never overlap. Of the ticks that come
// during a round, one is made good at once when it ends, and the others are lost. The ticker stops with
// the range loop.
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
