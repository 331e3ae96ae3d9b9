package workload

import (
	"sync"
	"time"
)

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
