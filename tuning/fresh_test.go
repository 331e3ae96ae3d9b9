package tuning_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// Targets are as fresh as the newest sample that confirmed them, stored or not.
func TestTargetsAreAsFreshAsTheyWereFound(t *testing.T) {
	size := func(cpu recommender.Amount) recommender.Size {
		return recommender.Size{recommender.CPU: {Request: cpu}, recommender.Memory: {Request: 1 << 30}}
	}
	old, recent := now.Add(-50*time.Minute), now.Add(-4*time.Minute)
	for name, test := range map[string]struct {
		stored, confirmed time.Time
		until             time.Time
		refusal           string
	}{
		"stored just now":               {stored: recent, until: recent},
		"confirmed since":               {stored: old, confirmed: recent, until: recent},
		"stored again since":            {stored: recent, confirmed: old, until: recent},
		"neither":                       {stored: old, until: old, refusal: resize.ReasonStaleData},
		"confirmed as it was":           {stored: old, confirmed: old, until: old, refusal: resize.ReasonStaleData},
		"never measured, whatever else": {confirmed: old},
	} {
		t.Run(name, func(t *testing.T) {
			w := heading(seen(t, size(1000), running("web-1", size(1000))), size(500))
			w.Rec.Spec.DataUntil, w.Usage.Confirmed = nil, test.confirmed
			if !test.stored.IsZero() {
				w.Rec.Spec.DataUntil = &metav1.Time{Time: test.stored}
			}
			assert.Equal(t, test.until, w.DataUntil())
			refusal := tuning.Refused(w).Summary()
			if test.refusal == "" {
				assert.Nil(t, refusal)
				return
			}
			assert.Equal(t, test.refusal, refusal.Reason)
		})
	}
}
