package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/fileutil"
	"github.com/prometheus/prometheus/util/compression"
	"k8s.io/utils/clock"
)

// lateness is how late a sample may come and still find its place on disk.
const lateness = 30 * time.Minute

// Disk says where raw samples are kept.
type Disk struct {
	// Dir is a folder of its own; empty: nothing is kept on disk.
	Dir string
	// Retention is how long samples are kept.
	Retention time.Duration
	// MaxBytes is what the folder may take: old samples go first, and all of them where the newest alone
	// are too many.
	MaxBytes int64
}

// disk keeps raw samples in Prometheus's own database, for graphs, for queries that look further back than
// memory does, and for the past after a restart. It is never needed: what fails here is said, and the rest
// goes on without.
type disk struct {
	config Disk
	log    *slog.Logger
	// room is that of a folder; tests have their own.
	room func(dir string) (room, error)
	// waiting is what is to be written: a disk may be slow, or hang, and nobody waits for it.
	waiting queue

	// working is held for as long as the disk is worked with, and lock is its alone. It is taken before mutex.
	working sync.Mutex
	lock    fileutil.Releaser
	// mutex guards the rest, which is changed under working as well. It is never held while the disk is waited for.
	mutex sync.RWMutex
	db    *tsdb.DB
	// opened counts the databases, so that no series is known by a name that an earlier one gave.
	opened int
	// idle is why there is no database; nil while there is one.
	idle error
	// suspect: something could not be read.
	suspect bool
}

// reference is what a database knows a series by.
type reference struct {
	id     storage.SeriesRef
	opened int
}

var (
	errNoDisk = errors.New("no folder is configured")
	errLocked = errors.New("another process uses it")
)

func newDisk(config Disk, log *slog.Logger) *disk {
	return &disk{config: config, log: log, room: roomOf, waiting: newQueue(), idle: errNoDisk}
}

// open takes the folder, and repairs or drops what is broken in it. An error is why there is no disk.
func (d *disk) open() error {
	d.working.Lock()
	defer d.working.Unlock()
	err := d.take()
	if err != nil {
		d.become(nil, err)
	}
	return err
}

// become another database, or none and why. It returns the one before.
func (d *disk) become(db *tsdb.DB, idle error) (before *tsdb.DB) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	before = d.db
	d.db, d.idle = db, idle
	if db != nil {
		d.suspect = false
		d.opened++
	}
	return before
}

// take the folder.
func (d *disk) take() error {
	if d.config.Dir == "" {
		return errNoDisk
	}
	if err := os.MkdirAll(d.config.Dir, 0o750); err != nil {
		return err
	}
	if err := d.short(); err != nil {
		return err
	}
	if d.lock == nil {
		lock, _, err := fileutil.Flock(filepath.Join(d.config.Dir, "lock"))
		if err != nil {
			return fmt.Errorf("%w: %w", errLocked, err)
		}
		d.lock = lock
	}
	db, err := openRepaired(d.config, d.log)
	if err != nil {
		return err
	}
	d.become(db, nil)
	return nil
}

// options of a database. The folder is locked already.
func (c Disk) options() *tsdb.Options {
	options := tsdb.DefaultOptions()
	options.NoLockfile = true
	options.RetentionDuration = c.Retention.Milliseconds()
	// The rest is for a block that is being written, and for the log.
	options.MaxBytes = c.MaxBytes * 7 / 10
	// As Prometheus does: a tenth of what is kept, so that it goes piece by piece.
	options.MaxBlockDuration = max(options.MinBlockDuration, options.RetentionDuration/10)
	options.WALCompression = compression.Snappy
	options.WALSegmentSize = 32 << 20
	options.OutOfOrderTimeWindow = lateness.Milliseconds()
	options.StripeSize = 1 << 10
	return options
}

// follow writes what comes and looks after the disk, until the context ends.
func (d *disk) follow(ctx context.Context, clock clock.WithTicker) {
	ticker := clock.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.waiting.news:
			d.drain(ctx)
		case <-ticker.C():
			d.look()
		}
	}
}

