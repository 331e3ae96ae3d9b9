package inside

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"attune.io/attune/test/cluster/internal/spec"
	"attune.io/attune/test/cluster/internal/state"
	"golang.org/x/sys/unix"
)

// runVM is pid 1 of a VM node. Its root is the machine's file tree, so every path of the cluster's description holds;
// cgroup v2 is the only one there is.
func runVM(args []string) error {
	err := vmNode(args[0], args[1]) // the kernel adds arguments of its own
	logf("%s: %v", VMRole, err)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // if pid 1 just ended, the kernel would panic
	return err
}

func vmNode(dir, index string) error {
	c, err := spec.Read(dir)
	if err != nil {
		return err
	}
	i, err := strconv.Atoi(index)
	if err != nil {
		return err
	}
	n := c.Nodes[i-1]
	if err := nodeMounts(n); err != nil {
		return err
	}
	if err := vmMounts(c.Dir); err != nil {
		return err
	}
	_ = unix.Sethostname([]byte(spec.NodeName(i)))
	if err := nodeNetwork(i, vmLinkName); err != nil {
		return err
	}
	if err := makeCgroupV2(spec.CgroupRoot(c.Name, i)); err != nil {
		return err
	}
	s := newSupervisor(c.Dir, c.Env)
	if err := serveVMControl(i, s); err != nil {
		return err
	}
	if err := startNodeProcesses(c, n, s); err != nil {
		return err
	}
	logf("%s: everything is started", spec.NodeName(i))
	select {}
}

// vmMounts mounts what a kernel of its own has to offer, but for /dev, which the kernel mounts itself, and makes the
// machine's files read-only but for the cluster's directory. /var/lib is in memory: overlays cannot be on the
// machine's files.
func vmMounts(dir string) error {
	mounts := []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		{"sysfs", "/sys", "sysfs", 0, ""},
		{state.CgroupDir, state.CgroupDir, "cgroup2", 0, "nsdelegate,memory_recursiveprot"},
		{"devpts", "/dev/pts", "devpts", 0, ""},
		{"tmpfs", "/dev/shm", "tmpfs", 0, ""},
		{"tmpfs", "/var/lib", "tmpfs", 0, ""},
		{dir, dir, "", unix.MS_BIND, ""},
		{"", "/", "", unix.MS_REMOUNT | unix.MS_BIND | unix.MS_RDONLY, ""},
	}
	for _, m := range mounts {
		if m.source != "" && strings.HasPrefix(m.target, "/dev/") {
			if err := os.MkdirAll(m.target, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	return nil
}

// makeCgroupV2 makes the node's root cgroup with every controller: the kubelet wants it there before it starts.
func makeCgroupV2(root string) error {
	available, err := os.ReadFile(filepath.Join(state.CgroupDir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(state.CgroupDir, root), 0o755); err != nil {
		return err
	}
	for _, dir := range []string{state.CgroupDir, filepath.Join(state.CgroupDir, root)} {
		for _, controller := range strings.Fields(string(available)) {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
				return fmt.Errorf("enabling the %s controller: %w", controller, err)
			}
		}
	}
	return nil
}

// VMControl is where pid 1 of VM node i is asked to start, stop and run processes.
func VMControl(i int) string {
	return net.JoinHostPort(spec.NodeIP(i), strconv.Itoa(spec.VMControlPort))
}

func serveVMControl(i int, s *supervisor) error {
	listener, err := net.Listen("tcp", VMControl(i))
	if err != nil {
		return fmt.Errorf("listening for the harness: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", controlHandler(s))
	mux.HandleFunc("POST /exec", (&execs{supervisor: s}).serve)
	go func() { logf("control: %v", http.Serve(listener, mux)) }()
	return nil
}

// VM is the process that becomes VM node i of the cluster in dir: the kernel, with memory of that many MiB. Its memory
// is a file that no other process sees, of which only what is used is there.
func VM(kernel, dir string, i int, mib int64) spec.Process {
	cable := "vec0:transport=tap,ifname=" + CableName(i) + ",depth=128,gro=1"
	return kernelProcess(kernel, spec.NodeName(i), i, dir, mib, []string{cable}, VMRole, dir, strconv.Itoa(i))
}

// kernelProcess runs a kernel whose pid 1 plays a role, from the copy of this program in dir. It stays on one processor,
// which one depends on i: it has no use for two, as it traces its processes and either they run or it does, and where
// waking another processor is slow, every system call in it takes ten times as long.
func kernelProcess(kernel, name string, i int, dir string, mib int64, options []string, role string, args ...string) spec.Process {
	options = append([]string{
		"umid=" + name, "uml_dir=" + filepath.Join(dir, "vm") + "/", fmt.Sprintf("mem=%dM", mib),
		"root=/dev/root", "rootfstype=hostfs", "rootflags=/", "rw", "quiet", "panic=-1",
		"con=null", "con0=null,fd:1", "ssl=null", "init=" + filepath.Join(dir, role),
	}, options...)
	p := pinned(spec.Command(name, kernel, slices.Concat(options, []string{"--"}, args)...), i)
	// Restartable sequences are lost where the kernel traces its processes, and libc would die of that.
	p.Env = []string{"TMPDIR=/dev/shm", "GLIBC_TUNABLES=glibc.pthread.rseq=0"}
	return p
}

// pinned to a processor; where nothing on this machine can do that, the process is only slower.
func pinned(p spec.Process, i int) spec.Process {
	taskset, err := exec.LookPath("taskset")
	if err != nil {
		return p
	}
	return spec.Command(p.Name, taskset, append([]string{"--cpu-list", processor(i), p.Path}, p.Args[1:]...)...)
}

// processor that a kernel stays on, of those that this process may use.
func processor(i int) string {
	var usable unix.CPUSet
	if err := unix.SchedGetaffinity(0, &usable); err != nil || usable.Count() == 0 {
		return "0"
	}
	left := i % usable.Count()
	for n := 0; ; n++ {
		if !usable.IsSet(n) {
			continue
		}
		if left == 0 {
			return strconv.Itoa(n)
		}
		left--
	}
}

// CopySelf puts the running program into a directory, under the name of a role: a VM's kernel starts its pid 1 from a file.
func CopySelf(dir, role string) error {
	from, err := os.Open(Self)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(dir, role), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o700)
	if err != nil {
		return err
	}
	_, err = to.ReadFrom(from)
	return errors.Join(err, to.Close())
}
