package usage

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type counts struct {
	containers int
	refused    map[string]int
}

func (counts) Refresh(context.Context, time.Time) error { return nil }
func (c counts) Followed() (int, map[string]int)        { return c.containers, c.refused }

// Containers that are not followed are shown by namespace, until there is room.
func TestWhatIsNotFollowedIsShown(t *testing.T) {
	shown := func() (containers float64, refused map[string]float64) {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(followed, refusals)
		families, err := registry.Gather()
		require.NoError(t, err)
		refused = map[string]float64{}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if family.GetName() == "attune_usage_recent_containers" {
					containers = m.GetGauge().GetValue()
					continue
				}
				refused[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
		return containers, refused
	}
	show(counts{7, map[string]int{"greedy": 3}})
	containers, refused := shown()
	assert.EqualValues(t, 7, containers)
	assert.Equal(t, map[string]float64{"greedy": 3}, refused)
	show(counts{8, nil})
	containers, refused = shown()
	assert.EqualValues(t, 8, containers)
	assert.Empty(t, refused)
}
