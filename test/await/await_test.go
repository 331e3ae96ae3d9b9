package await_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/test/await"
)

func TestUntil(t *testing.T) {
	missing, broken := errors.New("it is missing"), errors.New("it is broken")
	for name, tc := range map[string]struct {
		check func(n int) error
		calls int
		after time.Duration
		err   string
	}{
		"at once":       {func(int) error { return nil }, 1, 0, ""},
		"the third":     {func(n int) error { return map[bool]error{true: missing}[n < 3] }, 3, 2 * time.Second, ""},
		"never":         {func(int) error { return missing }, 10, 9500 * time.Millisecond, "the pod: not within 10s: it is missing"},
		"final":         {func(int) error { return await.Final(broken) }, 1, 0, "the pod: it is broken"},
		"final, second": {func(n int) error { return map[bool]error{true: missing, false: await.Final(broken)}[n < 2] }, 2, time.Second, "the pod: it is broken"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls, began := 0, time.Now()
				err := await.Until(t.Context(), "the pod", 9500*time.Millisecond, time.Second, func(context.Context) error {
					calls++
					return tc.check(calls)
				})
				if tc.err == "" {
					assert.NoError(t, err)
				} else {
					assert.EqualError(t, err, tc.err)
				}
				assert.Equal(t, tc.calls, calls)
				assert.Equal(t, tc.after, time.Since(began))
			})
		})
	}
}
