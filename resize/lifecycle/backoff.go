package lifecycle

import (
	"time"

	"attune.io/attune/resize"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

// A workload is degraded when degradedReverts of its last degradedOf resizes were reverted.
const degradedReverts, degradedOf = 3, 5

// CoolsDown reports whether the workload cools down after a resize that ended with this action. A resize that its
// node refused (Infeasible) changed nothing: another size may be tried at once, and the same size is held back by
// the tries (triedLately). The exception is a pod that is worth evicting: without the cooldown the next pod would
// be evicted right after it.
func CoolsDown(record v1alpha1.ResizeRecord, action Action, rules resize.Rules) bool {
	return action.Result != ResultWithdrawn || action.Reason != resize.ReasonInfeasible || worthEvicting(record, rules)
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
	type one struct {
		pod string
		at  int64
	}
	seen, reverted := map[one]bool{}, 0
	for _, row := range history {
		id := one{row.Pod, row.Timestamp.Unix()}
		if seen[id] || row.Reason == resize.ReasonBoost || row.Result != ResultSuccess && row.Result != ResultReverted {
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
