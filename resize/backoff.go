package resize

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

const (
	// mostBackoff caps how much reverts lengthen the cooldown, and refusals the time until the same is asked again.
	mostBackoff = 16
	// degradedReverts of the last degradedOf resizes make a workload degraded.
	degradedReverts, degradedOf = 3, 5
)

// CooldownLeft is how much of a workload's cooldown is left. It runs from the end of the last wave's
// watch, and is doubled for each consecutive revert, at most 16 times. A base of zero has no cooldown.
func CooldownLeft(from *metav1.Time, backoff *v1alpha1.Backoff, rules Rules, now time.Time) time.Duration {
	if from == nil {
		return 0
	}
	var reverts int32
	if backoff != nil {
		reverts = backoff.ConsecutiveReverts
	}
	return max(0, from.Add(doubled(rules.Cooldown, reverts)).Sub(now))
}

// CoolsDown: a workload cools down after a resize that was finished so. One that its node would not have changed
// nothing, so that what is tried next need not wait for it, and the same is not tried again soon
// (triedLately). Where the pod was to go in the end, the next one would be asked to go at once.
func CoolsDown(record v1alpha1.ResizeRecord, action Action, rules Rules) bool {
	return action.Result != ResultWithdrawn || action.Reason != ReasonInfeasible || worthEvicting(record, rules)
}

// doubled so many times, up to mostBackoff times as long.
func doubled(wait time.Duration, times int32) time.Duration {
	factor := time.Duration(1)
	for i := int32(0); i < times && factor < mostBackoff; i++ {
		factor *= 2
	}
	return wait * factor
}

// MoreBackoff counts one more consecutive revert. What was begun before the last one was decided is of the same trial,
// whose pods are harmed one after the other, and counts once.
func MoreBackoff(backoff *v1alpha1.Backoff, reverted v1alpha1.ResizeRecord, now time.Time) *v1alpha1.Backoff {
	more := v1alpha1.Backoff{ConsecutiveReverts: 1, Since: metav1.NewTime(now)}
	switch {
	case backoff == nil:
	case !begun(reverted).After(backoff.Since.Time):
		return backoff
	default:
		more.ConsecutiveReverts += backoff.ConsecutiveReverts
	}
	return &more
}

// EndsBackoff: a survived resize that was begun after the last revert ends the back-off. One that was begun before
// is of the trial that was reverted.
func EndsBackoff(backoff *v1alpha1.Backoff, survived v1alpha1.ResizeRecord) bool {
	return backoff != nil && begun(survived).After(backoff.Since.Time)
}

// begun is when a resize was decided; its second patch may have been written long after.
func begun(record v1alpha1.ResizeRecord) time.Time {
	if record.Begun != nil {
		return record.Begun.Time
	}
	return record.WrittenAt.Time
}

// Degraded: 3 of the last 5 resizes of a workload were reverted. The history is newest first and has a
// row per container; rows of one pod at one time are one resize. Resizes that no pod ran with say
// nothing about their sizes and are not counted, nor are boosts that were taken back: they come with each new
// pod.
func Degraded(history []v1alpha1.HistoryEntry) bool {
	type resize struct {
		pod string
		at  int64
	}
	seen, reverted := map[resize]bool{}, 0
	for _, row := range history {
		id := resize{row.Pod, row.Timestamp.Unix()}
		if seen[id] || row.Reason == ReasonBoost || row.Result != ResultSuccess && row.Result != ResultReverted {
			continue
		}
		seen[id] = true
		if row.Result == ResultReverted {
			reverted++
		}
		if len(seen) == degradedOf {
			break
		}
	}
	return reverted >= degradedReverts
}
