package withdraw

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestWithdrawalLastsUntilItsEndAndWhileAPodIsTried(t *testing.T) {
	at := func(until time.Duration, trial string, without bool) *v1alpha1.AdmissionWithdrawn {
		return &v1alpha1.AdmissionWithdrawn{Until: metav1.NewTime(now.Add(until)), TrialPod: trial, RejectedWithout: without}
	}
	assert.False(t, Stands(nil, now))
	assert.True(t, Stands(at(time.Second, "", false), now))
	assert.False(t, Stands(at(0, "", false), now))
	assert.True(t, Stands(at(0, "web-1", false), now))
	assert.True(t, Stands(at(0, "", true), now))
}

func TestWordsAreCleanAndBounded(t *testing.T) {
	assert.Equal(t, "a b", Words(" a\nb\x00 "))
	for _, text := range []string{strings.Repeat("x", 5000), strings.Repeat("ä", 5000), strings.Repeat("\xff", 5000), ""} {
		words := Words(text)
		assert.LessOrEqual(t, len(words), 256)
		assert.NotContains(t, words, "�")
	}
}

// Requests exceed a quota; the other amounts that it counts do not matter.
func TestQuotaCountsForRaisedResources(t *testing.T) {
	raises := SeedEffect{Raises: true}
	assert.True(t, MayReject(`exceeded quota: q, requested: limits.memory=2Gi, used: limits.memory=0, limited: limits.memory=1Gi`, raises))
	assert.False(t, MayReject(`exceeded quota: q, requested: count/pods=1, used: count/pods=1,limits.memory=1, limited: count/pods=1`, raises))
	assert.False(t, MayReject(`exceeded quota: q, requested: limits.memory=2Gi, used: limits.memory=0`, SeedEffect{Lowers: true}))
	assert.False(t, MayReject(`failed quota: q: must specify limits.cpu for: app`, raises))
}
