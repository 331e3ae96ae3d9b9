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

// againEvery is how often the files in left are tried again, and how often the log repeats that they are there.
const againEvery = time.Hour

// PackFile describes a pack by its name and size on disk, without opening it. It is used where the file cannot be
// read, or where the store is not open.
type PackFile struct {
	// Path of the file.
	Path string
	// Min and Max are the times of the first and the last sample, in Unix milliseconds.
	Min, Max int64
	// Bytes is the size of the file; 0 where it is not known.
	Bytes int64
	// why is the reason that the file cannot be read; nil for a file that was only listed.
	why error
}

// fileAt describes the file at a path. Min and Max come from its name. Where the name has no times, both are the
// time of the file's last change. Max is never later than that change, whatever the name says: a name from a clock
// that was ahead would keep the file for ever.
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

// PackFiles lists the packs of a folder, and a journal that was put aside, the oldest first. It is used to make
// room while no store is open. An error means that the folder cannot be listed.
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

// oldestLeft returns the index of the oldest file in left, or -1 where left is empty.
func (s *Store) oldestLeft() int {
	oldest := -1
	for i, f := range s.left {
		if oldest < 0 || f.Min < s.left[oldest].Min {
			oldest = i
		}
	}
	return oldest
}

// leaveOut moves the packs of which a read has failed from packs to left. It does not close their files, because a
// query may still use them.
func (s *Store) leaveOut() {
	for _, p := range s.packs {
		if p.failed.Load() {
			s.put(nil, []*pack{p})
			s.left = append(s.left, PackFile{Path: p.path, Min: p.min, Max: p.max, Bytes: p.size, why: ErrUnread})
		}
	}
}

// again tries the files in left once an hour each, and logs how many are still unreadable. The order of the
// entries in left is kept. An error means that the disk fails: the entries that were not tried stay in left.
func (s *Store) again(now time.Time) error {
	told, due := s.options.Volume.told, false
	files := s.left
	s.left = nil
	for i, f := range files {
		last, known := told[f.Path]
		isDue := !known || now.Sub(last) >= againEvery || now.Before(last)
		// A file that has not been logged yet has just been tried. A journal that was put aside is never read
		// again.
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

// retry opens and checks a pack that could not be read. back is true where the file leaves left: it is readable
// again, or it is broken and dropped, or it is gone.
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

// tellLeft logs how many files are left out, in one line, and records the time of the message for each of them.
func (s *Store) tellLeft(now time.Time) {
	clear(s.options.Volume.told)
	for _, f := range s.left {
		s.options.Volume.told[f.Path] = now
	}
	oldest := s.left[s.oldestLeft()]
	s.options.Log.Error("raw samples on disk cannot be read and are left out; their files go when they are too old",
		"packs", len(s.left), "oldest", oldest.Path, "cause", oldest.why.Error())
}
