package resize

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

// mostBackoff is the greatest factor by which reverts lengthen the cooldown and refusals the wait before the
// same resize is tried again. Without it a workload with many reverts would be left alone for ever.
const mostBackoff = 16

// CooldownLeft is how much of a workload's cooldown is left; 0: the cooldown is over. It runs from the end of the
// last wave's watch (from; nil: no wave yet) and is doubled for each consecutive revert, at most to 16 times its
// length. A base of zero has no cooldown.
func CooldownLeft(from *metav1.Time, backoff *v1alpha1.Backoff, rules Rules, now time.Time) time.Duration {
	if from == nil {
		return 0
	}
	var reverts int32
	if backoff != nil {
		reverts = backoff.ConsecutiveReverts
	}
	return max(0, from.Add(Doubled(rules.Cooldown, reverts)).Sub(now))
}

// doubled returns the wait, doubled as many times as given, and at most mostBackoff times as long.
func Doubled(wait time.Duration, times int32) time.Duration {
	factor := time.Duration(1)
	for i := int32(0); i < times && factor < mostBackoff; i++ {
		factor *= 2
	}
	return wait * factor
}
