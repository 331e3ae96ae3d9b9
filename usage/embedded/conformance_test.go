package embedded

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"attune.io/attune/usage/usagetest"
)

// Measured and World are what a simulated kubelet measures.
type (
	Measured = usagetest.Measured
	World    = usagetest.World
)

var noon = usagetest.Noon

// TestConformance scrapes a simulated kubelet minute by minute and queries its usage.
func TestConformance(t *testing.T) {
	usagetest.TestEvaluator(t, func(t *testing.T, past usagetest.Past) *fixture {
		f := newFixture(t, past.World, past.From)
		measure(t, f, past)
		return f
	})
}

// measure a past like the loop does.
func measure(t *testing.T, f *fixture, past usagetest.Past) {
	t.Helper()
	for at := past.From; !at.After(past.To); at = at.Add(past.Every) {
		pods := map[Pod]bool{}
		for _, m := range past.World(at) {
			pods[Pod{m.Namespace, m.Pod}] = true
		}
		require.NoError(t, f.scrapeAt(at, pods))
	}
	require.Equal(t, past.To, f.clock.Now().Truncate(time.Minute))
}
