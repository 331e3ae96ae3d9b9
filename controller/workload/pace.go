package workload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/backoff"
	"attune.io/attune/internal/board"
)

// paceFirst is the least distance between two passes over one workload that both write; it doubles with
// each further one, up to paceLast, while the phase stays the same. What is put back, what answers an OOM
// kill and what a record is due for never waits for it. The bound keeps a workload that flips between two
// states from writing without end.
const paceFirst, paceLast = time.Second, time.Minute

// pace is when passes over each workload wrote. It may be lost: then the next one writes at once. Entries are removed with
// their recommendation.
type pace struct {
	board.Table[types.NamespacedName, stride]
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
	last, ok := x.Find(workload)
	if !ok || last.row < free {
		return 0
	}
	if last.wrote.After(now) {
		last.wrote = now
		x.Put(workload, last)
	}
	return max(0, last.wrote.Add(last.apart).Sub(now))
}

// wrote notes a pass that wrote, and the phase that it came to. A new phase, or a rest of 2 × paceLast,
// starts again with paceFirst.
func (x *pace) wrote(workload types.NamespacedName, phase v1alpha1.RecommendationPhase, now time.Time) {
	last, apart, row := x.Of(workload), paceFirst, 1
	if calm := now.Sub(last.wrote).Abs() >= 2*paceLast; !calm {
		row += last.row
		if last.phase == phase {
			apart = min(2*last.apart, paceLast)
		}
	}
	x.Put(workload, stride{now, phase, apart, row})
}

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
// lost: then the next look comes sooner.
type retries struct {
	board.Table[types.NamespacedName, int]
}

// after counts one more such pass and returns how long to wait.
func (x *retries) after(workload types.NamespacedName, o often) time.Duration {
	tries := x.Of(workload) + 1
	x.Put(workload, tries)
	return backoff.Wait(o.first, o.last, max(1, tries-o.quick))
}

// newPerSecond is how many new resizes the operator sends per second, and mostAtOnce how many at once
// after a quiet time. Reverts, second patches and answers to OOM kills are not counted. The bound keeps a
// change of one cluster-wide default from resizing thousands of pods in the same second.
const (
	newPerSecond = 40
	mostAtOnce   = 100
)

// limit is how many more resizes may begin now, in all workloads together: a token bucket that fills with
// time. A pass that finds at least one token takes all that it needs, so that a whole wave is stored at
// once; the bucket then goes below zero, and the others wait. It is not stored: a new leader begins with a
// full bucket. mutex guards all fields.
type limit struct {
	mutex sync.Mutex
	// left is how many tokens were in the bucket at the time at. It may be negative.
	left float64
	at   time.Time
	// owed is the number of tokens that waiting workloads will take first, so that those that come later
	// wait longer and not all come at the same moment.
	owed float64
}

// leastWait is how long a workload waits at least when the bucket is empty, since thousands may wait.
const leastWait = time.Second

// take takes n tokens and returns 0, or returns how long to wait until it is this workload's turn; then
// nothing is taken. n = 0 always succeeds. A clock that goes backwards fills nothing.
func (x *limit) take(n int, now time.Time) time.Duration {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if n == 0 {
		return 0
	}
	if x.at.IsZero() {
		x.left = mostAtOnce
	} else {
		filled := newPerSecond * max(0, now.Sub(x.at).Seconds())
		x.left, x.owed = min(mostAtOnce, x.left+filled), max(0, x.owed-filled)
	}
	x.at = now
	if x.left >= 1 {
		x.left -= float64(n)
		return 0
	}
	wait := time.Duration((1-x.left+x.owed)/newPerSecond*float64(time.Second)) + time.Millisecond
	x.owed += float64(n)
	return max(leastWait, wait)
}

// giveBack returns tokens that were taken for resizes that were not sent.
func (x *limit) giveBack(n int) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.left = min(mostAtOnce, x.left+float64(n))
}
