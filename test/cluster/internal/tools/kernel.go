package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// The kernel of a VM node is a Linux that runs as a process (user-mode Linux), so that it needs no virtualisation.
const (
	kernelSource = "linux-source-6.12"
	// cpusetOption is where the source ties cpusets to SMP, which user-mode Linux has not; the kubelet needs cpusets.
	cpusetOption = "config CPUSETS\n\tbool \"Cpuset controller\"\n\tdepends on SMP\n"
	cpusetAlone  = "config CPUSETS\n\tbool \"Cpuset controller\"\n"
	// registersStart is before all functions, and partOfRegisters where the source restores floating point registers
	// without those of AMX.
	registersStart  = "static int have_xstate_support;\n"
	partOfRegisters = "\t\tiov.iov_base = fp_regs;\n\t\tiov.iov_len = FP_SIZE * sizeof(unsigned long);\n\t\tif (ptrace(PTRACE_SETREGSET, "
	wholeRegisters  = "\t\tiov = whole_registers(fp_regs);\n\t\tif (ptrace(PTRACE_SETREGSET, "
)

var (
	//go:embed kernel/fragment
	kernelConfig string
	// kernelCpuset stands in for what cpusets take from SMP's scheduler; it is appended to kernel/cgroup/cpuset.c.
	//go:embed kernel/cpuset.c
	kernelCpuset string
	// kernelRegisters restores floating point registers on processors with AMX; it goes into registers.c.
	//go:embed kernel/registers.c
	kernelRegisters string
)

// kernelPackages are unpacked for the build: the source, and the generators that it needs besides a compiler.
var kernelPackages = []string{kernelSource, "flex", "bison", "m4", "libfl2"}

// kernelPrograms are those the build takes from the machine.
var kernelPrograms = []string{"apt-get", "apt-cache", "dpkg-deb", "tar", "xz", "gcc", "ld", "make", "bc"}

// KernelMissing says why there can be no kernel for VM nodes, or nothing if there is one or it can be built.
func KernelMissing() string {
	if runtime.GOARCH != "amd64" {
		return "the kernel of a VM node is built for amd64 only"
	}
	if cache, err := Cache(); err == nil {
		if dir, err := kernelDir(cache); err == nil {
			if _, err := os.Stat(dir); err == nil {
				return ""
			}
		}
	}
	var absent []string
	for _, name := range kernelPrograms {
		if missing(exec.LookPath(name)) {
			absent = append(absent, name)
		}
	}
	if len(absent) == 0 {
		return ""
	}
	return "the kernel of a VM node cannot be built: install " + strings.Join(absent, ", ")
}

// kernel builds the kernel of VM nodes.
func (b *builder) kernel(ctx context.Context) (string, error) {
	if reason := KernelMissing(); reason != "" {
		return "", errors.New(reason)
	}
	dir, err := kernelDir(b.cache)
	if err != nil { // the package lists are missing
		if err := quietly(ctx, "", "apt-get", "update"); err != nil {
			return "", fmt.Errorf("run 'apt-get update' as root, then try again: %w", err)
		}
		if dir, err = kernelDir(b.cache); err != nil {
			return "", err
		}
	}
	return cached(dir, func(out string) error { return b.buildKernel(ctx, out) })
}

// kernelDir is named by all that the kernel is made of.
func kernelDir(cache string) (string, error) {
	output, err := exec.Command("apt-cache", "show", "--no-all-versions", kernelSource).Output()
	if err != nil {
		return "", fmt.Errorf("there is no package %s: %w", kernelSource, err)
	}
	for line := range strings.Lines(string(output)) {
		if version, ok := strings.CutPrefix(line, "Version: "); ok {
			sum := sha256.Sum256([]byte(strings.Join([]string{kernelConfig, kernelCpuset, cpusetAlone, kernelRegisters, wholeRegisters, strings.TrimSpace(version)}, "\x00")))
			return filepath.Join(cache, "bin", "kernel-"+hex.EncodeToString(sum[:])[:12]), nil
		}
	}
	return "", fmt.Errorf("apt-cache tells no version of %s", kernelSource)
}

func (b *builder) buildKernel(ctx context.Context, out string) error {
	work := filepath.Join(out, "work")
	defer os.RemoveAll(work)
	root, source := filepath.Join(work, "root"), filepath.Join(work, "source")
	if err := os.MkdirAll(source, 0o755); err != nil {
		return err
	}
	err := b.progress.during("unpacking "+strings.Join(kernelPackages, " "), func(*job) error {
		if err := unpack(ctx, root, kernelPackages); err != nil {
			return err
		}
		return quietly(ctx, source, "tar", "-xJf", filepath.Join(root, "usr/src", kernelSource+".tar.xz"), "--strip-components=1")
	})
	if err != nil {
		return err
	}
	if err := patchKernel(source); err != nil {
		return err
	}
	return b.progress.during("building the kernel of VM nodes, once (7 minutes on two cores)", func(*job) error {
		if err := makeKernel(ctx, root, source); err != nil {
			return err
		}
		return os.Rename(filepath.Join(source, "out/linux"), filepath.Join(out, "linux"))
	})
}

// patchKernel lets there be cpusets without SMP, and processors with AMX.
func patchKernel(source string) error {
	cpusets, registers := filepath.Join(source, "kernel/cgroup/cpuset.c"), filepath.Join(source, "arch/x86/um/os-Linux/registers.c")
	return errors.Join(
		replaceIn(filepath.Join(source, "init/Kconfig"), cpusetOption, cpusetAlone), appendTo(cpusets, kernelCpuset),
		replaceIn(registers, registersStart, registersStart+kernelRegisters), replaceIn(registers, partOfRegisters, wholeRegisters),
	)
}

// replaceIn a file a text that is there once.
func replaceIn(path, before, after string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := bytes.Count(text, []byte(before)); n != 1 {
		return fmt.Errorf("%s has changed: it says %d times %q", path, n, before)
	}
	return os.WriteFile(path, bytes.Replace(text, []byte(before), []byte(after), 1), 0o644)
}

func makeKernel(ctx context.Context, root, source string) error {
	libraries, _ := filepath.Glob(filepath.Join(root, "usr/lib/*-linux-gnu*")) // the pattern is well formed
	// A whole environment: that of a make around us would tell this one what to do.
	env := []string{
		"PATH=" + filepath.Join(root, "usr/bin") + ":" + os.Getenv("PATH"),
		"HOME=" + source, "LANG=C.UTF-8",
		"BISON_PKGDATADIR=" + filepath.Join(root, "usr/share/bison"), "M4=" + filepath.Join(root, "usr/bin/m4"),
		"LD_LIBRARY_PATH=" + strings.Join(libraries, ":"),
	}
	run := func(args ...string) error {
		return quietlyWith(ctx, source, env, "make", append([]string{"ARCH=um", "O=out"}, args...)...)
	}
	if err := run("x86_64_defconfig"); err != nil {
		return err
	}
	if err := appendTo(filepath.Join(source, "out/.config"), kernelConfig); err != nil {
		return err
	}
	if err := run("olddefconfig"); err != nil {
		return err
	}
	return run(fmt.Sprintf("-j%d", runtime.NumCPU()), "linux")
}

func appendTo(path, text string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}
