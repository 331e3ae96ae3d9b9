package embedded

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/prometheus/storage"
	"k8s.io/utils/clock"

	"attune.io/attune/usage/embedded/raw"
)

// disk keeps raw samples in a folder, for graphs, for queries that look further back than memory does, and for the
// past after a restart. Nothing depends on it: a failure is logged, and everything else goes on without the disk.
//
// States: opening → working ⇄ resting → closed. In all but the second one store is nil and idle holds the reason.
type disk struct {
	folder
	// waiting are samples to be written: a disk may be slow, or hang, and no scrape waits for it.
	waiting queue
	clock   clock.WithTicker
	// volume is read from by the stores, one after the other.
	volume *raw.Volume

	// working is held for as long as the disk is worked with, and guards the folder. It is taken before mutex.
	working sync.Mutex
	// mutex guards the rest, whose store is changed under working as well. It is never held while waiting for the disk.
	mutex sync.RWMutex
	// store is the open store; nil while there is none.
	store *raw.Store
	// idle is why there is no store; nil while there is one.
	idle error
	// suspect is true after a query has failed. The next look checks all packs.
	suspect bool
	// entries is memory of an earlier batch, and said when the log said last why there is no store; zero while there is
	// one. Both are guarded by working.
	entries []raw.Entry
	// said is zero while there is a store.
	said time.Time
	// silent is the time until which the log says nothing more of queries that are answered without the disk.
	silent time.Time
}

var (
	errNoDisk  = errors.New("no folder is configured")
	errOpening = errors.New("it is being opened")
)

// newDisk touches no file. The folder is opened by run.
func newDisk(config Disk, of clock.WithTicker, log *slog.Logger) *disk {
	d := &disk{folder: folder{config: config, log: log, room: roomOf}, clock: of, volume: raw.NewVolume(of), waiting: newQueue(), idle: errOpening}
	if config.Dir == "" {
		d.idle = errNoDisk
	}
	return d
}

// run opens the folder, calls opened, and works with the folder until the context ends. Where the disk hangs, run
// hangs: Source waits for it with a time limit only.
func (d *disk) run(ctx context.Context, opened func()) {
	_ = d.open() // logged, and tried again by look
	opened()
	d.follow(ctx)
	d.close()
}

// open the folder, and repair or drop what is broken in it. An error is why there is no disk.
func (d *disk) open() error {
	d.working.Lock()
	defer d.working.Unlock()
	now := d.clock.Now()
	err := d.openStore(now)
	if err != nil {
		d.rest(now, err)
	}
	return err
}

// sayEvery is how often the log repeats what has not changed.
const sayEvery = time.Hour

// logIdle logs that there is no disk, and why: when that begins, and then once in sayEvery. The caller holds
// working.
func (d *disk) logIdle(now time.Time, why error) {
	if d.said.IsZero() || now.Sub(d.said) >= sayEvery || now.Before(d.said) {
		d.said = now
		d.log.Error("raw samples are not kept on disk for now; recommendations go on from memory", "dir", d.config.Dir, "cause", why.Error())
	}
}

// setStore sets the store, or nil and the reason. It returns the store before. The caller holds working.
func (d *disk) setStore(store *raw.Store, idle error) (before *raw.Store) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	before = d.store
	d.store, d.idle = store, idle
	d.suspect = d.suspect && store == nil
	return before
}

// openStore opens the folder. The order matters: it locks the folder before it changes anything, and makes room
// before it opens the store, which needs room to open. The caller holds working.
func (d *disk) openStore(now time.Time) error {
	if d.config.Dir == "" {
		return errNoDisk
	}
	if err := os.MkdirAll(d.config.Dir, 0o750); err != nil {
		return err
	}
	if err := d.acquire(); err != nil {
		return err
	}
	if err := d.makeRoom(now); err != nil {
		return err
	}
	store, err := raw.Open(raw.Options{Dir: d.config.Dir, Retention: d.config.Retention, MaxBytes: d.config.most() * 9 / 10, Log: d.log, Volume: d.volume})
	if err != nil {
		return err
	}
	d.setStore(store, nil)
	d.said = time.Time{}
	return nil
}

