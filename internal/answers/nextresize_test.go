package answers_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
)

func TestNextResizeHasATimeOrAReason(t *testing.T) {
	rec := &v1alpha1.AttuneRecommendation{}
	assert.Empty(t, answers.NextResize(rec))
	rec.Status.NextResize = &v1alpha1.NextResize{Reason: "Quota"}
	assert.Equal(t, "Next resize: no time is known (Quota).", answers.NextResize(rec))
	rec.Status.NextResize.At = &metav1.Time{Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	assert.Equal(t, "Next resize: not before 2026-03-01T12:00:00Z (Quota).", answers.NextResize(rec))
}

func TestNextResizeSaysWhatItWaitsFor(t *testing.T) {
	at := &metav1.Time{Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	for want, next := range map[string]v1alpha1.NextResize{
		"Next resize: not before 2026-03-01T12:00:00Z (Observation). attune observes the last resize until then, and reverts it after a regression.": {Reason: "Observation", At: at},
		"Next resize: no time is known (InProgress). It follows after the resize in progress is accepted and observed.":                              {Reason: "InProgress"},
		"Next resize: not before 2026-03-01T12:00:00Z (CooldownActive).":                                                                             {Reason: "CooldownActive", At: at},
	} {
		assert.Equal(t, want, answers.NextResize(&v1alpha1.AttuneRecommendation{Status: v1alpha1.AttuneRecommendationStatus{NextResize: &next}}))
	}
}

func TestDueIn(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for in, want := range map[time.Duration]string{
		-time.Hour: "now", 0: "now", time.Second: "in 1m", time.Minute: "in 1m", 119*time.Minute + time.Second: "in 120m", 2*time.Hour + time.Minute: "in 3h",
		72 * time.Hour: "in 72h", 72*time.Hour + time.Second: "in 4d", 720 * time.Hour: "in 30d", 100000 * time.Hour: "in 4167d",
	} {
		assert.Equal(t, want, answers.DueIn(&metav1.Time{Time: now.Add(in)}, now), in.String())
	}
	assert.Empty(t, answers.DueIn(nil, now))
}
