package inside

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"attune.io/attune/test/cluster/internal/spec"
	"attune.io/attune/test/cluster/internal/state"
)

// hostResult is the file that has the exit code of what ran on a VM as on a machine of its own.
const hostResult = "result"

// runHost is pid 1 of a VM that is a machine of its own, with cgroup v2: it runs one program, described in dir, and the
// machine ends with it. Its files are this machine's, but for directories that are its own.
func runHost(args []string) error {
	err := hostProgram(args[0], filepath.SplitList(args[1])) // the kernel adds arguments of its own
	if err != nil {
		logf("%s: %v", HostRole, err)
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF) // if pid 1 just ended, the kernel would panic
	return err
}

func hostProgram(dir string, hidden []string) error {
	c, err := spec.Read(dir)
	if err != nil {
		return err
	}
	if err := hostMounts(hidden); err != nil {
		return err
	}
	_ = unix.Sethostname([]byte("machine"))
	child, err := newSupervisor(c.Dir, c.Env).start(c.First[0], 0)
	if err != nil {
		return err
	}
	<-child.done
	return os.WriteFile(filepath.Join(dir, hostResult), []byte(strconv.Itoa(child.Result)), 0o600)
}

type hostMount struct{ target, kind, data string }

// hostMounts mounts what a kernel of its own has to offer, but for /dev, which the kernel mounts itself. Some
// directories are hidden by empty ones in memory.
func hostMounts(hidden []string) error {
	mounts := []hostMount{
		{"/proc", "proc", ""}, {"/sys", "sysfs", ""}, {state.CgroupDir, "cgroup2", "nsdelegate,memory_recursiveprot"},
		{"/dev/pts", "devpts", ""}, {"/dev/shm", "tmpfs", ""}, {"/run", "tmpfs", "mode=755"}, {"/var/lib", "tmpfs", ""},
	}
	for _, dir := range hidden {
		mounts = append(mounts, hostMount{dir, "tmpfs", ""})
	}
	for _, m := range mounts {
		if filepath.Dir(m.target) == "/dev" {
			if err := os.MkdirAll(m.target, 0o755); err != nil {
				return err
			}
		}
		if err := unix.Mount(m.kind, m.target, m.kind, 0, m.data); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	return nil
}

// Host is the process that becomes a machine with memory of so many MiB, which runs what dir describes. Directories
// are hidden there by empty ones.
func Host(kernel, dir string, mib int64, hidden ...string) spec.Process {
	return kernelProcess(kernel, "machine", 1, dir, mib, nil, HostRole, dir, strings.Join(hidden, string(filepath.ListSeparator)))
}

// HostResult is the exit code of what ran on the machine.
func HostResult(dir string) (int, error) {
	text, err := os.ReadFile(filepath.Join(dir, hostResult))
	if err != nil {
		return 0, fmt.Errorf("the machine ended before its program: %w", err)
	}
	return strconv.Atoi(string(text))
}
