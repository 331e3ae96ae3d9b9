package usage

import (
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Query requests the history of every container in some namespaces.
type Query struct {
	// Namespaces to read; without namespaces the answer is empty.
	Namespaces []string
	// PodPrefixes narrow the answer to pods whose names start with one of them; empty: every pod.
	PodPrefixes []string
	// Start and End are the ends of the first and the last step, both included.
	Start, End time.Time
	// Step is the length of a step. Steps end at multiples of it since the epoch, so that all answers have the same
	// steps.
	Step time.Duration
	// Running: Start and End are the same time, within a step that has not ended.
	Running bool
	// RateWindow is the window of the rate of CPU counters.
	RateWindow time.Duration
	// Waited: CPU usage includes the time spent waiting for CPU if that is measured, usage × (1 + waiting rate), as in
	// recommender/node.Waited.
	Waited bool
	// Most is the upper bound of a container's usage; samples above it are dropped. The zero value: no node is known.
	Most Most
	// Of returns the facts about a container, against which its samples are checked too; nil: none are known.
	Of func(namespace, pod, container string) Facts
	// Counted is the end of the steps that were read before; Count counts dropped samples of later steps. nil: they are
	// not counted.
	Counted time.Time
	Count   func(why Drop, n int)
}

// CountDropped makes the query count dropped samples, and returns the counts by reason.
func (q *Query) CountDropped() map[Drop]int {
	counts := map[Drop]int{}
	q.Count = func(why Drop, n int) { counts[why] += n }
	return counts
}

// Drop counts dropped samples: all in a report, and with Count those of steps that were not read before.
func (q *Query) Drop(report *Report, why Drop, samples ...Sample) {
	report.Drop(why, len(samples))
	if q.Count == nil {
		return
	}
	for _, sample := range samples {
		if q.Counted.IsZero() || sample.At > q.Counted.UnixMilli() {
			q.Count(why, 1)
		}
	}
}

// Asked is the subject of a query.
type Asked struct {
	namespaces sets.Set[string]
	// prefixes of pods; empty: every pod.
	prefixes sets.Set[string]
}

// Asked returns the subject of the query.
func (q Query) Asked() Asked {
	return Asked{sets.New(q.Namespaces...), sets.New(q.PodPrefixes...)}
}

// Namespace reports whether the query covers a namespace.
func (a Asked) Namespace(name string) bool { return a.namespaces.Has(name) }

// Pod reports whether the query covers a pod, in a covered namespace. Prefixes end with a dash or have the maximum
// length (PodPrefix).
func (a Asked) Pod(name string) bool {
	if len(a.prefixes) == 0 {
		return true
	}
	for i := range len(name) {
		if name[i] == '-' && a.prefixes.Has(name[:i+1]) {
			return true
		}
	}
	return len(name) >= maxGenerated && a.prefixes.Has(name[:maxGenerated])
}

// maxGenerated is the most characters of a workload's name in its pods' names.
const maxGenerated = 58

// PodPrefix is the common prefix of the names of a workload's pods.
func PodPrefix(workload string) string {
	name := workload + "-"
	return name[:min(len(name), maxGenerated)]
}

// Steps is the number of steps of the query.
func (q Query) Steps() int64 { return StepOf(q.End, q.Step) - StepOf(q.Start, q.Step) + 1 }

// Split cuts the query into consecutive ones of at most limit steps each.
func (q Query) Split(limit int64) []Query {
	if q.Running {
		return []Query{q}
	}
	var parts []Query
	last := StepOf(q.End, q.Step)
	for first := StepOf(q.Start, q.Step); first <= last; first += limit {
		part := q
		part.Start = StepEnd(first, q.Step)
		part.End = StepEnd(min(first+limit-1, last), q.Step)
		parts = append(parts, part)
	}
	return parts
}

// StepOf is the number of the last step that has ended at t. Steps are numbered since the epoch: number n spans
// (n-1)·step, excluded, to n·step, included. Steps are whole milliseconds.
func StepOf(t time.Time, step time.Duration) int64 {
	return floorDiv(t.UnixMilli(), step.Milliseconds())
}

// StepHolding is the number of the step that contains t.
func StepHolding(t time.Time, step time.Duration) int64 {
	return -floorDiv(-t.UnixMilli(), step.Milliseconds())
}

// StepEnd is the end of a step.
func StepEnd(n int64, step time.Duration) time.Time {
	return time.UnixMilli(n * step.Milliseconds()).UTC()
}

func floorDiv(a, b int64) int64 {
	quotient := a / b
	if a%b < 0 {
		quotient--
	}
	return quotient
}
