package workload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/backoff"
	"attune.io/attune/internal/board"
)

// paceFirst is the least time between two passes over one workload that both write. It doubles with each further one,
// up to paceLast, while the phase stays the same. Reverts, responses to OOM kills and due records never wait for it.
// The limit keeps a workload that alternates between two states from writing endlessly.
const paceFirst, paceLast = time.Second, time.Minute

// pace is when passes over each workload wrote. If it is lost, the next pass writes at once. Entries are removed with
// their recommendation.
type pace struct {
	board.Table[types.NamespacedName, stride]
}

// stride is the last write of one workload's passes.
type stride struct {
	// wrote is the time of the write, phase the phase after it.
	wrote time.Time
	phase v1alpha1.RecommendationPhase
	// apart is the time until the next write may follow. row is the number of writes without a quiet time of 2 ×
	// paceLast between them.
	apart time.Duration
	row   int
}

// freeOfPace is how many consecutive writes are free for pods that share a node: a node that shares again settles
// much earlier.
const freeOfPace = 30

// waitBeforeWrite returns how long a pass must wait before it writes; 0: it may write. The first free consecutive writes do not
// wait. A last write in the future, from a clock that was ahead, counts as now.
func (x *pace) waitBeforeWrite(workload types.NamespacedName, free int, now time.Time) time.Duration {
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

// wrote records a pass that wrote, and its phase. After a new phase, or a quiet time of 2 × paceLast, the pace starts
// again with paceFirst.
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

// often is a schedule of retries: after first for the first quick times, then with doubled delays up to last.
type often struct {
	first, last time.Duration
	quick       int
}

// afterIncomplete is the schedule after a pass with a failed read; afterConflict is the schedule after a conflict
// with another writer. The first conflicts in a row are retried quickly. If a watch lags for minutes, the event of
// the other write starts the pass.
var (
	afterIncomplete = often{first: time.Second, last: 5 * time.Minute}
	afterConflict   = often{first: 100 * time.Millisecond, last: 10 * time.Second, quick: 15}
)

// retries counts consecutive passes over a workload that were incomplete, or in conflict. If it is lost, the next
// pass starts sooner.
type retries struct {
	board.Table[types.NamespacedName, int]
}

// after counts one more such pass and returns how long to wait.
func (x *retries) after(workload types.NamespacedName, o often) time.Duration {
	tries := x.Of(workload) + 1
	x.Put(workload, tries)
	return backoff.Wait(o.first, o.last, max(1, tries-o.quick))
}

// newPerSecond is how many new resizes attune sends per second, and mostAtOnce how many at once after a quiet time.
// Reverts, second patches and responses to OOM kills are not counted. The limit prevents that a change of one
// cluster-wide default resizes thousands of pods in the same second.
const (
	newPerSecond = 40
	mostAtOnce   = 100
)

// limit is how many more resizes may start now, in all workloads together: a token bucket that fills with time. A
// pass that finds at least one token takes all that it needs, so that a whole wave is stored at once; the bucket then
// goes below zero, and the others wait. It is not stored: a new leader starts with a full bucket. mutex guards all
// fields.
type limit struct {
	mutex sync.Mutex
	// left is how many tokens were in the bucket at the time at. It may be negative.
	left float64
	at   time.Time
	// owed is the number of tokens that waiting workloads will take first, so that later workloads wait longer and do
	// not all continue at the same moment.
	owed float64
}

// leastWait is the least wait of a workload while the bucket is empty, because thousands may wait.
const leastWait = time.Second

// take takes n tokens and returns 0, or returns how long to wait for this workload's turn without taking any. n = 0
// always succeeds. A clock that goes backwards adds no tokens.
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

// returnTokens returns tokens that were taken for resizes that were not sent.
func (x *limit) returnTokens(n int) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.left = min(mostAtOnce, x.left+float64(n))
}
