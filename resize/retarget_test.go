package resize_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	. "attune.io/attune/resize"
)

func TestRejectedTargets(t *testing.T) {
	const hpa = "HorizontalPodAutoscaler web"
	at := noon
	var tries []v1alpha1.Try
	for _, hours := range []time.Duration{1, 2, 4, 8, 16, 24, 24} {
		rejected := RejectedTarget{Of: hpa, To: 40, Message: "forbidden", At: at}
		tries = TargetRejected(tries, rejected, at)
		require.Len(t, tries, 1)
		assert.Equal(t, at.Add(hours*time.Hour), tries[0].Until.Time)
		again := rejected
		again.At = at.Add(hours*time.Hour - time.Minute)
		assert.Equal(t, tries, TargetRejected(tries, again, again.At), "an active row stays")
		at = at.Add(hours * time.Hour).Add(time.Minute)
		assert.Equal(t, tries, TargetRejected(tries, rejected, at), "nothing was tried since")
		assert.True(t, RefusesTarget(tries[0], at), "no dry run has been accepted")
		assert.False(t, RefusesTarget(tries[0], at.Add(24*time.Hour)))
	}
	assert.Nil(t, TargetRow(tries, "HorizontalPodAutoscaler other"))
	assert.Empty(t, TargetAccepted(tries, hpa))

	setBack := TargetRejected(nil, RejectedTarget{Of: hpa, At: noon, Until: noon.Add(3 * time.Hour)}, noon)
	assert.Equal(t, setBack, TargetAccepted(setBack, hpa), "another change proves nothing")
	assert.True(t, RefusesTarget(setBack[0], noon.Add(179*time.Minute)))
	assert.False(t, RefusesTarget(setBack[0], noon.Add(180*time.Minute)))
}
