package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/fileutil"
	"k8s.io/utils/clock"

	"attune.io/attune/usage/embedded/raw"
)

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

// disk keeps raw samples in a folder, for graphs, for queries that look further back than memory does, and for the past
// after a restart. It is never needed: what fails here is said, and the rest
// goes on without.
type disk struct {
	config Disk
	log    *slog.Logger
	// room is that of a folder; tests have their own.
	room func(dir string) (room, error)
	// waiting is what is to be written: a disk may be slow, or hang, and nobody waits for it.
	waiting queue
	clock   clock.WithTicker
	// volume is what the stores read from, one after the other.
	volume *raw.Volume

	// working is held for as long as the disk is worked with, and lock is its alone. It is taken before mutex.
	working sync.Mutex
	lock    fileutil.Releaser
	// mutex guards the rest, which is changed under working as well. It is never held while the disk is waited for.
	mutex sync.RWMutex
	store *raw.Store
	// idle is why there is no store; nil while there is one.
	idle error
	// suspect: something could not be read.
	suspect bool
	// entries is memory of an earlier batch. It belongs to who works with the disk.
	entries []raw.Entry
	// said is when it was said last why there is no store; zero while there is one.
	said time.Time
	// silent is how long nothing more is said of queries that are answered without the disk.
	silent time.Time
}

var (
	errNoDisk  = errors.New("no folder is configured")
	errLocked  = errors.New("another process uses it")
	errOpening = errors.New("it is being opened")
)

func newDisk(config Disk, of clock.WithTicker, log *slog.Logger) *disk {
	d := &disk{config: config, log: log, clock: of, volume: raw.NewVolume(of), room: roomOf, waiting: newQueue(), idle: errOpening}
	if config.Dir == "" {
		d.idle = errNoDisk
	}
	return d
}

// run opens the folder, says so, and works with it until the context ends. A disk that hangs has it hang; whatever
// else there is does not wait for it.
func (d *disk) run(ctx context.Context, opened func()) {
	_ = d.open() // it is said, and tried again
	opened()
	d.follow(ctx)
	d.close()
}

// open takes the folder, and repairs or drops what is broken in it. An error is why there is no disk.
func (d *disk) open() error {
	d.working.Lock()
	defer d.working.Unlock()
	now := d.clock.Now()
	err := d.take(now)
	if err != nil {
		d.become(nil, err)
		d.complain(now, err)
	}
	return err
}

// sayEvery is how often it is said again what has not changed.
const sayEvery = time.Hour

// complain that there is no disk, and why: when that begins, and hourly.
func (d *disk) complain(now time.Time, why error) {
	if d.said.IsZero() || now.Sub(d.said) >= sayEvery || now.Before(d.said) {
		d.said = now
		d.log.Error("raw samples are not kept on disk for now; recommendations go on from memory", "dir", d.config.Dir, "cause", why.Error())
	}
}

// become another store, or none and why. It returns the one before.
func (d *disk) become(store *raw.Store, idle error) (before *raw.Store) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	before = d.store
	d.store, d.idle = store, idle
	d.suspect = d.suspect && store == nil
	return before
}

// take the folder. Nothing of it is changed before it is locked.
func (d *disk) take(now time.Time) error {
	if d.config.Dir == "" {
		return errNoDisk
	}
	if err := os.MkdirAll(d.config.Dir, 0o750); err != nil {
		return err
	}
	if err := d.seize(); err != nil {
		return err
	}
	if err := d.makeRoom(now); err != nil {
		return err
	}
	store, err := raw.Open(raw.Options{Dir: d.config.Dir, Retention: d.config.Retention, MaxBytes: d.config.most() * 9 / 10, Log: d.log, Volume: d.volume})
	if err != nil {
		return err
	}
	d.become(store, nil)
	d.said = time.Time{}
	return nil
}

// seize the folder's lock.
func (d *disk) seize() error {
	if d.lock != nil {
		return nil
	}
	lock, _, err := fileutil.Flock(filepath.Join(d.config.Dir, "lock"))
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("%w: %w", errLocked, err)
	}
	if err != nil {
		return fmt.Errorf("locking the folder: %w", err)
	}
	d.lock = lock
	return nil
}

// most is what the folder may take.
func (c Disk) most() int64 {
	if c.MaxBytes <= 0 {
		return math.MaxInt64 / 16
	}
	return c.MaxBytes
}

