package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/tsdb/fileutil"

	"attune.io/attune/usage/embedded/raw"
)

// reserve is left free on a disk, and is what a database is closed in.
const reserve = 64 << 20

var errFull = errors.New("the disk is full")

// room of a disk, in bytes.
type room struct{ free, total uint64 }

func roomOf(dir string) (room, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return room{}, err
	}
	size := uint64(stat.Bsize)
	return room{free: stat.Bavail * size, total: stat.Blocks * size}, nil
}

// short says that the disk is full, or nil.
func (d *disk) short() error {
	has, err := d.room(d.config.Dir)
	switch {
	case err != nil:
		return fmt.Errorf("looking for room: %w", err)
	case has.free < reserve:
		return fmt.Errorf("%w: %d MiB are free, %d are needed", errFull, has.free>>20, reserve>>20)
	}
	return nil
}

// large says that the folder takes more than it may, or nil.
func (d *disk) large() error {
	size, err := fileutil.DirSize(d.config.Dir)
	if err != nil || d.config.MaxBytes <= 0 || size <= d.config.MaxBytes*9/10 {
		// What cannot be measured, such as a file that is just going, is measured the next time.
		return nil //nolint:nilerr // see above
	}
	return fmt.Errorf("its samples take %d MiB, and it may take %d: give it more (usage.embedded.size), or keep less (usage.embedded.retention)", size>>20, d.config.MaxBytes>>20)
}

// makeRoom in a folder whose store is not open: for a store there has to be room, and on a full disk none would ever remove
// what is too old. The error is why there is none.
func (d *disk) makeRoom(now time.Time) error {
	raw.DropFormer(d.config.Dir, d.log)
	d.shrink()
	err := d.short()
	if errors.Is(err, errFull) {
		d.relieve(now)
		err = d.short()
	}
	return err
}

// shrink a folder that takes more than it may: by its oldest packs, and by everything where that is not enough.
func (d *disk) shrink() {
	if d.large() == nil {
		return
	}
	d.remove(func(raw.PackFile, int64) bool { return d.large() != nil })
	if d.large() != nil {
		dropAll(d.config.Dir, d.log)
	}
}

// relieve a full disk of packs that are older than they may be, and of others where most of the volume is the folder's: it is
// smaller than usage.embedded.size says. Of those an eighth goes at once, so that it is not full again soon.
func (d *disk) relieve(now time.Time) {
	files, err := raw.PackFiles(d.config.Dir)
	has, wrong := d.room(d.config.Dir)
	if err != nil || wrong != nil {
		return // it is met again where the folder is opened
	}
	var all int64
	for _, f := range files {
		all += f.Bytes
	}
	ours, before := uint64(all) > has.total/2 && has.total > 0, now.Add(-d.config.Retention).UnixMilli()
	d.remove(func(f raw.PackFile, removed int64) bool {
		full := errors.Is(d.short(), errFull)
		if f.Max < before {
			return full
		}
		return ours && (full || removed > 0 && removed < all/8)
	})
}

// remove packs, the oldest first, for as long as one after the other may go; it is told how many bytes have gone.
func (d *disk) remove(may func(f raw.PackFile, removed int64) bool) {
	files, err := raw.PackFiles(d.config.Dir)
	var removed int64
	n := 0
	for _, f := range files {
		if err != nil || !may(f, removed) {
			break
		}
		if err = os.RemoveAll(f.Path); err == nil {
			n, removed = n+1, removed+f.Bytes
		}
	}
	if n > 0 {
		d.log.Warn("the oldest raw samples on disk are removed to make room", "dir", d.config.Dir, "packs", n, "bytes", removed)
	}
	if err != nil {
		d.log.Error("removing raw samples", "dir", d.config.Dir, "cause", err.Error())
	}
}

// dropAll that is in a folder, but for the lock.
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
