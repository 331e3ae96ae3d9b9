package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	. "attune.io/attune/resize"
	. "attune.io/attune/resize/lifecycle"
)

func TestCooldownLeft(t *testing.T) {
	rules := Rules{Cooldown: time.Hour}
	for reverts, want := range map[int32]time.Duration{0: 1, 1: 2, 2: 4, 3: 8, 4: 16, 5: 16, 1 << 30: 16} {
		left := CooldownLeft(ago(0), &v1alpha1.Backoff{ConsecutiveReverts: reverts}, rules, noon)
		assert.Equal(t, want*time.Hour, left, "after %d reverts", reverts)
	}
	assert.Equal(t, time.Hour, CooldownLeft(ago(0), nil, rules, noon))
	assert.Equal(t, time.Minute, CooldownLeft(ago(59*time.Minute), nil, rules, noon))
	assert.Zero(t, CooldownLeft(ago(time.Hour), nil, rules, noon))
	assert.Zero(t, CooldownLeft(ago(48*time.Hour), nil, rules, noon))
	assert.Zero(t, CooldownLeft(nil, &v1alpha1.Backoff{ConsecutiveReverts: 9}, rules, noon), "no wave yet")
	assert.Equal(t, 2*time.Hour, CooldownLeft(ago(-time.Hour), nil, rules, noon), "16: a wave that ended in the future")
}

func TestMoreBackoff(t *testing.T) {
	one := MoreBackoff(nil, recorded(desired), noon)
	assert.Equal(t, &v1alpha1.Backoff{ConsecutiveReverts: 1, Since: metav1.NewTime(noon)}, one)
	later := recorded(desired, func(r *v1alpha1.ResizeRecord) { r.WrittenAt = metav1.NewTime(noon.Add(time.Hour)) })
	assert.Equal(t, int32(2), MoreBackoff(one, later, noon.Add(2*time.Hour)).ConsecutiveReverts)
	assert.Equal(t, one, MoreBackoff(one, recorded(desired), noon.Add(time.Minute)), "another pod of the same trial")
	assert.True(t, EndsBackoff(one, later))
	assert.False(t, EndsBackoff(one, recorded(desired)), "a survivor of the trial that was reverted")
	second := SecondPatch(recorded(desired), noon.Add(time.Hour))
	assert.Equal(t, one, MoreBackoff(one, second, noon.Add(2*time.Hour)), "its second patch came later")
	assert.False(t, EndsBackoff(nil, later))
	assert.Equal(t, int32(1), one.ConsecutiveReverts)
}

func TestDegraded(t *testing.T) {
	rows := func(results ...string) []v1alpha1.HistoryEntry {
		var list []v1alpha1.HistoryEntry
		for i, result := range results {
			for _, container := range []string{"app", "side"} { // one resize has a row per container
				list = append(list, v1alpha1.HistoryEntry{Pod: "web-1", Container: container, Result: result, Timestamp: *ago(time.Duration(i) * time.Minute)})
			}
		}
		return list
	}
	bad, good := ResultReverted, ResultSuccess
	for _, tc := range []struct {
		name    string
		history []v1alpha1.HistoryEntry
		want    bool
	}{
		{"nothing", nil, false},
		{"two reverts", rows(bad, bad), false},
		{"three reverts", rows(bad, bad, bad), true},
		{"three of five", rows(bad, good, bad, good, bad), true},
		{"two of five", rows(bad, good, bad, good, good), false},
		{"the sixth is too old", rows(bad, good, bad, good, good, bad), false},
		{"withdrawn and superseded ones say nothing", rows(bad, ResultWithdrawn, bad, ResultSuperseded, ResultWithdrawn, ResultWithdrawn, bad), true},
	} {
		assert.Equal(t, tc.want, Degraded(tc.history), tc.name)
	}
}
