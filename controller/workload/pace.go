package workload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
)

// How far apart two passes over one workload are that both write, at least: a second, and twice as much each time, up
// to a minute, while the phase stays. What is put back, what answers an OOM kill and what a record is due for never
// waits for it.
const paceFirst, paceLast = time.Second, time.Minute

// pace is when passes over each workload wrote. It may be lost: then the next one writes at once. It is safe for
// concurrent use.
type pace struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]stride
}

type stride struct {
	wrote time.Time
	phase v1alpha1.RecommendationPhase
	// apart is how long the next pass that writes has to wait, row how many wrote without a rest between them.
	apart time.Duration
	row   int
}

// freeOfPace is how many passes in a row over pods that share a node may write without a distance: a node that shares
// anew has settled long before.
const freeOfPace = 30

// left is how long a pass that is about to write has to wait; 0: it may. The first few in a row may at once. Where a
// clock was ahead when the last one wrote, that was just now.
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

// wrote notes a pass that wrote, and what phase it came to.
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

func (x *pace) forget(name types.NamespacedName) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	delete(x.of, name)
}
