package workload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// queue is since when the pods of each workload wait to be resized as their nodes grant (strategy Node).
// Only as many pods as there is room for records are resized at a time, and the longest wait goes first.
// It may be lost: then all pods have just come. mutex guards of.
type queue struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]map[types.UID]time.Time
}

// read returns what was kept last. The map is shared: it is never changed after keep, neither here nor by
// the caller.
func (x *queue) read(workload types.NamespacedName) map[types.UID]time.Time {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.of[workload]
}

// keep replaces a workload's waiting times; an empty map removes the workload.
func (x *queue) keep(workload types.NamespacedName, since map[types.UID]time.Time) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if len(since) == 0 {
		delete(x.of, workload)
		return
	}
	if x.of == nil {
		x.of = map[types.NamespacedName]map[types.UID]time.Time{}
	}
	x.of[workload] = since
}
