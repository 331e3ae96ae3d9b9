package raw

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

var (
	// ErrHangs says that the volume has not answered in time. Nothing is known of what is on it.
	ErrHangs = errors.New("the volume does not answer")
	// ErrUnread says that one file cannot be read. It may be whole all the same.
	ErrUnread = errors.New("it cannot be read")
)

// readWithin is how long a read may take. It is of some MiB at most.
const readWithin = 10 * time.Second

// File that a pack is read from.
type File interface {
	io.ReaderAt
	io.Closer
	Stat() (os.FileInfo, error)
}

// Volume is what packs are read from, one read at a time. A kernel does not give up a read of a network volume that is
// away, so one that does not come in time is left alone: it holds one goroutine, and until it has returned, no other read is
// begun. Stores that are open one after the other share a Volume. It is safe for concurrent use.
type Volume struct {
	// Open a file; tests have their own.
	Open  func(path string) (File, error)
	clock clock.Clock
	// turn is held by whoever reads.
	turn chan struct{}

	mutex          sync.Mutex
	reading, hangs bool
	// told is when it was said last of a pack that it cannot be read.
	told map[string]time.Time
}

// NewVolume on which nothing hangs.
func NewVolume(of clock.Clock) *Volume {
	open := func(path string) (File, error) { return os.Open(path) }
	return &Volume{Open: open, clock: of, turn: make(chan struct{}, 1), told: map[string]time.Time{}}
}

// Hangs says whether a read has not come in time and is not back yet.
func (v *Volume) Hangs() bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.hangs
}

// readAt fills b, which belongs to nobody else after an error.
func (v *Volume) readAt(ctx context.Context, file io.ReaderAt, b []byte, at int64) (int, error) {
	if v.Hangs() {
		return 0, ErrHangs
	}
	patience := v.clock.NewTimer(patienceOf(ctx))
	defer patience.Stop()
	select {
	case v.turn <- struct{}{}:
	case <-patience.C():
		return 0, v.late()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	v.set(true)
	done := make(chan result, 1)
	go func() {
		n, err := file.ReadAt(b, at)
		v.set(false)
		<-v.turn
		done <- result{n, err}
	}()
	select {
	case got := <-done:
		return got.n, got.err
	case <-patience.C():
		return 0, v.late()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

type result struct {
	n   int
	err error
}

// patienceOf a caller leaves it half of its time to do without.
func patienceOf(ctx context.Context) time.Duration {
	patience := readWithin
	if deadline, any := ctx.Deadline(); any {
		patience = min(patience, time.Until(deadline)/2)
	}
	return patience
}

// set whether a read is under way. Whatever hung is over in both cases.
func (v *Volume) set(reading bool) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.reading, v.hangs = reading, false
}

// late is what a read is that did not come in time. It may have come by now.
func (v *Volume) late() error {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.hangs = v.reading
	return ErrHangs
}

// unread is the error of one file, unless it tells of the process, of the volume or of the one who asks.
func unread(ctx context.Context, path string, err error) error {
	for _, other := range []error{ErrHangs, os.ErrClosed, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, other) {
			return fmt.Errorf("reading %s: %w", path, err)
		}
	}
	if cause := ctx.Err(); cause != nil && errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("reading %s: %w: %w", path, ErrUnread, err)
}
