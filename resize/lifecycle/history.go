package lifecycle

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Methods by which a size was set.
const (
	MethodInPlace  = "InPlace"
	MethodEviction = "Eviction"
)

// HistoryRows returns the rows of a closed record for the history: one per container in the record. An empty result has
// no rows, since nothing was tried, or the pod was replaced for another reason.
func HistoryRows(workload string, record v1alpha1.ResizeRecord, result, reason string, now time.Time) []v1alpha1.HistoryEntry {
	if result == "" {
		return nil
	}
	method := MethodInPlace
	if result == ResultEvicted {
		method = MethodEviction
	}
	var rows []v1alpha1.HistoryEntry
	for _, c := range resize.Changes(record) {
		what, from, to := describe(c.Prior, c.Desired)
		if what == "" && Leaving(record) {
			what, from = recommender.CPU.String(), recommender.Format(recommender.CPU, c.Prior[recommender.CPU].Request)
			to = from
		}
		rows = append(rows, v1alpha1.HistoryEntry{
			Timestamp: metav1.NewTime(now), Workload: workload, Pod: record.PodName, Container: c.Container,
			Resource: what, From: from, To: to, Method: method, Result: result, Reason: reason,
		})
	}
	return rows
}

// AddHistory puts rows in front of a history and keeps the newest v1alpha1.MaxHistory rows. Neither argument is
// changed. Rows of a resize.StartPlan replace equal ones (WithoutRows), since it is repeated until the container runs.
func AddHistory(history, rows []v1alpha1.HistoryEntry) []v1alpha1.HistoryEntry {
	if len(rows) > 0 && rows[0].Reason == resize.ReasonNotRunning {
		history = WithoutRows(history, rows)
	}
	all := append(append([]v1alpha1.HistoryEntry{}, rows...), history...)
	return all[:min(len(all), v1alpha1.MaxHistory)]
}

// WithoutRows returns a history without the entries that equal one of the rows, apart from the time. A repeated refusal
// then has only the newest row, and does not push other rows out of the history.
func WithoutRows(history, rows []v1alpha1.HistoryEntry) []v1alpha1.HistoryEntry {
	return slices.DeleteFunc(slices.Clone(history), func(old v1alpha1.HistoryEntry) bool {
		return slices.ContainsFunc(rows, func(row v1alpha1.HistoryEntry) bool {
			row.Timestamp = old.Timestamp
			return row == old
		})
	})
}

// describe names the resources that changed, with their requests before and after, or their limits if only those
// changed.
func describe(from, to recommender.Size) (what, before, after string) {
	for _, r := range recommender.Resources {
		if from[r] == to[r] {
			continue
		}
		a, b, note := from[r].Request, to[r].Request, ""
		if a == b {
			a, b, note = from[r].Limit, to[r].Limit, "limit "
		}
		if what != "" {
			what, before, after = what+"+", before+", ", after+", "
		}
		what += r.String()
		before += note + recommender.Format(r, a)
		after += note + recommender.Format(r, b)
	}
	return what, before, after
}

// A workload is degraded when degradedReverts of its last degradedOf resizes were reverted.
const degradedReverts, degradedOf = 3, 5

// CoolsDown reports whether the workload's cooldown starts after a resize that ended with this action. A resize that
// its node refused (Infeasible) changed nothing: another size may be tried at once, and the tries block the same size
// (triedLately). The exception is a pod that is worth evicting: without the cooldown the next pod would be evicted
// right after it. The start of a container (resize.StartPlan) delays no other pod either.
func CoolsDown(record v1alpha1.ResizeRecord, action Action, rules resize.Rules) bool {
	if action.Reason == resize.ReasonNotRunning && resize.Restores(record.Wave) {
		return false
	}
	return action.Result != ResultWithdrawn || action.Reason != resize.ReasonInfeasible || worthEvicting(record, rules)
}

// MoreBackoff counts one more consecutive revert. The pods of one trial have their regressions one after the other; a
// resize that began before the last counted revert belongs to the same trial and does not count again. The argument is
// not changed.
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

// EndsBackoff reports whether a verified resize ends the backoff: it does if it began after the last revert. A resize
// that began before belongs to the reverted trial and proves nothing about the sizes that are tried since.
func EndsBackoff(backoff *v1alpha1.Backoff, survived v1alpha1.ResizeRecord) bool {
	return backoff != nil && begun(survived).After(backoff.Since.Time)
}

// begun returns the time at which a resize was decided. WrittenAt does not always have it: the second patch renews it
// (secondPatch).
func begun(record v1alpha1.ResizeRecord) time.Time {
	return ptr.Deref(record.Begun, record.WrittenAt).Time
}

// Degraded reports whether 3 of the last 5 resizes of a workload were reverted. The history is newest first and has one
// row per container; rows of one pod at one time are one resize. Only the results Success and Reverted count, since
// with other results no pod ran with the size. Ends of boosts do not count either: every new pod has one, and they
// would replace all other resizes among the last five.
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
