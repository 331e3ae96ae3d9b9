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

// Machine is one with cgroup v2 and one CPU: a VM whose files are this machine's, but for those that say what runs here.
// See [VMUnavailable].
type Machine struct {
	// Dir is a directory for the machine itself.
	Dir string
	// MiB of memory.
	MiB int64
	// Env of what runs there.
	Env []string
	// Own directories are in its memory, and empty at first: those of this machine take owners and modes as its user may set
	// them, who is one.
	Own []string
}

// Run runs a program there, in the present directory. It returns what the program prints and its exit code.
func (m Machine) Run(ctx context.Context, program ...string) (output string, code int, err error) {
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
	own := append([]string{clusters}, m.Own...)
	for _, dir := range own {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return "", 0, err
		}
	}
	defer func() {
		for _, dir := range m.Own {
			_ = os.Remove(dir) // it stays where it was in use before
		}
	}()
	present, err := os.Getwd()
	if err != nil {
		return "", 0, err
	}
	const name = "program"
	description := spec.Cluster{Name: "machine", Dir: m.Dir, Env: m.Env, First: []spec.Process{spec.Command(name, "/usr/bin/env", append([]string{"-C", present}, program...)...)}}
	if err := errors.Join(os.MkdirAll(filepath.Join(m.Dir, "log"), 0o755), description.Write(), inside.CopySelf(m.Dir, inside.HostRole)); err != nil {
		return "", 0, err
	}
	p := inside.Host(t.KernelProgram(), m.Dir, m.MiB, own...) // the clusters that run here are none of its own
	cmd := exec.CommandContext(ctx, p.Path, p.Args[1:]...)
	cmd.Env, cmd.Dir = p.Env, m.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID} // all of it ends with it
	console, ended := cmd.CombinedOutput()
	printed, _ := os.ReadFile(filepath.Join(m.Dir, "log", name+".log")) // there is none where the program was not started
	code, err = inside.HostResult(m.Dir)
	if err != nil {
		err = fmt.Errorf("%w (%v):\n%s", err, ended, console)
	}
	return string(printed), code, err
}
