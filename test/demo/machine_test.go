package main

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"attune.io/attune/test/cluster"
)

var onVM = flag.Bool("vm", false, "show the demo on a machine with cgroup v2, a VM, whose kernel takes minutes to build where it is not cached")

// TestDemoOnCgroupV2: the demo shows the same on a machine that has cgroup v2 and nothing else.
func TestDemoOnCgroupV2(t *testing.T) {
	if !*onVM {
		t.Skip("a VM's kernel may have to be built first: -vm asks for it (make test-v2)")
	}
	if reason := cluster.VMUnavailable(); reason != "" {
		t.Skip(reason)
	}
	program := filepath.Join(t.TempDir(), "demo")
	built, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", built)
	temp := t.TempDir()
	env := append(os.Environ(), "TMPDIR="+temp, "GLIBC_TUNABLES=glibc.pthread.rseq=0")
	project, err := cluster.ProjectDir()
	require.NoError(t, err)
	machine := cluster.Machine{Dir: t.TempDir(), MiB: 8192, Env: env, Own: []string{filepath.Join(project, ".cluster")}}
	output, code, err := machine.Run(t.Context(), program)
	require.NoError(t, err)
	t.Log(output)
	if code != 0 {
		logs, _ := filepath.Glob(filepath.Join(temp, "attune-cluster-logs", "*", "cluster.log")) // where the cluster did not come up
		for _, name := range logs {
			logged, _ := os.ReadFile(name)
			t.Logf("%s", logged)
		}
		t.Fatalf("the demo ended with %d", code)
	}
	require.Contains(t, output, "cpu.weight")
	require.Contains(t, output, "was born with cpu")
	require.Contains(t, output, "attune took the resize back")
}
