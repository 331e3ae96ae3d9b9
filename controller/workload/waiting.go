package workload

import (
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"attune.io/attune/tuning"
)

// mostRecent changes are remembered, for passes that were under way when they happened.
const mostRecent = 1024

// waiting is which workloads wait for what. It may be lost: after a restart every workload is looked at. It is safe
// for concurrent use.
type waiting struct {
	mutex sync.Mutex
	on    map[tuning.Topic]map[types.NamespacedName]bool
	by    map[types.NamespacedName][]tuning.Topic
	// recent are the last changes, and changes counts all there ever were.
	recent  []tuning.Topic
	changes int
}

// now is a moment to compare changes with.
func (x *waiting) now() int {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.changes
}

// wait replaces what a workload waits for. It reports whether some of that has changed since a moment: then the
// workload may have been looked at too early.
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
	if x.on == nil {
		x.on, x.by = map[tuning.Topic]map[types.NamespacedName]bool{}, map[types.NamespacedName][]tuning.Topic{}
	}
	x.by[workload] = topics
	for _, t := range topics {
		if x.on[t] == nil {
			x.on[t] = map[types.NamespacedName]bool{}
		}
		x.on[t][workload] = true
	}
	return x.anyOf(topics, since)
}

func (x *waiting) anyOf(topics []tuning.Topic, since int) bool {
	missed := x.changes - since
	if missed > len(x.recent) {
		return true
	}
	return slices.ContainsFunc(x.recent[len(x.recent)-missed:], func(t tuning.Topic) bool { return slices.Contains(topics, t) })
}

// wake answers with the workloads that a change concerns, in the same order each time.
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
