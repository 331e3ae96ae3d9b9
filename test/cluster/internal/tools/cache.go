package tools

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"

	"golang.org/x/sys/unix"
)

// Cache is the directory for everything that is not worth making twice:
// $ATTUNE_CACHE, or "attune" in the user's cache directory.
func Cache() (string, error) {
	if dir := os.Getenv("ATTUNE_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir, err := os.UserCacheDir(); err == nil {
		return filepath.Join(dir, "attune"), nil
	}
	return "", errors.New("there is no place for the cluster's programs, set ATTUNE_CACHE to a directory")
}

// cached returns dir, which make fills if it is not there. It appears whole or
// not at all, and two processes never make it twice.
func cached(dir string, make func(dir string) error) (string, error) {
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil // made while we waited
	}
	unfinished := dir + ".unfinished"
	if err := os.RemoveAll(unfinished); err != nil {
		return "", err
	}
	if err := os.MkdirAll(unfinished, 0o755); err != nil {
		return "", err
	}
	if err := make(unfinished); err != nil {
		return "", err
	}
	return dir, os.Rename(unfinished, dir)
}

// digest is a short hash of the parts, of all files in dirs, and of the platform.
func digest(dirs []string, parts ...string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), runtime.GOARCH, strings.Join(parts, "\x00"))
	for _, dir := range dirs {
		if err := hashDir(h, dir); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil))[:12], nil
}

func hashDir(h io.Writer, dir string) error {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasSuffix(path, "_test.go") {
			files = append(files, path)
		}
		return err
	})
	sort.Strings(files)
	for _, file := range files {
		data, e := os.ReadFile(file)
		err = errors.Join(err, e)
		name, _ := filepath.Rel(dir, file) // both are absolute
		fmt.Fprintf(h, "%s %d\n%s", name, len(data), data)
	}
	return err
}
