package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// highest notes the highest memory limit that a pod of shop/web had, and how often its containers were restarted.
func (w *world) highest(limit *float64, restarts *int32) {
	w.time.every(time.Minute, func() bool {
		for _, pod := range w.podsOf(key2("shop", "deployment-web")) {
			*limit = max(*limit, memoryLimitOf(pod, "app"))
			for _, s := range pod.Status.ContainerStatuses {
				*restarts = max(*restarts, s.RestartCount)
			}
		}
		return true
	})
}

// Usage that follows its limit raises it to twice the template's at most, and the recommendation says so.
func TestLimitsDoNotFollowUsageThatFollowsThem(t *testing.T) {
	for name, c := range map[string]struct {
		plan     plan
		most     float64
		reported bool
	}{
		"with raiseBeforeKill":                     {followsItsLimit(true), 1024 * mib, true},
		"without raiseBeforeKill":                  {followsItsLimit(false), 1024 * mib, true},
		"strategy Node":                            {followsOnNode(true), 1024 * mib, false},
		"strategy Node, the template has no limit": {followsOnNode(false), 2.1 * gib, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var limit float64
			var restarts int32
			script := c.plan.Script
			c.plan.Script = func(w *world) { script(w); w.highest(&limit, &restarts) }
			w := play(t, 0, c.plan)
			assert.LessOrEqual(t, limit, c.most, "%.0fMi", limit/mib)
			assert.Greater(t, limit, 0.0)
			assert.Zero(t, restarts)
			if c.reported {
				assert.Contains(t, reasons(w, key2("shop", "deployment-web")), string(recommender.FollowsItsLimit))
			}
		})
	}
}

// reasons of the holds on a workload's targets.
func reasons(w *world, of types.NamespacedName) (out []string) {
	rec, ok := w.server.Peek(&v1alpha1.AttuneRecommendation{}, of).(*v1alpha1.AttuneRecommendation)
	if !ok {
		return nil
	}
	for _, c := range rec.Spec.Containers {
		for _, h := range c.Holds {
			out = append(out, h.Reason)
		}
	}
	return out
}
