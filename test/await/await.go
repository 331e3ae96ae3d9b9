// Package await waits for conditions, for the tests and programs of this module.
package await

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// final is an error that no waiting will mend.
type final struct{ error }

// Unwrap returns the error itself.
func (f final) Unwrap() error { return f.error }

// Final marks an error of a check after which Until does not check again.
func Final(err error) error { return final{err} }

// Until calls check until it returns nil, a Final error, or until the limit is over or the context ends. A limit of zero
// is none. The error says what was waited for and what was missing last.
func Until(ctx context.Context, what string, limit, every time.Duration, check func(context.Context) error) error {
	given := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	began := time.Now()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if errors.As(err, &final{}) {
			return fmt.Errorf("%s: %w", what, err)
		}
		select {
		case <-ctx.Done():
			if given.Err() != nil {
				return fmt.Errorf("%s: %w: %w", what, given.Err(), err)
			}
			return fmt.Errorf("%s: not within %s: %w", what, time.Since(began).Round(time.Second), err)
		case <-tick.C:
		}
	}
}
