// Package state knows what a cluster leaves on the machine outside its
// namespaces, its directory and its cgroups, and removes it when the cluster is dead.
package state

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"attune.io/attune/test/cluster/internal/spec"
	"golang.org/x/sys/unix"
)

// CgroupDir is where the cgroup hierarchies are mounted.
const CgroupDir = "/sys/fs/cgroup"

// Unified reports whether the machine has cgroup v2 and nothing else.
func Unified() bool {
	_, err := os.Stat(filepath.Join(CgroupDir, "cgroup.controllers"))
	return err == nil
}

// Cgroup is the directory of a cgroup below a controller. With cgroup v2 all controllers share one.
func Cgroup(controller, group string) string {
	if Unified() {
		controller = ""
	}
	return filepath.Join(CgroupDir, controller, group)
}

const lockName = "lock"

// removeLimit is how long processes may take to end after they were killed.
const removeLimit = 30 * time.Second

// ErrAlive says that a cluster of that name is running.
var ErrAlive = errors.New("a cluster of this name is running")

// Lock makes dir if need be and takes its lock, which the cluster's first
// process inherits and holds for life: a lock that can be taken proves that
// the cluster is dead. It returns ErrAlive when it cannot.
func Lock(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrAlive
		}
		return nil, err
	}
	return f, nil
}

// Alive reports whether the cluster in dir is running.
func Alive(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
		return false
	}
	f, err := Lock(dir)
	if err != nil {
		return errors.Is(err, ErrAlive)
	}
	f.Close()
	return false
}

// WaitDead returns once the cluster in dir, whose first process was pid, is
// gone, or says that it is not. The lock alone does not say so: the kernel
// lets go of it before it ends the first process' descendants.
func WaitDead(dir string, pid int, limit time.Duration) error {
	for end := time.Now().Add(limit); Alive(dir) || !ended(pid); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("the cluster in %s is still running after %s", dir, limit)
		}
	}
	return nil
}

// ended reports whether there is no such process, or only what its parent has
// not collected yet.
func ended(pid int) bool {
	state, err := RunState(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || state == 'Z' || state == 'X'
}

// RunState is the letter of what a process or thread does, by its stat file: R, S, D, T, t, Z, X (proc_pid_stat(5)).
func RunState(file string) (byte, error) {
	stat, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	// The name before it is in parentheses, and may hold any.
	after := strings.TrimSpace(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if after == "" {
		return 0, fmt.Errorf("%s tells no state", file)
	}
	return after[0], nil
}

// Guard lets one process at a time sweep below base and take a name there.
// The caller closes the file when it has done so.
func Guard(base string) (io.Closer, error) {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(base+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Sweep removes what dead clusters below base have left; running ones are not touched.
func Sweep(base string) error {
	dirs, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range dirs {
		errs = append(errs, SweepOne(filepath.Join(base, d.Name())))
	}
	return errors.Join(errs...)
}

// SweepOne removes what the cluster in dir has left, unless it is running or has left nothing.
func SweepOne(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := Lock(dir)
	if errors.Is(err, ErrAlive) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	return Remove(strings.TrimSuffix(filepath.Base(dir), ".gone"), dir)
}

// Remove removes the cgroups and the directory of a cluster none of whose
// processes is left. Processes that are just ending are waited for.
func Remove(name, dir string) error {
	if err := removeCgroups(name, removeLimit); err != nil {
		return err
	}
	// Renamed first, so that a new cluster of this name never meets half of it.
	gone := dir + ".gone"
	if err := os.Rename(dir, gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the cluster's directory: %w", err)
	}
	return removeAll(gone, removeLimit)
}

// removeAll tries again for as long as dying processes still write there.
func removeAll(dir string, limit time.Duration) error {
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		err := os.RemoveAll(dir)
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("removing the cluster's directory, remove it by hand: %w", err)
		}
	}
}

func removeCgroups(name string, limit time.Duration) error {
	for end := time.Now().Add(limit); ; time.Sleep(20 * time.Millisecond) {
		left := cgroups(name)
		if len(left) == 0 {
			return nil
		}
		var err error
		for _, dir := range left {
			if e := syscall.Rmdir(dir); e != nil && e != syscall.ENOENT {
				err = e
			}
		}
		if err != nil && time.Now().After(end) {
			return fmt.Errorf("cgroups of cluster %s are still in use, end what is in them: %s: %w", name, left[0], err)
		}
	}
}

// cgroups lists the named cluster's cgroups, children before parents.
func cgroups(name string) []string {
	roots, _ := filepath.Glob(Cgroup("*", spec.CgroupPrefix(name)+"*"))
	var all []string
	for _, root := range roots {
		if !isNumber(strings.TrimPrefix(filepath.Base(root), spec.CgroupPrefix(name))) {
			continue // another cluster, whose name begins with this one's
		}
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
	}
	sort.Sort(sort.Reverse(sort.StringSlice(all)))
	return all
}

func isNumber(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}
