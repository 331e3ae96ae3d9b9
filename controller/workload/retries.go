package workload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// often is how soon a pass is made again: after first for quick times, then after twice as long each time, up to last.
type often struct {
	first, last time.Duration
	quick       int
}

// How soon a pass that was incomplete is made again, and one whose write met another writer's. Several writers in a row
// are waited for at once; a watch that is behind for minutes shows the other write late, and its event makes the pass.
var (
	afterIncomplete = often{first: time.Second, last: 5 * time.Minute}
	afterConflict   = often{first: 100 * time.Millisecond, last: 10 * time.Second, quick: 15}
)

// retries are how often in a row the passes over a workload were incomplete, or in conflict. They may be lost: then it is
// looked again sooner. They are safe for concurrent use.
type retries struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]int
}

// after is when a workload is to be looked at again whose pass has just ended so.
func (x *retries) after(workload types.NamespacedName, o often) time.Duration {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if x.of == nil {
		x.of = map[types.NamespacedName]int{}
	}
	wait := o.first << min(max(0, x.of[workload]-o.quick), 16)
	x.of[workload]++
	return min(wait, o.last)
}

// over: a pass has ended well, or the workload is gone.
func (x *retries) over(workload types.NamespacedName) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	delete(x.of, workload)
}
