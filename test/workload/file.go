package main

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
)

// file is one whose content stays in memory: what the kernel keeps of a file on
// disk counts as memory of who wrote it, and so does all of one in a memory volume.
type file struct {
	mu  sync.Mutex
	dir string
}

// set makes the file that many MiB long; what it no longer holds is given back.
func (f *file) set(mib int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dir == "" {
		return errors.New("FILE_DIR does not say where the file is to be")
	}
	out, err := os.Create(filepath.Join(f.dir, "ballast"))
	if err != nil {
		return err
	}
	chunk := make([]byte, mebibyte)
	for range mib {
		if _, err := out.Write(chunk); err != nil {
			return errors.Join(err, out.Close())
		}
	}
	// On the disk, too, so that the kernel may drop it whenever it wants to.
	return errors.Join(out.Sync(), out.Close())
}
