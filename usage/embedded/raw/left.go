package raw

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// againEvery is how often packs that cannot be read are tried again, and said to be there.
const againEvery = time.Hour

// PackFile is a pack by what its name and its folder tell: it is not opened.
type PackFile struct {
	Path string
	// Min and Max are the times of its first and last sample.
	Min, Max int64
	Bytes    int64
	why      error
}

// fileAt a path. Where the name tells no times, they are that of its last change; that is also the latest that
// its samples can be of, whatever the name says.
func fileAt(path string, why error) PackFile {
	f := PackFile{Path: path, Max: math.MaxInt64, why: why}
	changed := int64(math.MaxInt64)
	if info, err := os.Lstat(path); err == nil {
		f.Bytes, changed = info.Size(), info.ModTime().UnixMilli()
	}
	if n, err := fmt.Sscanf(filepath.Base(path), "%d-%d-", &f.Min, &f.Max); n < 2 || err != nil {
		f.Min, f.Max = changed, changed
	}
	f.Max = min(f.Max, changed)
	return f
}

// PackFiles of a folder and the journal that could not be read, the oldest first.
func PackFiles(dir string) ([]PackFile, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []PackFile
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), packSuffix) || entry.Name() == journalName+asideSuffix {
			files = append(files, fileAt(filepath.Join(dir, entry.Name()), nil))
		}
	}
	slices.SortFunc(files, func(a, b PackFile) int { return cmp.Compare(a.Min, b.Min) })
	return files, nil
}

// oldestLeft out, or -1.
func (s *Store) oldestLeft() int {
	oldest := -1
	for i, f := range s.left {
		if oldest < 0 || f.Min < s.left[oldest].Min {
			oldest = i
		}
	}
	return oldest
}

// leaveOut the packs of which a read has failed. Their files are closed when nobody reads them any more.
func (s *Store) leaveOut() {
	for _, p := range s.packs {
		if p.failed.Load() {
			s.put(nil, []*pack{p})
			s.left = append(s.left, PackFile{Path: p.path, Min: p.min, Max: p.max, Bytes: p.size, why: ErrUnread})
		}
	}
}

// again reads the packs that could not be read, each once an hour, and says so of those that still cannot. An error is the
// disk's.
func (s *Store) again(now time.Time) error {
	told, due := s.options.Volume.told, false
	files := s.left
	s.left = nil
	for i, f := range files {
		last, known := told[f.Path]
		isDue := !known || now.Sub(last) >= againEvery || now.Before(last)
		if known && isDue && strings.HasSuffix(f.Path, packSuffix) {
			back, err := s.retry(&f)
			if err != nil {
				s.left = append(s.left, files[i:]...)
				return err
			}
			if back {
				delete(told, f.Path)
				continue
			}
		}
		due = due || isDue
		s.left = append(s.left, f)
	}
	if due {
		s.tellLeft(now)
	}
	return nil
}

// retry a pack that could not be read. It is back where it can be, or is broken.
func (s *Store) retry(f *PackFile) (back bool, err error) {
	p, err := openPack(s.options.Volume, f.Path)
	if err == nil {
		err = p.verify()
	}
	switch {
	case err == nil:
		s.put([]*pack{p}, nil)
		s.options.Log.Info("raw samples on disk can be read again", "path", f.Path)
		return true, nil
	case errors.Is(err, ErrBroken):
		s.drop(f.Path, err)
		return true, nil
	case errors.Is(err, os.ErrNotExist):
		return true, nil
	case errors.Is(err, ErrUnread):
		f.why = err
		return false, nil
	}
	return false, err
}

// tellLeft says how many packs are left out, in one line, and that they were said.
func (s *Store) tellLeft(now time.Time) {
	clear(s.options.Volume.told)
	for _, f := range s.left {
		s.options.Volume.told[f.Path] = now
	}
	oldest := s.left[s.oldestLeft()]
	s.options.Log.Error("raw samples on disk cannot be read and are left out; their files go when they are too old",
		"packs", len(s.left), "oldest", oldest.Path, "cause", oldest.why.Error())
}
