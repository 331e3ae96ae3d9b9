// Package board is where the control loops meet: each loop publishes what it decided, and another loop
// reads it. So no loop imports another one.
//
// What is published, by whom, for whom:
//   - Grants.Publish: the node loop publishes what the pods of a node are to hold; the workload loop reads
//     it (Of) and resizes.
//   - Grants.Hold: the workload loop publishes which pods may not be changed or evicted; the node loop reads
//     it (Held, Stays) and shares around them.
//   - Confirmed: the policy loop publishes until when stored targets hold; the workload loop reads it and
//     does not treat them as old.
//
// Ledger, AsItIs and Frozen are the shared rules about which pods take part in the sharing of a node. All
// published data is in memory and may be lost with the process: the loops publish it again after a start,
// and until then nothing is resized or evicted for a node (NotLookedAt). The package never calls the API
// server and starts no loop. Start reading with Grants.
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

// Pod is what one pod is to hold, as its node granted it (strategy Node). A Pod that was published is not
// changed any more.
type Pod struct {
	// Recommendation names the AttuneRecommendation of the pod's workload; a changed grant wakes it.
	Recommendation types.NamespacedName
	// Sizes are what each container is to hold, by container name, in millicores and bytes. A missing
	// container or a zero amount stays as it is.
	Sizes map[string]recommender.Size
	// Evict is why the pod has to leave its node; empty: it stays.
	Evict string
}

// Grants holds the grants of all nodes, and what holds their pods. It is safe for concurrent use: mutex
// guards all fields. The zero value is empty. Its size is bounded by the pods of the strategy Node in the
// cluster.
type Grants struct {
	mutex sync.RWMutex
	// grants are by pod uid. onNode has the pods of each node, so that Publish can drop those that left.
	grants map[types.UID]Pod
	onNode map[string]map[types.UID]bool
	// held and stays are the marks of the workload loop: not changed, not evicted.
	held  marks
	stays marks
	// looked are the workloads about which the workload loop has reported at least once since the start.
	looked map[types.NamespacedName]bool
}

// NotLookedAt is why a pod is left as it is while the workload loop has not yet reported what holds its
// workload's pods, for example after a start. Without it, a paused pod would be treated as free for a
// moment after each restart, because no report means no mark.
const NotLookedAt = "NotLookedAt"

// marks are reasons on pods, set for a whole workload at a time. why is the same data by pod: both are
// changed together.
type marks struct {
	of  map[types.NamespacedName]map[types.UID]string
	why map[types.UID]string
}

// set replaces the marks of a workload's pods and reports whether anything changed. The caller holds the
// mutex.
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

// Publish replaces the grants of a node; nil grants remove it. It returns the recommendations of the pods
// whose grants changed, sorted by name, so that the caller can wake them. The board keeps the map's
// values: do not change them afterwards.
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
	// In order, so that the same change wakes workloads in the same order.
	return slices.SortedFunc(maps.Keys(changed), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
}

// Of returns what a pod was granted; false: nothing, so that it stays as it is.
func (t *Grants) Of(pod types.UID) (Pod, bool) {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	granted, ok := t.grants[pod]
	return granted, ok
}

// Hold replaces what is known of a workload's pods: held are the pods that keep their size whatever they
// are granted, stays those that may not be evicted, each with the reason. It returns whether anything is
// new, which includes the first report of a workload. The maps are kept: do not change them afterwards.
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

// Forget drops what is known of the pods of a workload that is gone or no longer shares nodes. It returns
// whether anything was known. It leaves the grants alone, which belong to the nodes.
func (t *Grants) Forget(workload types.NamespacedName) bool {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	known := t.looked[workload]
	delete(t.looked, workload)
	t.held.set(workload, nil)
	t.stays.set(workload, nil)
	return known
}

// Held returns why a pod of a workload keeps its size; empty: it does not have to.
func (t *Grants) Held(workload types.NamespacedName, pod types.UID) string {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.of(&t.held, workload, pod)
}

// Stays returns why a pod of a workload may not be evicted; empty: it may.
func (t *Grants) Stays(workload types.NamespacedName, pod types.UID) string {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.of(&t.stays, workload, pod)
}

// of reads a mark; the caller holds the mutex.
func (t *Grants) of(m *marks, workload types.NamespacedName, pod types.UID) string {
	if !t.looked[workload] {
		return NotLookedAt
	}
	return m.why[pod]
}

// Confirmed is until when the stored targets of recommendations hold: the time of the newest usage data
// with which the policy loop has found them unchanged. Storing that time in each object would be most of
// the operator's writes.
//
// The stored time is never newer than the one here, so that a loss is harmless: targets only look older
// than they are. It is safe for concurrent use; the zero value is empty.
type Confirmed struct {
	Table[types.NamespacedName, time.Time]
}

// Confirm notes that a recommendation's stored targets hold by usage data until a time (kept in whole
// seconds). It returns the time that was known before; zero: none.
func (t *Confirmed) Confirm(recommendation types.NamespacedName, until time.Time) (before time.Time) {
	t.Change(recommendation, func(known time.Time) time.Time {
		before = known
		return until.UTC().Truncate(time.Second)
	})
	return before
}

// Largest is the largest node that the policy loop has seen, or remembers in recommendations. It never falls while the
// process lives, so that a node pool that scaled down does not delete true history. It is safe for concurrent use; the zero
// value knows no node.
type Largest struct {
	mutex        sync.RWMutex
	cores, bytes float64
}

// Raise notes a node; 0: not known.
func (l *Largest) Raise(cores, bytes float64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.cores, l.bytes = max(l.cores, cores), max(l.bytes, bytes)
}

// Node is the largest that is known, by each of its resources; 0: none is.
func (l *Largest) Node() (cores, bytes float64) {
	l.mutex.RLock()
	defer l.mutex.RUnlock()
	return l.cores, l.bytes
}
