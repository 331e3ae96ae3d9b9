package workload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
)

// paceFirst is the least distance between two passes over one workload that both write; it doubles with
// each further one, up to paceLast, while the phase stays the same. What is put back, what answers an OOM
// kill and what a record is due for never waits for it. The bound keeps a workload that flips between two
// states from writing without end.
const paceFirst, paceLast = time.Second, time.Minute

// pace is when passes over each workload wrote. It may be lost: then the next one writes at once. mutex
// guards of; entries are removed with their recommendation.
type pace struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]stride
}

// stride is the last write of one workload's passes.
type stride struct {
	// wrote is when that was, phase what the pass came to.
	wrote time.Time
	phase v1alpha1.RecommendationPhase
	// apart is how long the next write has to wait. row is the number of writes without a rest of 2 ×
	// paceLast between them.
	apart time.Duration
	row   int
}

// freeOfPace is how many writes in a row are free for pods that share a node: a node that shares anew has
// settled long before.
const freeOfPace = 30

// left returns how long a pass that is about to write has to wait; 0: it may write. The first free writes
// in a row do not wait. A last write in the future, by a clock that was ahead, counts as just now.
func (x *pace) left(workload types.NamespacedName, free int, now time.Time) time.Duration {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	last, ok := x.of[workload]
	if !ok || last.row < free {
		return 0
	}
	if last.wrote.After(now) {
		last.wrote = now
		x.of[workload] = last
	}
	return max(0, last.wrote.Add(last.apart).Sub(now))
}

// wrote notes a pass that wrote, and the phase that it came to. A new phase, or a rest of 2 × paceLast,
// starts again with paceFirst.
func (x *pace) wrote(workload types.NamespacedName, phase v1alpha1.RecommendationPhase, now time.Time) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if x.of == nil {
		x.of = map[types.NamespacedName]stride{}
	}
	last, apart, row := x.of[workload], paceFirst, 1
	if calm := now.Sub(last.wrote).Abs() >= 2*paceLast; !calm {
		row += last.row
		if last.phase == phase {
			apart = min(2*last.apart, paceLast)
		}
	}
	x.of[workload] = stride{now, phase, apart, row}
}

// forget drops a recommendation that is gone.
func (x *pace) forget(name types.NamespacedName) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	delete(x.of, name)
}
