package main

import (
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

// slice is how often a burner decides to work or to rest: short enough that any scrape sees the mean, long enough that
// waking up for it costs little beside it: at 5 ms, 60m took 87m on a machine that wakes slowly.
const slice = 50 * time.Millisecond

// burner uses CPU time at a set rate, in as many threads as that needs.
type burner struct {
	mu   sync.Mutex
	stop chan struct{}
}

// set changes the rate to that many millicores.
func (b *burner) set(millicores int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stop != nil {
		close(b.stop)
	}
	b.stop = make(chan struct{})
	threads := (millicores + 999) / 1000
	for range threads {
		go burn(float64(millicores)/1000/float64(threads), b.stop)
	}
}

// burn works until its thread has had its share of the time since the start.
// It counts the CPU time the thread really got, so that waiting for a core is
// made up for later; but never more than a second of it, so that a throttled
// workload does not hunger for ever.
func burn(share float64, stop <-chan struct{}) {
	runtime.LockOSThread() // the CPU clock is the thread's
	defer runtime.UnlockOSThread()
	began, used := time.Now(), threadCPU()
	for {
		select {
		case <-stop:
			return
		default:
		}
		due, forget := owed(time.Since(began), threadCPU()-used, share)
		if forget {
			began, used = time.Now().Add(-time.Second), threadCPU()
		}
		if due == 0 {
			time.Sleep(slice)
			continue
		}
		spin(due)
	}
}

// owed is how long to work now, at most a slice, after so much time and so much CPU time used; forget
// says that more than a second is owed, which is too much to make up for.
func owed(elapsed, used time.Duration, share float64) (due time.Duration, forget bool) {
	behind := time.Duration(float64(elapsed)*share) - used
	return max(0, min(behind, slice)), behind > time.Second
}

func spin(d time.Duration) {
	for end := threadCPU() + d; threadCPU() < end; {
		for i := 0; i < 10000; i++ { // the compiler keeps empty loops
		}
	}
}

// threadCPU is the CPU time this thread has used.
func threadCPU() time.Duration {
	const clockThreadCPU = 3 // CLOCK_THREAD_CPUTIME_ID
	var ts syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockThreadCPU, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}