// follow writes samples as they come and looks after the disk, until the context ends.
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

// drain writes the samples that are waiting, and logs how many were lost while the disk was too slow.
func (d *disk) drain() {
	batch, lost := d.waiting.take()
	if lost > 0 {
		d.log.Error("the disk takes raw samples more slowly than they come; recommendations go on from memory", "dir", d.config.Dir, "lost", lost)
	}
	d.append(batch)
	d.waiting.done(batch)
}

// append writes samples that memory has accepted. After a failure the store is closed until the next look.
func (d *disk) append(batch []scraped) {
	if len(batch) == 0 {
		return
	}
	d.working.Lock()
	defer d.working.Unlock()
	if d.store == nil {
		return
	}
	err := d.full()
	if err == nil {
		err = d.write(batch)
	}
	if err != nil {
		d.rest(d.clock.Now(), err)
	}
}

// write appends a batch to the store. The entries are cleared afterwards, so that they keep no labels alive.
func (d *disk) write(batch []scraped) error {
	d.entries = d.entries[:0]
	for _, b := range batch {
		d.entries = append(d.entries, raw.Entry{Labels: b.series.labels, Sample: b.Sample})
	}
	defer clear(d.entries)
	return d.store.Append(d.entries)
}

// rest closes the store after a failure. On a disk that is nearly full it is called while reserve bytes are still
// free, since closing may need room too.
func (d *disk) rest(now time.Time, why error) {
	store := d.setStore(nil, why)
	d.logIdle(now, why)
	if store == nil {
		return
	}
	if err := store.Close(); err != nil {
		d.log.Error("closing the samples on disk", "cause", err.Error())
	}
}

// look does the upkeep once in lookEvery: it tends the open store, or tries to open one again.
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
	if err := d.openStore(now); err != nil {
		d.rest(now, err)
		return
	}
	d.log.Info("raw samples are kept on disk again", "dir", d.config.Dir)
}

// tend repairs what a query has found to be broken, and does the store's upkeep. The caller holds working.
func (d *disk) tend(now time.Time) error {
	if d.doubted() {
		if err := d.store.DropBroken(); err != nil {
			return err
		}
	}
	if err := d.full(); err != nil {
		return err
	}
	has, err := d.room(d.config.Dir)
	if err != nil {
		return err
	}
	if err := d.store.Tend(now, int64(has.free)-reserve); err != nil {
		return err
	}
	return d.oversize()
}

// querier returns the samples on disk; nil where there is no disk, which is no error. An error means that the disk
// cannot answer at the moment, and that the answer is therefore partial.
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

// doubt records that a query has failed. The next look checks whether the packs are to blame.
func (d *disk) doubt() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.suspect = d.store != nil
}

// logUnanswered says that a query was answered without the disk, which does not answer for now: when that begins, and
// hourly.
func (d *disk) logUnanswered(why error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	now := d.clock.Now()
	if now.Before(d.silent) {
		return
	}
	d.silent = now.Add(sayEvery)
	d.log.Error("queries that need the disk are answered from memory alone for now", "dir", d.config.Dir, "cause", why.Error())
}

// doubted returns whether a query has failed since the last call.
func (d *disk) doubted() bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	was := d.suspect
	d.suspect = false
	return was
}

// state returns why there is no store (nil: there is one), and the time of its oldest sample (zero: it has none).
func (d *disk) state() (idle error, oldest time.Time) {
	d.mutex.RLock()
	defer d.mutex.RUnlock()
	if d.store == nil {
		return d.idle, time.Time{}
	}
	return nil, d.store.Oldest()
}

// close writes the samples that are waiting, closes the store and releases the folder.
func (d *disk) close() {
	d.drain()
	d.working.Lock()
	defer d.working.Unlock()
	if store := d.setStore(nil, errors.New("it is closed")); store != nil {
		if err := store.Close(); err != nil {
			d.log.Error("closing the samples on disk", "cause", err.Error())
		}
	}
	d.release()
}