// follow writes what comes and looks after the disk, until the context ends.
func (d *disk) follow(ctx context.Context) {
	ticker := d.clock.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.waiting.news:
			d.drain()
		case <-ticker.C():
			d.look(d.clock.Now())
		}
	}
}

// drain writes what is waiting. What did not fit while the disk was too slow is counted and said.
func (d *disk) drain() {
	batch, lost := d.waiting.take()
	if lost > 0 {
		d.log.Error("the disk takes raw samples more slowly than they come; recommendations go on from memory", "dir", d.config.Dir, "lost", lost)
	}
	d.append(batch)
	d.waiting.done(batch)
}

// append writes what memory has accepted. Where that fails, the disk rests until the next look at it.
func (d *disk) append(batch []scraped) {
	if len(batch) == 0 {
		return
	}
	d.working.Lock()
	defer d.working.Unlock()
	if d.store == nil {
		return
	}
	err := d.short()
	if err == nil {
		err = d.write(batch)
	}
	if err != nil {
		d.rest(d.clock.Now(), err)
	}
}

func (d *disk) write(batch []scraped) error {
	d.entries = d.entries[:0]
	for _, b := range batch {
		d.entries = append(d.entries, raw.Entry{Labels: b.series.labels, Sample: b.Sample})
	}
	defer clear(d.entries)
	return d.store.Append(d.entries)
}

// rest closes the store while there is still room to close it in.
func (d *disk) rest(now time.Time, why error) {
	store := d.become(nil, why)
	d.complain(now, why)
	if store == nil {
		return
	}
	if err := store.Close(); err != nil {
		d.log.Error("closing the samples on disk", "cause", err.Error())
	}
}

// look after the disk: takes it up again where it rested, and drops what turned out to be broken.
func (d *disk) look(now time.Time) {
	d.working.Lock()
	defer d.working.Unlock()
	if d.config.Dir == "" {
		return
	}
	if d.store != nil {
		if err := d.tend(now); err != nil {
			d.rest(now, err)
		}
		return
	}
	if err := d.take(now); err != nil {
		d.become(nil, err)
		d.complain(now, err)
		return
	}
	d.log.Info("raw samples are kept on disk again", "dir", d.config.Dir)
}

func (d *disk) tend(now time.Time) error {
	if d.doubted() {
		if err := d.store.DropBroken(); err != nil {
			return err
		}
	}
	if err := d.short(); err != nil {
		return err
	}
	has, err := d.room(d.config.Dir)
	if err != nil {
		return err
	}
	if err := d.store.Tend(now, int64(has.free)-reserve); err != nil {
		return err
	}
	return d.large()
}

// querier of what is on disk, or nil where there is no disk. The error says that nothing can be read for now.
func (d *disk) querier(first, last int64) (storage.Querier, error) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	switch {
	case d.volume.Hangs():
		return nil, raw.ErrHangs
	case d.store == nil && (errors.Is(d.idle, errOpening) || errors.Is(d.idle, raw.ErrHangs)):
		return nil, d.idle
	case d.store == nil:
		return nil, nil
	}
	return d.store.Querier(first, last)
}

// doubt: a query failed. Whether the disk is to blame is found out at the next look.
func (d *disk) doubt() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.suspect = d.store != nil
}

// without says that a query was answered without the disk, which does not answer for now: when that begins, and hourly.
func (d *disk) without(why error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	now := d.clock.Now()
	if now.Before(d.silent) {
		return
	}
	d.silent = now.Add(sayEvery)
	d.log.Error("queries that need the disk are answered from memory alone for now", "dir", d.config.Dir, "cause", why.Error())
}

// doubted says once whether there is a doubt.
func (d *disk) doubted() bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	was := d.suspect
	d.suspect = false
	return was
}

// state says why there is no disk (nil: there is), and the time of the oldest sample, if there is one.
func (d *disk) state() (idle error, oldest time.Time) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	if d.store == nil {
		return d.idle, time.Time{}
	}
	return nil, d.store.Oldest()
}

// close writes what is waiting, and lets the folder go.
func (d *disk) close() {
	d.drain()
	d.working.Lock()
	defer d.working.Unlock()
	if store := d.become(nil, errors.New("it is closed")); store != nil {
		if err := store.Close(); err != nil {
			d.log.Error("closing the samples on disk", "cause", err.Error())
		}
	}
	if d.lock != nil {
		_ = d.lock.Release()
		d.lock = nil
	}
}
