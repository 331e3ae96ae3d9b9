// Package grant is where the node loop and the workload loop meet: what the pods of a node are to hold, and
// which of them are left as they are. Everything here is in memory and may be lost: both loops say it again.
package grant

import (
	"maps"
	"reflect"
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

// Table holds the grants of all nodes. It is safe for concurrent use; the zero value is empty.
type Table struct {
	mutex  sync.RWMutex
	grants map[types.UID]Pod
	onNode map[string]map[types.UID]bool
	held   map[types.NamespacedName]map[types.UID]string
	why    map[types.UID]string
}

// Publish replaces the grants of a node. It returns the recommendations of the pods whose grants changed. The
// table keeps the grants: do not change them.
func (t *Table) Publish(node string, grants map[types.UID]Pod) []types.NamespacedName {
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
func (t *Table) Of(pod types.UID) (Pod, bool) {
	if t == nil {
		return Pod{}, false
	}
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	granted, ok := t.grants[pod]
	return granted, ok
}

// Hold replaces what is known of the pods of a workload that are left as they are whatever they are granted, and
// why. It returns whether anything of that is new.
func (t *Table) Hold(workload types.NamespacedName, held map[types.UID]string) bool {
	if t == nil {
		return false
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.held == nil {
		t.held, t.why = map[types.NamespacedName]map[types.UID]string{}, map[types.UID]string{}
	}
	if maps.Equal(t.held[workload], held) {
		return false
	}
	for uid := range t.held[workload] {
		delete(t.why, uid)
	}
	maps.Copy(t.why, held)
	if t.held[workload] = held; len(held) == 0 {
		delete(t.held, workload)
	}
	return true
}

// Held says why a pod is left as it is; empty: it is not, as far as is known.
func (t *Table) Held(pod types.UID) string {
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return t.why[pod]
}

func keys(set map[types.NamespacedName]bool) []types.NamespacedName {
	out := make([]types.NamespacedName, 0, len(set))
	for key := range set {
		out = append(out, key)
	}
	return out
}
