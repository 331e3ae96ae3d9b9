package autoscale_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/recommender"
)

// TestKeepHoldsForEarlierBounds: a schedule sets minReplicas 10 for the day and 2 for the night. At 10, other requests keep
// the number that do not at 2, and pods keep them into the night. So a range holds for the bounds of the last week too.
func TestKeepHoldsForEarlierBounds(t *testing.T) {
	of := func(least int32) autoscale.Autoscalers {
		web := hpa("web", ofPods("cpu", utilization(70)))
		web.Spec.MinReplicas, web.Spec.MaxReplicas = ptr.To(least), 50
		return autoscale.Autoscalers{HPAs: []autoscalingv2.HorizontalPodAutoscaler{web}, MayRetarget: true}
	}
	for setting, f := range map[string]autoscale.Fleet{"Keep": fleet(one, quiet(10, 60)), "Retarget": retargets(map[string]string{"app": "1"})} {
		f.Past = func(string, recommender.Resource) autoscale.Past {
			past := quiet(10, 200)
			past.Spans[0].Least = 180
			past.Until = f.Now
			return past
		}
		why := ""
		pass := func(least int32, rows []v1alpha1.HPABinding, now time.Time) (recommender.Amount, []v1alpha1.HPABinding) {
			f.Now = now
			holds := of(least).Of(web()).WithStored(rows, now).Keep([]string{"app"}, nil, f)
			proof := holds.Kept("app", cpu)
			if proof == nil {
				why = holds.On("app", cpu).Message
				return 1000, holds.Stored()
			}
			why = proof.Below
			return proof.Least, holds.Stored()
		}
		never, _ := pass(10, nil, at)
		night, rows := pass(2, nil, at)
		require.Less(t, never, night, setting)
		day, rows := pass(10, rows, at.Add(time.Hour))
		assert.Equal(t, night, day, setting)
		assert.Contains(t, why, "HorizontalPodAutoscaler web (with minReplicas 2 and maxReplicas 50, as in the last days) would have asked for", setting)
		again, same := pass(10, rows, at.Add(25*time.Hour))
		assert.Equal(t, night, again, setting)
		assert.Equal(t, rows, same, "%s: nothing is written if nothing has changed", setting)
		night2, rows := pass(2, rows, at.Add(26*time.Hour))
		assert.Equal(t, night, night2, setting)
		assert.Nil(t, rows[0].Earlier, "%s: the present bounds are as wide", setting)
		_, rows = pass(10, rows, at.Add(27*time.Hour))
		assert.Equal(t, int32(2), rows[0].Earlier.MinReplicas, setting)
		week, rows := pass(10, rows, at.Add(10*24*time.Hour))
		assert.Equal(t, never, week, "%s: no schedule any more", setting)
		assert.Nil(t, rows[0].Earlier, setting)
	}
}
