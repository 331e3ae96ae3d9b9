// Package raw keeps the samples of series in a folder: in a journal first, then in packs, which never change and are
// merged to longer ones. Prometheus's query engine reads them. Its own database does the same and more, and brings the
// libraries of all clouds with it.
package raw

import (
	"cmp"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/prometheus/storage"
	"k8s.io/utils/clock"
)

const (
	// journalName in the folder, asideSuffix of one that could not be read.
	journalName, asideSuffix = "journal", ".unread"
	// mostWaiting samples are in no pack, and those of packEvery at most.
	mostWaiting = 1 << 20
	packEvery   = 10 * time.Minute
	// mostEntries are written as one record.
	mostEntries = 1 << 16
)

// Options of a Store.
type Options struct {
	// Dir is a folder of its own. Nobody else writes there.
	Dir string
	// Retention is how long samples are kept.
	Retention time.Duration
	// MaxBytes is what packs and journal may take: the oldest packs go first.
	MaxBytes int64
	Log      *slog.Logger
	// Volume is one of its own where it is nil.
	Volume *Volume
}

// Store of samples. Append, Tend, DropBroken and Close belong to one caller at a time; the rest is safe for concurrent
// use.
type Store struct {
	options Options
	journal *journal
	// mutex guards the rest. It is never held while the disk is waited for.
	mutex sync.RWMutex
	// packs are in the order of their first samples.
	packs  []*pack
	buffer *buffer
	// left out are packs that cannot be read. They are their caller's who tends the store.
	left []PackFile
}

// Open a folder. Packs that are broken are dropped, those that cannot be read are left out, and the journal is cut where it
// ends to make sense. An error is the disk's.
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

// beginJournal in the place of one that cannot be read, which stays as a file until it is too old. Those are the samples of
// some minutes.
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

func (s *Store) drop(path string, why error) {
	s.options.Log.Warn("raw samples on disk are dropped", "path", path, "cause", why.Error())
	if err := os.RemoveAll(path); err != nil {
		s.options.Log.Error("removing raw samples", "path", path, "cause", err.Error())
	}
}

// put packs in the place of others.
func (s *Store) put(added, removed []*pack) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	packs := slices.DeleteFunc(slices.Concat(s.packs, added), func(p *pack) bool { return slices.Contains(removed, p) })
	slices.SortFunc(packs, func(a, b *pack) int { return cmp.Compare(a.min, b.min) })
	s.packs = packs
}

// Append samples. After an error the store is to be closed.
func (s *Store) Append(entries []Entry) error {
	for batch := range slices.Chunk(entries, mostEntries) {
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

// Querier of the samples of a time, ends included.
func (s *Store) Querier(first, last int64) (storage.Querier, error) {
	s.mutex.RLock()
	defer s.mutex.RUnlock()
	all := []storage.Querier{waiting{buffer: s.buffer, first: first, last: last}}
	for _, p := range s.packs {
		if p.max >= first && p.min <= last && !p.failed.Load() {
			all = append(all, querier{pack: p, first: first, last: last})
		}
	}
	return storage.NewMergeQuerier(all, nil, storage.ChainedSeriesMerge), nil
}

// Oldest is the time of the first sample; zero: there is none.
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

// DropBroken reads everything, drops the packs that are broken, and leaves out those that cannot be read. An error is the
// disk's.
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

// Close lets the folder go. What is in no pack yet is in the journal.
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
