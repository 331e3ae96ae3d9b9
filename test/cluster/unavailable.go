package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"attune.io/attune/test/cluster/internal/inside"
	"attune.io/attune/test/cluster/internal/state"
	"attune.io/attune/test/cluster/internal/tools"
)

// Unavailable says in one sentence why no kubelet can run on this machine, or
// nothing if one can. Tests that need a cluster skip with it.
var Unavailable = sync.OnceValue(func() string { return first(noRoot, noCgroups, noNamespaces) })

// VMUnavailable says in one sentence why no VM node can run on this machine, or
// nothing if one can.
var VMUnavailable = sync.OnceValue(func() string { return first(noRoot, noNamespaces, noTap, tools.KernelMissing) })

// unavailable is the reason why not all nodes asked for can run.
func (o Options) unavailable() string {
	var reasons []func() string
	if o.VMNodes < o.Nodes {
		reasons = append(reasons, Unavailable)
	}
	if o.VMNodes > 0 {
		reasons = append(reasons, VMUnavailable)
	}
	return first(reasons...)
}

// first is the first of the reasons that there is.
func first(reasons ...func() string) string {
	for _, reason := range reasons {
		if r := reason(); r != "" {
			return r
		}
	}
	return ""
}

func noRoot() string {
	if os.Geteuid() != 0 {
		return "a kubelet needs root: run as root"
	}
	return ""
}

// Unified reports whether this machine has cgroup v2 and nothing else.
func Unified() bool { return state.Unified() }

// noCgroups: kubelets take either version, with all of its controllers.
func noCgroups() string {
	if state.Unified() {
		offered, err := os.ReadFile(filepath.Join(state.CgroupDir, "cgroup.controllers"))
		if err != nil {
			return err.Error()
		}
		for _, controller := range []string{"cpu", "cpuset", "memory", "pids"} {
			if !slices.Contains(strings.Fields(string(offered)), controller) {
				return fmt.Sprintf("the kubelets here need the %s controller, and %s does not offer it", controller, state.CgroupDir)
			}
		}
		return ""
	}
	for _, controller := range []string{"cpu", "cpuset", "memory", "freezer", "pids", "devices"} {
		if _, err := os.Stat(filepath.Join(state.CgroupDir, controller, "cgroup.procs")); err != nil {
			return fmt.Sprintf("the kubelets here need cgroup v2 or all of v1, and the %s controller is not mounted below %s", controller, state.CgroupDir)
		}
	}
	return ""
}

func noNamespaces() string {
	try := exec.Command("/bin/true")
	try.SysProcAttr = &syscall.SysProcAttr{Cloneflags: inside.Namespaces}
	if err := try.Run(); err != nil {
		return fmt.Sprintf("this machine does not let us make namespaces: %v", err)
	}
	if _, err := exec.LookPath("nsenter"); err != nil {
		return "nsenter is not installed: install util-linux"
	}
	return ""
}

// noTap says why there can be no cable for a VM.
func noTap() string {
	file, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return fmt.Sprintf("a VM node needs a tap: %v", err)
	}
	file.Close()
	return ""
}
