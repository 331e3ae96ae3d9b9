package workload

import (
	"sync"
	"time"
)

// How many resizes that are new are sent at most: so many a second, and so many at once after a quiet time. Putting
// back, completing and answering OOM kills is not counted.
const (
	newPerSecond = 40
	mostAtOnce   = 100
)

// limit is how many more resizes may be begun now, in all workloads: a bucket that fills with time. A pass that finds
// anything in it takes all it needs, so that a wave is stored at once; the others wait until that is made good. It is
// safe for concurrent use.
type limit struct {
	mutex sync.Mutex
	// left was in the bucket at a time. It may be less than nothing.
	left float64
	at   time.Time
	// owed is what those take first who were told to wait.
	owed float64
}

// leastWait is what a workload waits at least that found the bucket empty: thousands may.
const leastWait = time.Second

// take so many turns, or say how long to wait until it is this workload's turn; 0: they are taken.
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

// giveBack what was taken and not sent after all.
func (x *limit) giveBack(n int) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	x.left = min(mostAtOnce, x.left+float64(n))
}
