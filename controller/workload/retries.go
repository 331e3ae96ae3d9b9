package workload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// often is a schedule of retries: after first for the first quick times, then after twice as long each
// time, up to last.
type often struct {
	first, last time.Duration
	quick       int
}

// afterIncomplete is the schedule after a pass that could not read something; afterConflict that after a
// write that met another writer's. Several writers in a row are waited for quickly. A watch that is behind
// for minutes shows the other write late, and its event then makes the pass.
var (
	afterIncomplete = often{first: time.Second, last: 5 * time.Minute}
	afterConflict   = often{first: 100 * time.Millisecond, last: 10 * time.Second, quick: 15}
)

// retries counts how often in a row the passes over a workload were incomplete, or in conflict. It may be
// lost: then the next look comes sooner. mutex guards of.
type retries struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]int
}

// after counts one more such pass and returns how long to wait. The shift is bounded by 16, so that it
// cannot overflow.
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

// over resets the count: a pass has ended well, or the workload is gone.
func (x *retries) over(workload types.NamespacedName) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	delete(x.of, workload)
}
