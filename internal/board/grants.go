// Package board is where the loops meet: what one of them decided, for another one to read. The node loop publishes what
// the pods of a node are to hold, and the workload loop which of them are left as they are (Grants); the policy loop
// confirms until when stored targets hold (Confirmed). All of it is in memory and may be lost: the loops say it again.
package board

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/recommender"
)

// Pod is what one pod is to hold.
type Pod struct {
	// Recommendation of the pod's workload.
	Recommendation types.NamespacedName
	// Sizes to hold by container; absent amounts stay as they are.
	Sizes map[string]recommender.Size
	// Evict says why the pod has to go; empty: it stays.
	Evict string
}

// Grants of all nodes, and what holds their pods. It is safe for concurrent use; the zero value is empty.
type Grants struct {
	mutex  sync.RWMutex
	grants map[types.UID]Pod
	onNode map[string]map[types.UID]bool
	held   marks
	stays  marks
	// looked are the workloads that the workload loop has told of.
	looked map[types.NamespacedName]bool
}

// NotLookedAt is why a pod is left as it is while the workload loop has not told what holds its workload's pods, such
// as after a start: that nothing is known to hold it does not mean that nothing does.
const NotLookedAt = "NotLookedAt"

// marks are words on pods, by their workloads.
type marks struct {
	of  map[types.NamespacedName]map[types.UID]string
	why map[types.UID]string
}

// set replaces those of a workload's pods; false: nothing of that is new.
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

// Publish replaces the grants of a node. It returns the recommendations of the pods whose grants changed, by name. The
// table keeps the grants: do not change them.
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
	return keys(changed)
}

// Of is what a pod was granted; false: nothing, so that it stays as it is.
func (t *Grants) Of(pod types.UID) (Pod, bool) {
	if t == nil {
		return Pod{}, false
	}
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	granted, ok := t.grants[pod]
	return granted, ok
}

// Hold replaces what is known of the pods of a workload that are left as they are whatever they are granted, and
// why; and of those that may not be evicted whatever happens, and why. It returns whether anything of that is new.
func (t *Grants) Hold(workload types.NamespacedName, held, stays map[types.UID]string) bool {
	if t == nil {
		return false
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.looked == nil {
		t.looked = map[types.NamespacedName]bool{}
	}
	first, second, third := !t.looked[workload], t.held.set(workload, held), t.stays.set(workload, stays)
	t.looked[workload] = true
	return first || second || third
}

// Forget what is known of the pods of a workload that is gone, or whose pods share no node. It returns whether anything
// was.
func (t *Grants) Forget(workload types.NamespacedName) bool {
	if t == nil {
		return false
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	known := t.looked[workload]
	delete(t.looked, workload)
	t.held.set(workload, nil)
	t.stays.set(workload, nil)
	return known
}

// Held says why a pod of a workload is left as it is; empty: it is not.
func (t *Grants) Held(workload types.NamespacedName, pod types.UID) string {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.of(&t.held, workload, pod)
}

// Stays says why a pod of a workload may not be evicted; empty: it may.
func (t *Grants) Stays(workload types.NamespacedName, pod types.UID) string {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.of(&t.stays, workload, pod)
}

func (t *Grants) of(m *marks, workload types.NamespacedName, pod types.UID) string {
	if !t.looked[workload] {
		return NotLookedAt
	}
	return m.why[pod]
}

func keys(set map[types.NamespacedName]bool) []types.NamespacedName {
	return slices.SortedFunc(maps.Keys(set), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
}
