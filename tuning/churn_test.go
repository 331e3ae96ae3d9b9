package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize/harm"
	"attune.io/attune/tuning"
)

// Pods that admission does not size are resized to the step's size as they come. If each of them began the cooldown
// again, a workload with new pods every half hour would never make its next step.
func TestPodsOfACooldownDoNotExtendIt(t *testing.T) {
	before := metav1.NewTime(now.Add(-30 * time.Minute))
	for name, tc := range map[string]struct {
		created, begun time.Duration
		backoff        bool
		cools          bool
	}{
		"a pod of the cooldown":            {created: -20 * time.Minute, begun: -10 * time.Minute},
		"a pod of before":                  {created: -40 * time.Minute, begun: -10 * time.Minute, cools: true},
		"a step after the cooldown":        {created: -20 * time.Minute, begun: -10 * time.Minute, cools: true},
		"a pod of the cooldown of reverts": {created: -20 * time.Minute, begun: -10 * time.Minute, backoff: true, cools: true},
	} {
		w := resized(t, v1alpha1.RecordWatching, sizeOf(300, 0, 512, 0))
		w.Policy.Settings.Resize.Cooldown = time.Hour
		if name == "a step after the cooldown" {
			w.Policy.Settings.Resize.Cooldown = 15 * time.Minute
		}
		if tc.backoff {
			w.Rec.Status.Backoff = &v1alpha1.Backoff{ConsecutiveReverts: 1, Since: metav1.NewTime(now)}
		}
		w.Rec.Status.CooldownFrom = &before
		w.Pods[0].CreationTimestamp = metav1.NewTime(now.Add(tc.created))
		record := &w.Rec.Status.Records[0]
		record.WrittenAt = metav1.NewTime(now.Add(tc.begun))
		record.VerifiedOnce, record.WatchUntil = &metav1.Time{Time: now.Add(-6 * time.Minute)}, &metav1.Time{Time: now}
		w.Usage.Signals = map[string]harm.Signals{"web-1": {NodeBusy: 0.5}}
		d := tuning.Decide(w)
		assert.Len(t, d.Status.History, 1, name)
		want := before.Time
		if tc.cools {
			want = now
		}
		assert.Equal(t, want, d.Status.CooldownFrom.Time, name)
	}
}
