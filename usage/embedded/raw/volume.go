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
	// ErrHangs means that the volume has not answered in time. It says nothing about the file.
	ErrHangs = errors.New("the volume does not answer")
	// ErrUnread means that one file cannot be read, such as for a bad sector or a missing right. The file may be
	// whole.
	ErrUnread = errors.New("it cannot be read")
)

// readWithin is how long a read may take. It is of some MiB at most.
const readWithin = 10 * time.Second

// File is an open file that a pack or journal is read from. Its methods are those of os.File.
// Tests put files of their own in the place of os.File, which hang or fail.
type File interface {
	io.ReaderAt
	io.Closer
	Stat() (os.FileInfo, error)
}

// Volume reads packs, one read at a time. A kernel does not give up a read of a network volume that is away, and
// Go cannot cancel it. Therefore a read that does not come in time is left alone: it keeps one goroutine, and no
// other read begins until it has returned. Without that limit each query would leave one more goroutine behind.
//
// Stores that are opened one after the other share a Volume. It is safe for concurrent use.
type Volume struct {
	// Open a file; tests have their own.
	// It must not change while a store is open.
	Open  func(path string) (File, error)
	clock clock.Clock
	// turn has room for one element, which the running read puts in and takes out.
	// It is a channel and not a mutex, because a caller waits for it with a time limit.
	turn chan struct{}

	// mutex guards reading and hangs. reading is true during a read, hangs after one was not waited for any
	// longer.
	mutex          sync.Mutex
	reading, hangs bool
	// told is when each unreadable pack was last logged, by path. It outlives the stores, so that a store that is
	// opened again does not repeat the message. The goroutine that tends the store owns it.
	told map[string]time.Time
}

// NewVolume returns a Volume that opens files with os.Open. The clock limits the reads.
func NewVolume(of clock.Clock) *Volume {
	open := func(path string) (File, error) { return os.Open(path) }
	return &Volume{Open: open, clock: of, turn: make(chan struct{}, 1), told: map[string]time.Time{}}
}

// Hangs returns true while a read has missed its time and has not returned.
func (v *Volume) Hangs() bool {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	return v.hangs
}

// readAt fills b from an offset. It returns ErrHangs where the volume does not answer in time, or hangs already.
// After an error the caller must not touch b again, because the read may still write to it.
func (v *Volume) readAt(ctx context.Context, file io.ReaderAt, b []byte, at int64) (int, error) {
	if v.Hangs() {
		return 0, ErrHangs
	}
	patience := v.clock.NewTimer(patienceOf(ctx))
	defer patience.Stop()
	// Only one read is under way. Another caller waits here, within its own patience.
	select {
	case v.turn <- struct{}{}:
	case <-patience.C():
		return 0, v.late()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	// From here on the read may outlast its caller. The goroutine releases the turn and clears the state itself.
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

// result of a read, from its goroutine to the caller.
type result struct {
	n   int
	err error
}

// patienceOf returns how long to wait for a read: readWithin, but at most half of the time that the caller has
// left. The other half is for an answer from memory alone.
func patienceOf(ctx context.Context) time.Duration {
	patience := readWithin
	if deadline, any := ctx.Deadline(); any {
		patience = min(patience, time.Until(deadline)/2)
	}
	return patience
}

// set records whether a read is running. A read that begins or ends proves that nothing hangs.
func (v *Volume) set(reading bool) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.reading, v.hangs = reading, false
}

// late records that a read was not waited for any longer. Where the read has returned in the same moment, reading
// is false and nothing hangs.
func (v *Volume) late() error {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	v.hangs = v.reading
	return ErrHangs
}

// unread wraps an error of one file as ErrUnread. Errors of the process (no file descriptors, no memory), of the
// volume and of the caller's context are not the file's: they stay what they are, so that a good pack is not left
// out for them.
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
