package workload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// How soon a pass that was incomplete is made again: soon at first, then ever more rarely.
const incompleteFirst, incompleteLast = time.Second, 5 * time.Minute

// retries are how often in a row the passes over a workload were incomplete. They may be lost: then it is looked again
// sooner. They are safe for concurrent use.
type retries struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]int
}

// after is when a workload is to be looked at again whose pass has just ended; 0: nothing was missing.
func (x *retries) after(workload types.NamespacedName, incomplete bool) time.Duration {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if !incomplete {
		delete(x.of, workload)
		return 0
	}
	if x.of == nil {
		x.of = map[types.NamespacedName]int{}
	}
	wait := incompleteFirst << min(x.of[workload], 16)
	x.of[workload]++
	return min(wait, incompleteLast)
}
