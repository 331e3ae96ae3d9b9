package main

import (
	"context"
	"time"

	"attune.io/attune/test/await"
)

// patience is how long most things may take, on a slow machine.
const patience = 5 * time.Minute

// await calls check until it returns nil. The error says what was waited for and what was missing last.
func (d *demo) await(ctx context.Context, what string, limit time.Duration, check func(context.Context) error) error {
	began := time.Now()
	defer d.screen.waiting(what, began, true)
	return await.Until(ctx, what, limit, 100*time.Millisecond, func(ctx context.Context) error {
		err := check(ctx)
		if err != nil {
			d.screen.waiting(what, began, false)
		}
		return err
	})
}
