package tuning

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// The status says when the next resize may start, or what it waits for. Times are absolute and have the resolution of a
// stored time, so that the next reconcile finds the same.
func TestNextResizeIsATimeOrAReason(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds int) *metav1.Time {
		return &metav1.Time{Time: noon.Add(time.Duration(seconds) * time.Second)}
	}
	watched := func(until *metav1.Time) v1alpha1.ResizeRecord {
		return v1alpha1.ResizeRecord{Phase: v1alpha1.RecordWatching, WatchUntil: until}
	}
	cooldown := &resize.Refusal{Reason: resize.ReasonCooldown, Until: noon.Add(time.Hour + time.Millisecond)}
	some := v1alpha1.PodCounts{Total: 3, AtTarget: 1}
	for name, c := range map[string]struct {
		pods    v1alpha1.PodCounts
		open    []v1alpha1.ResizeRecord
		blocked *resize.Refusal
		want    *v1alpha1.NextResize
	}{
		"all at their targets": {v1alpha1.PodCounts{Total: 3, AtTarget: 3}, []v1alpha1.ResizeRecord{watched(at(60))}, nil, nil},
		"no resize is planned": {some, nil, nil, nil},
		"the cooldown":         {some, nil, cooldown, &v1alpha1.NextResize{Reason: "CooldownActive", At: at(3600)}},
		"the observation before the next wave": {
			some, []v1alpha1.ResizeRecord{watched(at(60)), watched(at(90))}, cooldown, &v1alpha1.NextResize{Reason: "Observation", At: at(90)}},
		"a resize in flight": {
			some, []v1alpha1.ResizeRecord{watched(at(60)), {Phase: v1alpha1.RecordWritten}}, nil, &v1alpha1.NextResize{Reason: "InProgress"}},
		"no time": {some, nil, resize.Refuse(resize.ReasonQuota, "full"), &v1alpha1.NextResize{Reason: resize.ReasonQuota}},
		"a time that moves": {
			some, nil, &resize.Refusal{Reason: resize.ReasonMemoryUnknown, Until: noon}, &v1alpha1.NextResize{Reason: resize.ReasonMemoryUnknown}},
	} {
		assert.Equal(t, c.want, nextResize(&c.pods, c.open, c.blocked), name)
	}
}
