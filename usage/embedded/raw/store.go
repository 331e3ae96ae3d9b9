// Package raw keeps the samples of series in a folder. Prometheus's query engine reads them. Prometheus's own
// database does the same and more, but it brings the client libraries of all clouds with it.
//
// The data takes this way:
//
//  1. Store.Append writes a batch to the journal (a file) and puts it into the buffer (memory).
//  2. Store.Tend packs the buffer every ten minutes: the samples go into packs, files that never change, and the
//     journal is emptied.
//  3. Store.Tend merges the packs of a span that is over to one longer pack: first of two hours, then of a day.
//  4. Store.Tend removes the oldest packs when they are too old or take too many bytes.
//
// Store.Querier answers from the packs and from the buffer. A pack is named by the times of its first and last
// sample.
//
// After a crash of the process, the journal has what is in no pack; only a record that was being written is lost. The
// package never repairs a broken pack; it drops the file and logs that. Start reading at store.go, then tend.go
// and writer.go.
package raw

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/storage"
	"k8s.io/utils/clock"
)

const (
	// journalName is the file in the folder. asideSuffix is appended to the name of a journal that could not be
	// read.
	journalName, asideSuffix = "journal", ".unread"
	// mostWaiting bounds the samples that are in no pack: more are packed at once. packEvery is the time between
	// the first and the last sample of the buffer after which they are packed in any case.
	mostWaiting = 1 << 20
	packEvery   = 10 * time.Minute
	// mostEntries are written as one record of the journal. It keeps a record far below mostRecord.
	mostEntries = 1 << 16
)

// Options of a Store.
type Options struct {
	// Dir is a folder of the store's own, which must exist. No other process may write there; the caller locks it.
	Dir string
	// Retention is how long samples are kept. A pack goes when its newest sample is older.
	Retention time.Duration
	// MaxBytes is how many bytes packs and journal may take. At nine tenths of it the oldest packs go.
	MaxBytes int64
	// Log receives what is dropped and what cannot be read. It must not be nil.
	Log *slog.Logger
	// Volume reads the files; nil: a Volume is made for this store alone. A store that is opened after another one
	// hung needs the same Volume, so that it does not begin a second read.
	Volume *Volume
}

// Store of samples. Append, Tend, DropBroken and Close must be called by one goroutine at a time, which may read
// packs and left without mutex; Querier and Oldest are safe for concurrent use.
type Store struct {
	options Options
	journal *journal
	// mutex guards the rest. It is never held while the disk is waited for.
	mutex sync.RWMutex
	// packs are in the order of their first samples. The slice is replaced, never changed in place, so a reader
	// that took it under mutex may go on with it.
	packs []*pack
	// buffer holds what is in no pack. Another one takes its place when it has been packed; a query that began
	// before goes on with the old one.
	buffer *buffer
	// left are the packs that cannot be read, and a journal that was put aside. They belong to the goroutine that
	// tends the store.
	left []PackFile
}

// Open opens a folder. It drops broken packs, leaves out packs that cannot be read, and cuts the journal where it
// stops making sense. It logs each of these. An error means that the disk itself fails: nothing is open then.
func Open(o Options) (_ *Store, err error) {
	if o.Volume == nil {
		o.Volume = NewVolume(clock.RealClock{})
	}
	s := &Store{options: o, buffer: newBuffer()}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if err := s.openPacks(); err != nil {
		return nil, err
	}
	// A folder or a link of that name is not ours; opening it could block or write elsewhere.
	path := filepath.Join(o.Dir, journalName)
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		s.drop(path, broken("it is no file"))
	}
	journal, lost, err := openJournal(o.Volume, path, s.buffer)
	if errors.Is(err, ErrUnread) {
		journal, lost, err = s.beginJournal(path, err)
	}
	if err != nil {
		return nil, err
	}
	s.journal = journal
	if lost > 0 {
		o.Log.Warn("the end of the journal of raw samples is dropped: it cannot be read", "bytes", lost)
	}
	return s, nil
}

