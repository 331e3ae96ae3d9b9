package workload

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/podview"
	"attune.io/attune/tuning"
)

// mostRecent is how many changes are remembered, for passes that were running when they happened. A pass that missed
// more is treated as if its topic had changed.
const mostRecent = 1024

// waiting records which workloads wait for which topics, in both directions: on by topic, by by workload. If it is
// lost after a restart, every workload is reconciled anyway. mutex guards all fields; an entry exists only while its
// workload waits.
type waiting struct {
	mutex sync.Mutex
	on    map[tuning.Topic]map[types.NamespacedName]bool
	by    map[types.NamespacedName][]tuning.Topic
	// recent are the last changes, and changes counts all changes so far.
	recent  []tuning.Topic
	changes int
}

// now returns the number of changes so far. A pass calls it before its first read, to compare it later.
func (x *waiting) now() int {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.changes
}

// wait replaces the topics that a workload waits for. It reports whether one of these topics has changed since a
// count (now): the pass may then have read the old state, and the event that would wake the workload has already
// passed.
func (x *waiting) wait(workload types.NamespacedName, topics []tuning.Topic, since int) (changed bool) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	for _, t := range x.by[workload] {
		if delete(x.on[t], workload); len(x.on[t]) == 0 {
			delete(x.on, t)
		}
	}
	delete(x.by, workload)
	if len(topics) == 0 {
		return false
	}
	podview.SetIn(&x.by, workload, topics)
	for _, t := range topics {
		on := x.on[t]
		podview.SetIn(&on, workload, true)
		podview.SetIn(&x.on, t, on)
	}
	return x.anyOf(topics, since)
}

// anyOf reports whether one of the topics changed since a count; the caller holds the mutex.
func (x *waiting) anyOf(topics []tuning.Topic, since int) bool {
	missed := x.changes - since
	if missed > len(x.recent) {
		return true
	}
	return slices.ContainsFunc(x.recent[len(x.recent)-missed:], func(t tuning.Topic) bool { return slices.Contains(topics, t) })
}

// wake records a change and returns the workloads that wait for it, in the same order each time.
func (x *waiting) wake(t tuning.Topic) []reconcile.Request {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.changes++
	x.recent = append(x.recent, t)
	x.recent = x.recent[max(0, len(x.recent)-mostRecent):]
	var woken []reconcile.Request
	for workload := range x.on[t] {
		woken = append(woken, reconcile.Request{NamespacedName: workload})
	}
	slices.SortFunc(woken, func(a, b reconcile.Request) int { return strings.Compare(a.String(), b.String()) })
	return woken
}
