package resize

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

const (
	// mostBackoff is the greatest factor by which reverts lengthen the cooldown and refusals the wait before the
	// same resize is tried again. Without it a workload with many reverts would be left alone for ever.
	mostBackoff = 16
	// A workload is degraded when degradedReverts of its last degradedOf resizes were reverted.
	degradedReverts, degradedOf = 3, 5
)

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
	return max(0, from.Add(doubled(rules.Cooldown, reverts)).Sub(now))
}

// CoolsDown reports whether the workload cools down after a resize that ended with this action. A resize that its
// node refused (Infeasible) changed nothing: another size may be tried at once, and the same size is held back by
// the tries (triedLately). The exception is a pod that is worth evicting: without the cooldown the next pod would
// be evicted right after it.
func CoolsDown(record v1alpha1.ResizeRecord, action Action, rules Rules) bool {
	return action.Result != ResultWithdrawn || action.Reason != ReasonInfeasible || worthEvicting(record, rules)
}

// doubled returns the wait, doubled as many times as given, and at most mostBackoff times as long.
func doubled(wait time.Duration, times int32) time.Duration {
	factor := time.Duration(1)
	for i := int32(0); i < times && factor < mostBackoff; i++ {
		factor *= 2
	}
	return wait * factor
}

// MoreBackoff counts one more consecutive revert. The pods of one trial are harmed one after the other; a resize
// that was begun before the last counted revert belongs to the same trial and does not count again. The argument
// is not changed.
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

// EndsBackoff reports whether a survived resize ends the back-off: it does where it was begun after the last
// revert. A resize that was begun before belongs to the trial that was reverted and proves nothing about the sizes
// that are tried since.
func EndsBackoff(backoff *v1alpha1.Backoff, survived v1alpha1.ResizeRecord) bool {
	return backoff != nil && begun(survived).After(backoff.Since.Time)
}

// begun is the time at which a resize was decided. WrittenAt alone is not: it is renewed by the second patch
// (secondPatch).
func begun(record v1alpha1.ResizeRecord) time.Time {
	if record.Begun != nil {
		return record.Begun.Time
	}
	return record.WrittenAt.Time
}

// Degraded reports whether 3 of the last 5 resizes of a workload were reverted. The history is newest first and
// has one row for each container; rows of one pod at one time are one resize. Only results Success and Reverted
// count, since no pod ran with the size of the others. Ends of boosts do not count either: they come with each new
// pod and would push everything else out of the last five.
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