// beginJournal begins a journal in the place of one that cannot be read. The old file stays under another name
// until it is too old. It holds samples of some minutes.
func (s *Store) beginJournal(path string, why error) (*journal, int64, error) {
	s.options.Log.Error("the journal of raw samples cannot be read; another one is begun", "kept", path+asideSuffix, "cause", why.Error())
	if err := os.Rename(path, path+asideSuffix); err != nil {
		return nil, 0, err
	}
	s.left = slices.DeleteFunc(s.left, func(f PackFile) bool { return f.Path == path+asideSuffix })
	s.left = append(s.left, fileAt(path+asideSuffix, why))
	s.buffer = newBuffer()
	return openJournal(s.options.Volume, path, s.buffer)
}

// openPacks opens every pack of the folder and removes temporary files. A temporary file is a pack that was being
// written when the process ended: its samples are still in the journal or in the packs that were being merged.
func (s *Store) openPacks() error {
	DropFormer(s.options.Dir, s.options.Log)
	entries, err := os.ReadDir(s.options.Dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join(s.options.Dir, entry.Name())
		switch {
		case entry.Name() == journalName+asideSuffix:
			s.left = append(s.left, fileAt(path, ErrUnread))
		case strings.HasSuffix(entry.Name(), tempSuffix):
			s.options.Log.Info("raw samples that were being packed are removed: the journal has them", "path", path)
			if err := os.Remove(path); err != nil {
				return err
			}
		case strings.HasSuffix(entry.Name(), packSuffix):
			if err := s.openOne(path); err != nil {
				return err
			}
		}
	}
	s.put(nil, nil)
	return nil
}

// openOne opens one pack. Only an error of the disk is returned; a broken or unreadable file is handled here.
func (s *Store) openOne(path string) error {
	p, err := openPack(s.options.Volume, path)
	switch {
	case errors.Is(err, ErrBroken):
		s.drop(path, err)
		return nil
	case errors.Is(err, ErrUnread):
		s.left = append(s.left, fileAt(path, err))
		return nil
	case err != nil:
		return err
	}
	s.packs = append(s.packs, p)
	return nil
}

// drop removes a file whose content is broken. That loses its samples, so it is logged with the cause.
func (s *Store) drop(path string, why error) {
	s.options.Log.Warn("raw samples on disk are dropped", "path", path, "cause", why.Error())
	if err := os.RemoveAll(path); err != nil {
		s.options.Log.Error("removing raw samples", "path", path, "cause", err.Error())
	}
}

// put replaces packs in one step, so that a query sees either the packs before a merge or the one after it, never
// both.
func (s *Store) put(added, removed []*pack) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	packs := slices.DeleteFunc(slices.Concat(s.packs, added), func(p *pack) bool { return slices.Contains(removed, p) })
	slices.SortFunc(packs, func(a, b *pack) int { return cmp.Compare(a.min, b.min) })
	s.packs = packs
}

// Append writes samples to the journal, then to the buffer. The order matters: a sample that a query has seen is
// in the journal and survives a crash of the process. After an error the store must be closed, since the journal
// may end in half of a record.
func (s *Store) Append(entries []Entry) error {
	for batch := range slices.Chunk(entries, mostEntries) {
		// The buffer numbers the series first, since the record refers to them by number. The samples go into it
		// last, after the journal has them.
		s.buffer.know(batch)
		if err := s.journal.write(batch, s.buffer); err != nil {
			return err
		}
		s.buffer.add(batch)
		if s.buffer.samples < mostWaiting {
			continue
		}
		if err := s.pack(); err != nil {
			return err
		}
	}
	return nil
}

// Querier returns the samples from first to last, both in Unix milliseconds and included. It does not touch the
// disk; reads happen while the result is iterated over. Packs of which a read has failed are left out. The error
// is always nil.
func (s *Store) Querier(first, last int64) (storage.Querier, error) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	all := []storage.Querier{waiting{Querier: storage.NoopQuerier(), buffer: s.buffer, first: first, last: last}}
	for _, p := range s.packs {
		if p.max >= first && p.min <= last && !p.failed.Load() {
			all = append(all, querier{Querier: storage.NoopQuerier(), pack: p, first: first, last: last})
		}
	}
	return storage.NewMergeQuerier(all, nil, storage.ChainedSeriesMerge), nil
}

