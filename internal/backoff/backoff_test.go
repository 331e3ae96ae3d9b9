package backoff

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWaitDoublesUpToItsMost(t *testing.T) {
	var waits []time.Duration
	for failures := range 7 {
		waits = append(waits, Wait(time.Second, 10*time.Second, failures))
	}
	assert.Equal(t, []time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second}, waits)
	assert.Equal(t, time.Minute, Wait(time.Hour, time.Minute, 1<<40))
}
