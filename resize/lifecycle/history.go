package lifecycle

import (
	"slices"
	"time"

	"attune.io/attune/resize"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// Methods by which a size came about.
const (
	MethodInPlace  = "InPlace"
	MethodEviction = "Eviction"
)

// HistoryRows returns the rows that a closed record leaves in the history: one for each container that moved. An
// empty result leaves none, since nothing was tried, or the pod was replaced for another reason.
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

// AddHistory puts rows in front of a history and keeps the newest v1alpha1.MaxHistory of all. Neither argument is
// changed.
func AddHistory(history, rows []v1alpha1.HistoryEntry) []v1alpha1.HistoryEntry {
	all := append(append([]v1alpha1.HistoryEntry{}, rows...), history...)
	return all[:min(len(all), v1alpha1.MaxHistory)]
}

// WithoutRows returns a history without the entries that equal one of the rows in everything but their time. A
// refusal that repeats itself then has one row, the newest, and does not push other rows out of the history.
func WithoutRows(history, rows []v1alpha1.HistoryEntry) []v1alpha1.HistoryEntry {
	return slices.DeleteFunc(slices.Clone(history), func(old v1alpha1.HistoryEntry) bool {
		return slices.ContainsFunc(rows, func(row v1alpha1.HistoryEntry) bool {
			row.Timestamp = old.Timestamp
			return row == old
		})
	})
}

// describe names the resources that changed, with their requests before and after, or their limits where only
// those changed.
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
