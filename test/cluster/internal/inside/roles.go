// Package inside is the part of the harness that runs inside a cluster's
// namespaces: pid 1 of the cluster, pid 1 of each node, and small servers.
//
// They are the harness' own program started again under another name, so they
// are always of the same version as the code that talks to them.
package inside

import (
	"fmt"
	"os"
	"path/filepath"

	"attune.io/attune/test/cluster/internal/spec"
)

// Names a program is started under to play a part inside a cluster.
const (
	OuterRole    = "attune-cluster"
	NodeRole     = "attune-node"
	PressureRole = "attune-pressure"
	VMRole       = "attune-vm"
	VMExecRole   = "attune-vm-exec"
	HostRole     = "attune-machine"
)

// Self is the running program, also after its file was removed.
const Self = "/proc/self/exe"

// RunIfAsked plays the part this process was started for and does not return;
// in any other process it does nothing. It must run before anything else does.
func RunIfAsked() {
	if len(os.Args) == 0 {
		return
	}
	roles := map[string]func(args []string) error{
		OuterRole: runOuter, NodeRole: runNode, PressureRole: runPressure, VMRole: runVM, VMExecRole: runVMExec, HostRole: runHost,
	}
	role := roles[filepath.Base(os.Args[0])] // a VM's kernel starts its pid 1 under the whole path
	if role == nil {
		return
	}
	if err := role(os.Args[1:]); err != nil {
		logf("%s: %v", os.Args[0], err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Node is the process that becomes node i of the cluster in dir.
func Node(dir string, i int) spec.Process {
	return spec.Process{Name: spec.NodeName(i), Path: Self, Args: []string{NodeRole, dir, fmt.Sprint(i)}}
}

// Pressure is the process that serves the containers' pressure (PSI) as metrics.
func Pressure(dir, kubeconfig string) spec.Process {
	return spec.Process{Name: "pressure", Path: Self, Args: []string{PressureRole, dir, kubeconfig}}
}
