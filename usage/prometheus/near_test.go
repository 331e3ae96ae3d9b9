package prometheus

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
)

// A server is asked who is close to a limit, and then about those pods alone; the times are those of the measurements.
func TestNearAsksAboutWhoIsCloseAlone(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	var asked []string
	var fails error
	n := &Near{Scope: ScopeOf(map[string]string{"cluster": "eu-1"}), Ask: func(_ context.Context, expression string, q usage.Query, yield func(Element)) (Said, error) {
		asked = append(asked, expression)
		of := Labels{Namespace: "shop", Pod: "web-1", Container: "app"}
		at := func(ago time.Duration, value float64) usage.Sample {
			return usage.Sample{At: q.End.Add(-ago).UnixMilli(), Value: value}
		}
		measured := func(ago time.Duration) float64 { return float64(now.Add(-ago).Unix()) }
		switch {
		case fails != nil:
			return Said{}, fails
		case strings.Contains(expression, "container_spec_memory_limit_bytes"):
			yield(Element{Labels: of, Samples: []usage.Sample{at(0, 0.7)}})
		case strings.Contains(expression, "timestamp("):
			yield(Element{Labels: of, Samples: []usage.Sample{at(45*time.Second, measured(50*time.Second)), at(30*time.Second, measured(50*time.Second)), at(15*time.Second, measured(20*time.Second))}})
		default:
			yield(Element{Labels: of, Samples: []usage.Sample{at(45*time.Second, 100), at(30*time.Second, 100), at(15*time.Second, 200)}})
		}
		return Said{}, nil
	}}
	traces, err := n.Lately(t.Context(), "shop", []string{"web-1", "web-2"}, now)
	require.NoError(t, err)
	assert.Empty(t, traces)
	assert.Empty(t, asked, "none is known to be close")

	pods, err := n.Refresh(t.Context(), now)
	require.NoError(t, err)
	assert.Equal(t, []NearPod{{"shop", "web-1"}}, pods)
	assert.Contains(t, asked[0], `cluster="eu-1"`)
	traces, err = n.Lately(t.Context(), "shop", []string{"web-1", "web-2"}, now)
	require.NoError(t, err)
	require.Len(t, asked, 3)
	assert.NotContains(t, asked[1], "web-2")
	assert.Equal(t, usage.Traces{"web-1": {"app": {Samples: []usage.Sample{
		{At: now.Add(-50 * time.Second).UnixMilli(), Value: 100}, {At: now.Add(-20 * time.Second).UnixMilli(), Value: 200},
	}}}}, traces)

	fails = errors.New("no server")
	_, err = n.Lately(t.Context(), "shop", []string{"web-1"}, now)
	require.Error(t, err)
	_, err = n.Refresh(t.Context(), now)
	require.Error(t, err)
	fails = nil
	_, err = n.Refresh(t.Context(), now.Add(time.Hour))
	require.NoError(t, err)
	assert.Len(t, n.seen, 1)
}