// Oldest returns the time of the first sample in packs or buffer, in UTC; zero where there is none.
func (s *Store) Oldest() (oldest time.Time) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	first, _, any := s.buffer.span()
	if len(s.packs) > 0 && (!any || s.packs[0].min < first) {
		first, any = s.packs[0].min, true
	}
	if any {
		oldest = time.UnixMilli(first).UTC()
	}
	return oldest
}

// DropBroken reads and checks all packs. It drops those that are broken and leaves out those that cannot be read.
// It takes as long as reading the whole folder, so it is called only after a query has failed. An error means that
// the disk fails.
func (s *Store) DropBroken() error {
	var wrong error
	for _, p := range s.packs {
		switch err := p.verify(); {
		case errors.Is(err, ErrBroken):
			s.put(nil, []*pack{p})
			s.drop(p.path, err)
		case errors.Is(err, ErrUnread): // it is left out, and read again later
		default:
			wrong = errors.Join(wrong, err)
		}
	}
	s.leaveOut()
	return wrong
}

// Close closes all files. What is in no pack stays in the journal for the next Open. It returns the errors of all
// files, joined.
// It may be called on a store that Open has not completed.
func (s *Store) Close() error {
	s.mutex.RLock()
	packs := s.packs
	s.mutex.RUnlock()
	var err error
	for _, p := range packs {
		err = errors.Join(err, p.file.Close())
	}
	if s.journal != nil {
		err = errors.Join(err, s.journal.close())
	}
	return err
}

// Names of folders that Prometheus's database keeps: earlier versions of this program had it in the same folder.
var (
	// blockName matches the ULID of a block, and of one that was being made or removed.
	blockName = regexp.MustCompile(`^[0-9A-HJKMNP-TV-Z]{26}(\.tmp-for-(creation|deletion))?$`)
	// headNames are the folders of samples that are in no block.
	headNames = []string{"wal", "wbl", "chunks_head"}
	// segmentName matches what such a folder holds.
	segmentName = regexp.MustCompile(`^([0-9]{6,8}|checkpoint\.[0-9]+(\.tmp)?)$`)
)

// DropFormer removes the folders that the database of an earlier version left in dir, and nothing else. It does
// not fail: what could not be removed is logged.
func DropFormer(dir string, log *slog.Logger) {
	entries, _ := os.ReadDir(dir) // who works with the folder meets the error as well
	var dropped []string
	var wrong error
	for _, entry := range entries {
		if !entry.IsDir() || !former(filepath.Join(dir, entry.Name())) {
			continue
		}
		dropped = append(dropped, entry.Name())
		wrong = errors.Join(wrong, os.RemoveAll(filepath.Join(dir, entry.Name())))
	}
	if len(dropped) == 0 {
		return
	}
	log.Warn("raw samples of an earlier version are removed", "dir", dir, "folders", dropped)
	if wrong != nil {
		log.Error("removing raw samples of an earlier version", "dir", dir, "cause", wrong.Error())
	}
}

// former returns whether a folder belongs to that database. Both its name and its content must fit, so that a
// folder of the same name with other files is never removed.
func former(path string) bool {
	name := filepath.Base(path)
	inside, err := os.ReadDir(path)
	if err != nil {
		return false
	}
	switch {
	case blockName.MatchString(name):
		return slices.ContainsFunc(inside, func(e os.DirEntry) bool {
			return slices.Contains([]string{"meta.json", "index", "chunks"}, e.Name())
		})
	case slices.Contains(headNames, name):
		return !slices.ContainsFunc(inside, func(e os.DirEntry) bool { return !segmentName.MatchString(e.Name()) })
	}
	return false
}
