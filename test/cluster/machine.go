package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"attune.io/attune/test/cluster/internal/inside"
	"attune.io/attune/test/cluster/internal/spec"
	"attune.io/attune/test/cluster/internal/tools"
)

// OnMachine runs a program on a machine of its own, with cgroup v2, one CPU and memory of so many MiB: a VM whose files
// are this machine's, but for those that say what runs here. It needs a directory for itself; the program starts
// in the present one. It returns what the program prints and its exit code. See [VMUnavailable].
func OnMachine(ctx context.Context, dir string, mib int64, env []string, program ...string) (output string, code int, err error) {
	if reason := VMUnavailable(); reason != "" {
		return "", 0, errors.New(reason)
	}
	o, err := Options{}.withDefaults()
	if err != nil {
		return "", 0, err
	}
	t, err := tools.Build(ctx, tools.Wanted{VM: true}, o.Progress)
	if err != nil {
		return "", 0, err
	}
	clusters, err := baseDir()
	if err != nil {
		return "", 0, err
	}
	present, err := os.Getwd()
	if err != nil {
		return "", 0, err
	}
	const name = "program"
	description := spec.Cluster{Name: "machine", Dir: dir, Env: env, First: []spec.Process{spec.Command(name, "/usr/bin/env", append([]string{"-C", present}, program...)...)}}
	if err := errors.Join(os.MkdirAll(clusters, 0o755), os.MkdirAll(filepath.Join(dir, "log"), 0o755), description.Write(), inside.CopySelf(dir, inside.HostRole)); err != nil {
		return "", 0, err
	}
	p := inside.Host(t.KernelProgram(), dir, mib, clusters) // the clusters that run here are none of its own
	cmd := exec.CommandContext(ctx, p.Path, p.Args[1:]...)
	cmd.Env, cmd.Dir = p.Env, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID} // all of it ends with it
	console, ended := cmd.CombinedOutput()
	printed, _ := os.ReadFile(filepath.Join(dir, "log", name+".log")) // there is none where the program was not started
	code, err = inside.HostResult(dir)
	if err != nil {
		err = fmt.Errorf("%w (%v):\n%s", err, ended, console)
	}
	return string(printed), code, err
}
