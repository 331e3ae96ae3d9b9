package workload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// queue is since when the pods of each workload wait to be resized as their nodes grant (strategy Node): there are
// records for a few of them at a time. It may be lost: then all have just come. It is safe for concurrent use.
type queue struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]map[types.UID]time.Time
}

// read what was kept last. It is not changed any more.
func (x *queue) read(workload types.NamespacedName) map[types.UID]time.Time {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.of[workload]
}

// keep replaces it; nothing is forgotten.
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
