package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	. "attune.io/attune/resize/lifecycle"
)

// Case 16: a record that a replica with a clock ahead of ours wrote is due at the intended time, not hours later.
func TestInOurTime(t *testing.T) {
	written := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	record := v1alpha1.ResizeRecord{
		WrittenAt: metav1.NewTime(written), VerifiedOnce: &metav1.Time{Time: written.Add(17 * time.Second)},
		Deadline: &metav1.Time{Time: written.Add(time.Minute)}, WatchUntil: &metav1.Time{Time: written.Add(5 * time.Minute)},
	}
	before := record.DeepCopy()
	for name, c := range map[string]struct {
		now  time.Time
		back time.Duration
	}{
		"the same clock":   {written.Add(20 * time.Second), 0},
		"the same moment":  {written.Add(17 * time.Second), 0},
		"a second behind":  {written.Add(16 * time.Second), time.Second},
		"two hours behind": {written.Add(17*time.Second - 2*time.Hour), 2 * time.Hour},
		"two hours ahead":  {written.Add(2 * time.Hour), 0},
	} {
		t.Run(name, func(t *testing.T) {
			got := InOurTime(record, c.now)
			assert.Equal(t, written.Add(-c.back), got.WrittenAt.Time)
			assert.Equal(t, written.Add(17*time.Second-c.back), got.VerifiedOnce.Time)
			assert.Equal(t, written.Add(time.Minute-c.back), got.Deadline.Time)
			assert.Equal(t, written.Add(5*time.Minute-c.back), got.WatchUntil.Time)
			assert.Equal(t, *before, record, "the record given stays as it is")
			assert.Equal(t, got, InOurTime(got, c.now), "moved once")
		})
	}
	unwatched := InOurTime(v1alpha1.ResizeRecord{WrittenAt: metav1.NewTime(written)}, written.Add(-time.Hour))
	assert.Equal(t, written.Add(-time.Hour), unwatched.WrittenAt.Time)
	assert.Nil(t, unwatched.WatchUntil)
}

func TestNotAhead(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	assert.Nil(t, NotAhead(nil, now))
	for at, want := range map[time.Time]time.Time{
		now: now, now.Add(-time.Hour): now.Add(-time.Hour), now.Add(time.Hour): now,
	} {
		assert.Equal(t, want, NotAhead(&metav1.Time{Time: at}, now).Time)
	}
}
