// Package board lets the control loops exchange data in memory: each loop publishes its decisions, and another loop
// reads them. So no loop imports another one.
//
// The published data:
//   - Grants.Publish: the node loop publishes the sizes granted to the pods of a node; the workload loop reads them
//     (Of) and resizes the pods.
//   - Grants.Hold: the workload loop publishes which pods must not be resized or evicted; the node loop reads it (Held,
//     Stays) and shares around these pods.
//   - Confirmed: the policy loop publishes until when stored targets are valid; the workload loop reads it and does not
//     treat these targets as stale.
//
// Ledger, AsItIs and Frozen are the shared rules that decide which pods take part in the sharing of a node. The data is
// lost with the process. The loops publish it again after a start; until then attune neither resizes nor evicts a pod
// for a node (NotLookedAt). The package never calls the API server and starts no loop. Start reading with Grants.
package board

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/recommender"
)

// Pod is the size that the node loop granted to one pod (strategy Node). A published Pod is immutable.
type Pod struct {
	// Recommendation names the AttuneRecommendation of the pod's workload. A changed grant triggers its reconcile.
	Recommendation types.NamespacedName
	// Sizes are the granted sizes by container name, in millicores and bytes. A missing container or an amount of 0
	// stays unchanged.
	Sizes map[string]recommender.Size
	// Evict is why the pod has to leave its node; empty if it stays.
	Evict string
}

// Grants has the grants of all nodes, and the reasons that keep their pods unchanged. It is safe for concurrent use:
// mutex guards all fields. The zero value is empty. Its size is limited by the number of pods with strategy Node in the
// cluster.
type Grants struct {
	mutex sync.RWMutex
	// grants are by pod UID. onNode has the pods of each node: Publish drops pods that left the node.
	grants map[types.UID]Pod
	onNode map[string]map[types.UID]bool
	// held and stays come from the workload loop: pods that must not be resized, and pods that must not be evicted.
	held  marks
	stays marks
	// looked has the workloads that the workload loop has reported at least once since the start.
	looked map[types.NamespacedName]bool
}

// NotLookedAt is why a pod stays unchanged until the workload loop has reported the pods of its workload, for example
// after a start. Without it, a paused pod would count as free until the first report.
const NotLookedAt = "NotLookedAt"

// marks are reasons on pods, set for a whole workload at a time. why has the same data by pod UID: both change
// together.
type marks struct {
	of  map[types.NamespacedName]map[types.UID]string
	why map[types.UID]string
}

// set replaces the marks of a workload's pods and reports whether anything changed. The caller holds the mutex.
func (m *marks) set(workload types.NamespacedName, words map[types.UID]string) bool {
	if maps.Equal(m.of[workload], words) {
		return false
	}
	if m.of == nil {
		m.of, m.why = map[types.NamespacedName]map[types.UID]string{}, map[types.UID]string{}
	}
	for uid := range m.of[workload] {
		delete(m.why, uid)
	}
	maps.Copy(m.why, words)
	if m.of[workload] = words; len(words) == 0 {
		delete(m.of, workload)
	}
	return true
}

// Publish replaces the grants of a node; nil grants remove it. It returns the recommendations of pods with changed
// grants, sorted by name, for the caller to reconcile. Grants keeps the values of the map: do not change them
// afterwards.
func (t *Grants) Publish(node string, grants map[types.UID]Pod) []types.NamespacedName {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.grants == nil {
		t.grants, t.onNode = map[types.UID]Pod{}, map[string]map[types.UID]bool{}
	}
	changed := map[types.NamespacedName]bool{}
	for uid := range t.onNode[node] {
		if _, still := grants[uid]; !still {
			changed[t.grants[uid].Recommendation] = true
			delete(t.grants, uid)
		}
	}
	on := make(map[types.UID]bool, len(grants))
	for uid, granted := range grants {
		if !reflect.DeepEqual(t.grants[uid], granted) {
			changed[granted.Recommendation] = true
		}
		t.grants[uid], on[uid] = granted, true
	}
	if t.onNode[node] = on; len(on) == 0 {
		delete(t.onNode, node)
	}
	// Sorted, so that the same change triggers reconciles in the same order.
	return slices.SortedFunc(maps.Keys(changed), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
}

// Of returns the grant of a pod; false if it has no grant and stays unchanged.
func (t *Grants) Of(pod types.UID) (Pod, bool) {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	granted, ok := t.grants[pod]
	return granted, ok
}

// Hold replaces the reasons of a workload's pods: held has the pods that keep their size despite a grant, stays the
// pods that must not be evicted. It returns whether anything changed; the first report of a workload counts as a
// change. Grants keeps the maps: do not change them afterwards.
func (t *Grants) Hold(workload types.NamespacedName, held, stays map[types.UID]string) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.looked == nil {
		t.looked = map[types.NamespacedName]bool{}
	}
	first, second, third := !t.looked[workload], t.held.set(workload, held), t.stays.set(workload, stays)
	t.looked[workload] = true
	return first || second || third
}

// Forget drops the reasons of a workload that was deleted or no longer shares nodes. It returns whether the workload
// was known. Grants belong to the nodes and stay.
func (t *Grants) Forget(workload types.NamespacedName) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	known := t.looked[workload]
	delete(t.looked, workload)
	t.held.set(workload, nil)
	t.stays.set(workload, nil)
	return known
}

// Held returns why a pod of a workload keeps its size; empty if it may change.
func (t *Grants) Held(workload types.NamespacedName, pod types.UID) string {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.of(&t.held, workload, pod)
}

// Stays returns why a pod of a workload must not be evicted; empty if it may be evicted.
func (t *Grants) Stays(workload types.NamespacedName, pod types.UID) string {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.of(&t.stays, workload, pod)
}

// of reads a mark. The caller holds the mutex.
func (t *Grants) of(m *marks, workload types.NamespacedName, pod types.UID) string {
	if !t.looked[workload] {
		return NotLookedAt
	}
	return m.why[pod]
}

// Confirmed has the time until which the stored targets of each recommendation are valid: the time of the newest usage
// data with which the policy loop found them unchanged. Storing this time in each object would cause most of the
// operator's writes.
//
// The stored time is never newer than the one here, so losing the data is harmless: targets only look older than they
// are. It is safe for concurrent use; the zero value is empty.
type Confirmed struct {
	Table[types.NamespacedName, time.Time]
}

// Confirm records that the stored targets of a recommendation are valid until a time, in whole seconds. It returns the
// previous time; zero if there was no previous time.
func (t *Confirmed) Confirm(recommendation types.NamespacedName, until time.Time) (before time.Time) {
	t.Change(recommendation, func(known time.Time) time.Time {
		before = known
		return until.UTC().Truncate(time.Second)
	})
	return before
}

// Largest is the largest node that the policy loop has seen or has read from recommendations. It never shrinks while
// the process runs, so that valid history survives when a node pool scales down. It is safe for concurrent use; the
// zero value knows no node.
type Largest struct {
	mutex        sync.RWMutex
	cores, bytes float64
}

// Raise records a node; 0 means not known.
func (l *Largest) Raise(cores, bytes float64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.cores, l.bytes = max(l.cores, cores), max(l.bytes, bytes)
}

// Node returns the largest known CPU cores and bytes of memory, not necessarily of the same node; 0 if not known.
func (l *Largest) Node() (cores, bytes float64) {
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	return l.cores, l.bytes
}
