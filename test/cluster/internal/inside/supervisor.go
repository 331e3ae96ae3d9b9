package inside

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sort"
	"sync"
	"syscall"
	"time"

	"attune.io/attune/test/cluster/internal/spec"
)

// Status is what is known of one process the supervisor has started.
type Status struct {
	Name   string `json:"name"`
	PID    int    `json:"pid"`
	Exited bool   `json:"exited"`
	// Result is the exit code, or 128 plus the signal that ended the process.
	Result int `json:"result"`
}

// supervisor starts processes and collects every child that ends, its own and
// those the kernel hands to pid 1. It never restarts anything: a component that
// dies is a fact the harness reports.
//
// Invariant: children are collected here only, so nothing in these processes
// may use os/exec.
type supervisor struct {
	dir string
	env []string

	mu     sync.Mutex
	byName map[string]*child
	byPID  map[int]*child
}

type child struct {
	Status
	stopped bool // asked for, so not worth a complaint
	done    chan struct{}
}

func newSupervisor(dir string, env []string) *supervisor {
	s := &supervisor{dir: dir, env: env, byName: map[string]*child{}, byPID: map[int]*child{}}
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGCHLD)
	go func() {
		for range ended {
			s.collect()
		}
	}()
	return s
}

func (s *supervisor) collect() {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		s.ended(pid, ws)
	}
}

func (s *supervisor) ended(pid int, ws syscall.WaitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.byPID[pid]
	if c == nil {
		return // an orphan of somebody else's
	}
	delete(s.byPID, pid)
	c.Exited, c.Result = true, result(ws)
	if !c.stopped && c.Result != 0 {
		logf("%s ended with %d", c.Name, c.Result)
	}
	close(c.done)
}

func result(ws syscall.WaitStatus) int {
	if ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return ws.ExitStatus()
}

// start runs p, in namespaces of its own if flags say so.
func (s *supervisor) start(p spec.Process, flags uintptr) (*child, error) {
	log, err := os.OpenFile(filepath.Join(s.dir, "log", p.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()

	return s.fork(p, flags, []uintptr{null.Fd(), log.Fd(), log.Fd()})
}

// fork runs p with those files as its first.
func (s *supervisor) fork(p spec.Process, flags uintptr, files []uintptr) (*child, error) {
	// The lock is held over the fork, so the child cannot end unknown.
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byName[p.Name]; old != nil && !old.Exited {
		return nil, fmt.Errorf("%s runs already", p.Name)
	}
	pid, err := syscall.ForkExec(p.Path, p.Args, &syscall.ProcAttr{
		Dir:   s.dir,
		Env:   slices.Concat(s.env, p.Env),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, Cloneflags: flags},
	})
	if err != nil {
		return nil, fmt.Errorf("starting %s (%s): %w", p.Name, p.Path, err)
	}
	c := &child{Status: Status{Name: p.Name, PID: pid}, done: make(chan struct{})}
	s.byName[p.Name], s.byPID[pid] = c, c
	return c, nil
}

// run starts p and waits for its end.
func (s *supervisor) run(p spec.Process) error {
	c, err := s.start(p, 0)
	if err != nil {
		return err
	}
	<-c.done
	if c.Result != 0 {
		return fmt.Errorf("%s ended with %d, its log says why", p.Name, c.Result)
	}
	return nil
}

// stop ends the named process, gently for as long as grace and then by force.
func (s *supervisor) stop(name string, grace time.Duration) error {
	s.mu.Lock()
	c := s.byName[name]
	if c == nil {
		s.mu.Unlock()
		return fmt.Errorf("no process is called %q", name)
	}
	c.stopped = true
	if !c.Exited {
		_ = syscall.Kill(c.PID, syscall.SIGTERM)
	}
	s.mu.Unlock()
	select {
	case <-c.done:
		return nil
	case <-time.After(grace):
	}
	_ = syscall.Kill(c.PID, syscall.SIGKILL)
	<-c.done
	return nil
}

// forget drops a process that has ended.
func (s *supervisor) forget(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byName, name)
}

// list is what has been started, by name.
func (s *supervisor) list() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Status, 0, len(s.byName))
	for _, c := range s.byName {
		all = append(all, c.Status)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

func logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format("15:04:05.000 ")+format+"\n", args...)
}
