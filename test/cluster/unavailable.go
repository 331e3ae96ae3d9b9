package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"

	"attune.io/attune/test/cluster/internal/inside"
	"attune.io/attune/test/cluster/internal/state"
)

// Unavailable says in one sentence why no kubelet can run on this machine, or
// nothing if one can. Tests that need a cluster skip with it.
var Unavailable = sync.OnceValue(func() string {
	if os.Geteuid() != 0 {
		return "a kubelet needs root: run as root"
	}
	for _, controller := range []string{"cpu", "cpuset", "memory", "freezer", "pids", "devices"} {
		if _, err := os.Stat(filepath.Join(state.CgroupDir, controller, "cgroup.procs")); err != nil {
			return fmt.Sprintf("the kubelets here need cgroup v1, and the %s controller is not mounted below %s", controller, state.CgroupDir)
		}
	}
	try := exec.Command("/bin/true")
	try.SysProcAttr = &syscall.SysProcAttr{Cloneflags: inside.Namespaces}
	if err := try.Run(); err != nil {
		return fmt.Sprintf("this machine does not let us make namespaces: %v", err)
	}
	if _, err := exec.LookPath("nsenter"); err != nil {
		return "nsenter is not installed: install util-linux"
	}
	return ""
})
