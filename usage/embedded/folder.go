package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/tsdb/fileutil"

	"attune.io/attune/usage/embedded/raw"
)

// reserve is how many bytes are left free on a disk: closing a store needs room too.
const reserve = 64 << 20

// errFull and errLocked are the reasons for which there is no disk.
var (
	errFull   = errors.New("the disk is full")
	errLocked = errors.New("another process uses it")
)

// Disk configures where raw samples are kept. The zero value keeps none on disk.
type Disk struct {
	// Dir is a folder of its own; empty: nothing is kept on disk.
	Dir string
	// Retention is how long samples are kept.
	Retention time.Duration
	// MaxBytes is what the folder may take: old samples go first, and all of them where the newest alone
	// are too many.
	MaxBytes int64
}

// most is what the folder may take, in bytes.
// Without a bound it is a number that no disk reaches and that can be multiplied without an overflow.
func (c Disk) most() int64 {
	if c.MaxBytes <= 0 {
		return math.MaxInt64 / 16
	}
	return c.MaxBytes
}

// folder is the directory of raw samples: its lock, its size and its packs. The caller holds disk.working.
type folder struct {
	config Disk
	log    *slog.Logger
	// room is that of a folder's volume; tests have their own.
	room func(dir string) (room, error)
	// lock is nil while the folder is not ours.
	lock fileutil.Releaser
}

// acquire locks the folder for this process. It returns errLocked where another process has the lock, such as the
// old leader on a shared volume. It does nothing where the lock is held already.
func (f *folder) acquire() error {
	if f.lock != nil {
		return nil
	}
	lock, _, err := fileutil.Flock(filepath.Join(f.config.Dir, "lock"))
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("%w: %w", errLocked, err)
	}
	if err != nil {
		return fmt.Errorf("locking the folder: %w", err)
	}
	f.lock = lock
	return nil
}

// release the lock, if there is one.
func (f *folder) release() {
	if f.lock != nil {
		_ = f.lock.Release()
		f.lock = nil
	}
}

// room of a volume, in bytes.
type room struct{ free, total uint64 }

// roomOf asks the kernel (statfs). free is what a process without special rights may still write.
func roomOf(dir string) (room, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return room{}, err
	}
	size := uint64(stat.Bsize)
	return room{free: stat.Bavail * size, total: stat.Blocks * size}, nil
}

// full is errFull where less than the reserve is free, or why that is not known; nil where there is room.
func (f *folder) full() error {
	has, err := f.room(f.config.Dir)
	switch {
	case err != nil:
		return fmt.Errorf("looking for room: %w", err)
	case has.free < reserve:
		return fmt.Errorf("%w: %d MiB are free, %d are needed", errFull, has.free>>20, reserve>>20)
	}
	return nil
}

// oversize says that the folder takes more than it may, or nil.
func (f *folder) oversize() error {
	size, err := fileutil.DirSize(f.config.Dir)
	if err != nil || f.config.MaxBytes <= 0 || size <= f.config.MaxBytes*9/10 {
		// Measuring may fail, such as at a file that is just being removed: it is measured again the next time.
		return nil //nolint:nilerr // see above
	}
	return fmt.Errorf("its samples take %d MiB, and it may take %d: give it more (usage.embedded.size), or keep less (usage.embedded.retention)", size>>20, f.config.MaxBytes>>20)
}

// makeRoom in a folder whose store is not open. A store removes old packs, but cannot be opened on a full disk, so they
// are removed here. The error is why there is no room.
func (f *folder) makeRoom(now time.Time) error {
	raw.DropFormer(f.config.Dir, f.log)
	f.shrink()
	err := f.full()
	if errors.Is(err, errFull) {
		f.relieve(now)
		err = f.full()
	}
	return err
}

// shrink a folder that takes more than it may: by its oldest packs, and by everything where that is not enough.
func (f *folder) shrink() {
	if f.oversize() == nil {
		return
	}
	f.remove(func(raw.PackFile, int64) bool { return f.oversize() != nil })
	if f.oversize() != nil {
		dropAll(f.config.Dir, f.log)
	}
}

// relieve a full disk of packs that are older than the retention, and of others where most of the volume is taken by the
// folder: then the volume is smaller than usage.embedded.size says. Of those an eighth of the bytes is removed at once, so
// that the disk is not full again soon.
func (f *folder) relieve(now time.Time) {
	files, err := raw.PackFiles(f.config.Dir)
	has, wrong := f.room(f.config.Dir)
	if err != nil || wrong != nil {
		return // opening the folder meets the error again
	}
	var all int64
	for _, pack := range files {
		all += pack.Bytes
	}
	ours, before := uint64(all) > has.total/2 && has.total > 0, now.Add(-f.config.Retention).UnixMilli()
	f.remove(func(pack raw.PackFile, removed int64) bool {
		isFull := errors.Is(f.full(), errFull)
		if pack.Max < before {
			return isFull
		}
		return ours && (isFull || removed > 0 && removed < all/8)
	})
}

// remove packs, the oldest first, until may says no; it is given the bytes that were removed before.
// It stops at the first file that cannot be removed. The store must not be open.
func (f *folder) remove(may func(pack raw.PackFile, removed int64) bool) {
	files, err := raw.PackFiles(f.config.Dir)
	var removed int64
	n := 0
	for _, pack := range files {
		if err != nil || !may(pack, removed) {
			break
		}
		if err = os.RemoveAll(pack.Path); err == nil {
			n, removed = n+1, removed+pack.Bytes
		}
	}
	if n > 0 {
		f.log.Warn("the oldest raw samples on disk are removed to make room", "dir", f.config.Dir, "packs", n, "bytes", removed)
	}
	if err != nil {
		f.log.Error("removing raw samples", "dir", f.config.Dir, "cause", err.Error())
	}
}

// dropAll removes everything in the folder but its lock. It is the last means, where no packs are left and the
// folder is still too large.
func dropAll(dir string, log *slog.Logger) {
	entries, err := os.ReadDir(dir)
	for _, entry := range entries {
		if entry.Name() != "lock" {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, entry.Name())))
		}
	}
	log.Warn("all raw samples on disk are dropped", "dir", dir)
	if err != nil {
		log.Error("removing raw samples", "dir", dir, "cause", err.Error())
	}
}
