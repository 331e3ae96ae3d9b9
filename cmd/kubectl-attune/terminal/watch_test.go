package terminal

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var errFinding, errBroken = errors.New("finding"), errors.New("broken")

func TestRunEndsWithTheContextOrAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	rounds := 0
	assert.NoError(t, NewWatch(time.Millisecond).Run(ctx, errFinding, func() error {
		if rounds++; rounds == 3 {
			cancel()
			return context.Canceled
		}
		return errFinding
	}))
	assert.Equal(t, 3, rounds)
	assert.ErrorIs(t, NewWatch(time.Millisecond).Run(t.Context(), errFinding, func() error { return errBroken }), errBroken)
}

func TestOnlyWhatIsNewIsWritten(t *testing.T) {
	w := NewWatch(0)
	type answer struct {
		Of  int
		age int
	}
	for i, c := range []struct {
		answer         answer
		changed, first bool
	}{{answer{1, 1}, true, true}, {answer{1, 2}, false, false}, {answer{2, 2}, true, false}, {answer{1, 3}, true, false}} {
		changed, first, err := w.Changed(c.answer)
		require.NoError(t, err)
		assert.Equal(t, [2]bool{c.changed, c.first}, [2]bool{changed, first}, i)
	}
}
