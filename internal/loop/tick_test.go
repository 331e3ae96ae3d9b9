package loop

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	clocktesting "k8s.io/utils/clock/testing"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// rounds returns the start of each round of a loop with a tick per minute. After each round that many minutes pass. The
// context ends in the last round.
func rounds(t *testing.T, passing ...int) (began []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	clock := clocktesting.NewFakeClock(noon)
	for now := range Every(ctx, clock, time.Minute) {
		began = append(began, now.Sub(noon))
		if len(began) > len(passing) {
			cancel()
			continue
		}
		for range passing[len(began)-1] {
			clock.Step(time.Minute)
		}
	}
	return began
}

func TestEvery(t *testing.T) {
	assert.Equal(t, []time.Duration{0}, rounds(t), "the first round waits for nothing")
	assert.Equal(t, []time.Duration{0, time.Minute, 2 * time.Minute}, rounds(t, 1, 1))
	assert.Equal(t, []time.Duration{0, 3 * time.Minute, 4 * time.Minute}, rounds(t, 3, 1), "what a long round missed is made good once")
}

func TestEveryEndsWithItsReader(t *testing.T) {
	n := 0
	for range Every(t.Context(), clocktesting.NewFakeClock(noon), time.Minute) {
		n++
		break
	}
	assert.Equal(t, 1, n)
}