// drain writes what is waiting. What did not fit while the disk was too slow is counted and said.
func (d *disk) drain(ctx context.Context) {
	batch, lost := d.waiting.take()
	if lost > 0 {
		d.log.Error("the disk takes raw samples more slowly than they come; recommendations go on from memory", "dir", d.config.Dir, "lost", lost)
	}
	d.append(ctx, batch)
	d.waiting.done(batch)
}

// append writes what memory has accepted. Where that fails, the disk rests until the next look at it.
func (d *disk) append(ctx context.Context, batch []scraped) {
	if len(batch) == 0 {
		return
	}
	d.working.Lock()
	defer d.working.Unlock()
	if d.db == nil {
		return
	}
	err := d.short()
	if err == nil {
		err = d.write(ctx, batch)
	}
	if err != nil {
		d.rest(err)
	}
}

func (d *disk) write(ctx context.Context, batch []scraped) error {
	appender := d.db.AppenderV2(ctx)
	for _, b := range batch {
		of := &b.series.onDisk
		if of.opened != d.opened {
			*of = reference{opened: d.opened}
		}
		id, err := appender.Append(of.id, b.series.labels, 0, b.at, b.value, nil, nil, storage.AppendV2Options{})
		switch {
		case err == nil:
			of.id = id
		case !misplaced(err):
			return errors.Join(err, appender.Rollback())
		}
	}
	return appender.Commit()
}

// misplaced: the sample has no place there any more; nothing is wrong with the disk.
func misplaced(err error) bool {
	return errors.Is(err, storage.ErrOutOfOrderSample) || errors.Is(err, storage.ErrTooOldSample) ||
		errors.Is(err, storage.ErrOutOfBounds) || errors.Is(err, storage.ErrDuplicateSampleForTimestamp)
}

// rest closes the database while there is still room to close it in: it panics where it cannot write.
func (d *disk) rest(why error) {
	db := d.become(nil, why)
	d.log.Error("raw samples are not kept on disk for now; recommendations go on from memory", "dir", d.config.Dir, "cause", why.Error())
	if db == nil {
		return
	}
	if err := closed(db); err != nil {
		d.log.Error("closing the samples on disk", "cause", err.Error())
	}
}

// closed closes a database that may not be able to write what it holds.
func closed(db *tsdb.DB) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("what was in memory could not be written: %v", cause)
		}
	}()
	return db.Close()
}

// look after the disk: takes it up again where it rested, and drops what turned out to be broken.
func (d *disk) look() {
	d.working.Lock()
	defer d.working.Unlock()
	if d.config.Dir == "" {
		return
	}
	if d.doubted() {
		d.rest(errors.New("a part of it cannot be read"))
		dropBroken(d.config.Dir, d.log)
	}
	if d.db != nil {
		if err := errors.Join(d.short(), d.large()); err != nil {
			d.rest(err)
		}
		return
	}
	if d.large() != nil {
		dropAll(d.config.Dir, d.log)
	}
	if err := d.take(); err != nil {
		d.become(nil, err)
		return
	}
	d.log.Info("raw samples are kept on disk again", "dir", d.config.Dir)
}

// querier of what is on disk, or nil.
func (d *disk) querier(first, last int64) (storage.Querier, error) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	if d.db == nil {
		return nil, nil
	}
	return d.db.Querier(first, last)
}

// doubt: a query failed. Whether the disk is to blame is found out at the next look.
func (d *disk) doubt() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.suspect = d.db != nil
}

func (d *disk) doubted() bool {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	return d.db != nil && d.suspect
}

// state says why there is no disk (nil: there is), and the time of the oldest sample, if there is one.
func (d *disk) state() (idle error, oldest time.Time) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	if d.db == nil {
		return d.idle, time.Time{}
	}
	if at, err := d.db.StartTime(); err == nil && at > 0 && at <= d.db.Head().MaxTime() {
		oldest = time.UnixMilli(at).UTC()
	}
	return nil, oldest
}

// close writes what is waiting, and lets the folder go.
func (d *disk) close() {
	d.drain(context.Background())
	d.working.Lock()
	defer d.working.Unlock()
	if db := d.become(nil, errors.New("it is closed")); db != nil {
		if err := closed(db); err != nil {
			d.log.Error("closing the samples on disk", "cause", err.Error())
		}
	}
	if d.lock != nil {
		_ = d.lock.Release()
		d.lock = nil
	}
}
