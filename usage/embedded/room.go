package embedded

import (
	"fmt"
	"syscall"

	"github.com/prometheus/prometheus/tsdb/fileutil"
)

// reserve is left free on a disk, and is what a database is closed in.
const reserve = 64 << 20

// room of a disk, in bytes.
type room struct{ free uint64 }

func roomOf(dir string) (room, error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(dir, &stat); err != nil {
		return room{}, err
	}
	return room{free: stat.Bavail * uint64(stat.Bsize)}, nil
}

// short says that the disk is full, or nil.
func (d *disk) short() error {
	has, err := d.room(d.config.Dir)
	switch {
	case err != nil:
		return fmt.Errorf("looking for room: %w", err)
	case has.free < reserve:
		return fmt.Errorf("the disk is full: %d MiB are free, %d are needed", has.free>>20, reserve>>20)
	}
	return nil
}

// large says that the folder takes more than it may, or nil.
func (d *disk) large() error {
	size, err := fileutil.DirSize(d.config.Dir)
	if err != nil || d.config.MaxBytes <= 0 || size <= d.config.MaxBytes*9/10 {
		// What cannot be measured, such as a file that is just going, is measured the next time.
		return nil
	}
	return fmt.Errorf("its samples take %d MiB, and it may take %d: give it more (usage.embedded.size), or keep less (usage.embedded.retention)", size>>20, d.config.MaxBytes>>20)
}
