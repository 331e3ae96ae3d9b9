package main

import (
	"context"
	"fmt"
	"time"
)

// patience is how long most things may take, on a slow machine.
const patience = 5 * time.Minute

// await calls check until it returns nil. The error says what was waited for and what was missing last.
func (d *demo) await(ctx context.Context, what string, limit time.Duration, check func(context.Context) error) error {
	began := time.Now()
	defer d.screen.waiting(what, began, true)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		d.screen.waiting(what, began, false)
		if time.Since(began) > limit {
			return fmt.Errorf("%s: not within %v: %w", what, limit, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
