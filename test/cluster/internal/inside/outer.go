package inside

import (
	"fmt"
	"os"
	"syscall"

	"attune.io/attune/test/cluster/internal/spec"
	"attune.io/attune/test/cluster/internal/state"
	"golang.org/x/sys/unix"
)

// Files the harness hands to the cluster's first process.
const (
	lockFD     = 3 // held for as long as the process lives: others see that it does
	lifelineFD = 4 // ends when the owning process is gone
)

// Namespaces are those a cluster has for itself, and each node once more. The
// cgroup namespace is not among them: it would hide the paths that the kernel
// names in its OOM messages, by which the kubelet counts OOM kills.
const Namespaces = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID |
	syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// runOuter is pid 1 of the cluster: it has the control plane's network and
// starts everything else. When it ends, the kernel ends all it has started.
func runOuter(args []string) error {
	c, err := spec.Read(args[0])
	if err != nil {
		return err
	}
	unix.CloseOnExec(lockFD)
	unix.CloseOnExec(lifelineFD)
	go dieWithOwner(c)
	if err := prepareMounts(); err != nil {
		return err
	}
	_ = unix.Sethostname([]byte(c.Name))
	if err := controlPlaneNetwork(); err != nil {
		return err
	}
	s := newSupervisor(c.Dir, c.Env)
	if err := serveControl(c.Dir, s); err != nil {
		return err
	}
	if err := bringUp(c, s); err != nil {
		return err
	}
	select {}
}

// dieWithOwner ends the cluster, and what would stay of it, once the process
// that owns it is gone, however that came about. A byte sent over the lifeline
// means that the owner lets go: the cluster then lives on without one.
func dieWithOwner(c spec.Cluster) {
	lifeline := os.NewFile(lifelineFD, "lifeline")
	defer lifeline.Close()
	if n, _ := lifeline.Read(make([]byte, 1)); n == 1 {
		return
	}
	_ = syscall.Kill(-1, syscall.SIGKILL) // everything in this pid namespace but pid 1
	if err := state.Remove(c.Name, c.Dir); err != nil {
		logf("%v", err)
	}
	os.Exit(0)
}

func bringUp(c spec.Cluster, s *supervisor) error {
	for _, p := range c.First {
		if _, err := s.start(p, 0); err != nil {
			return err
		}
	}
	for _, n := range c.Nodes {
		if err := startNode(c, s, n); err != nil {
			return err
		}
	}
	if err := waitForAPI(c.Dir, patience); err != nil {
		return err
	}
	for _, p := range c.Then {
		if _, err := s.start(p, 0); err != nil {
			return err
		}
	}
	logf("the control plane is up")
	return nil
}

func startNode(c spec.Cluster, s *supervisor, n spec.Node) error {
	if n.VM != nil {
		return startVM(s, n)
	}
	node, err := s.start(Node(c.Dir, n.Index), Namespaces)
	if err != nil {
		return err
	}
	if err := plugIn(n.Index, node.PID); err != nil {
		return fmt.Errorf("connecting %s: %w", spec.NodeName(n.Index), err)
	}
	return nil
}

// startVM starts a node's kernel in the control plane's network, where its end of the cable is. In a pid namespace of
// its own all of the VM ends with it.
func startVM(s *supervisor, n spec.Node) error {
	if err := plugInVM(n.Index); err != nil {
		return fmt.Errorf("connecting %s: %w", spec.NodeName(n.Index), err)
	}
	_, err := s.start(*n.VM, syscall.CLONE_NEWPID)
	return err
}

// prepareMounts makes this process' mounts its own and /proc show its own pid
// namespace. Nothing mounted from here on is seen outside.
func prepareMounts() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	return nil
}
