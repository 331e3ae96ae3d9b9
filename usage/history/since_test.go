package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/recommender"
)

// A namespace is deleted and created again with the same names: usage from before belongs to other programs.
func TestUsageOfAFormerNamespaceIsDropped(t *testing.T) {
	created := now.Add(-time.Hour)
	for name, before := range map[string]bool{"known before": true, "the policy was deleted with it": false} {
		t.Run(name, func(t *testing.T) {
			old := between(now.Add(-24*time.Hour), created, 4)
			pod := web("aaaaa", func(at time.Time) (float64, bool) {
				if value, ok := old(at); ok {
					return value, ok
				}
				return 0.2, at.After(created)
			})
			pod.memory = between(now.Add(-24*time.Hour), created, 8<<30)
			source := &fake{pods: []fakePod{pod}}
			s := newStore(source)
			if before {
				assert.NoError(t, s.Want(deployment("web")))
				fill(t, s, now)
				assert.Equal(t, 288, profile(t, s, now).Of[recommender.CPU].Points)
			}
			again := deployment("web")
			again.Since = created
			assert.NoError(t, s.Want(again))
			fill(t, s, now)
			p := profile(t, s, now)
			assert.Equal(t, 12, p.Of[recommender.CPU].Points)
			assert.InDelta(t, 200, float64(p.Of[recommender.CPU].Peak), 1, "millicores")
			assert.Zero(t, p.Of[recommender.Memory].Points)
		})
	}
}
