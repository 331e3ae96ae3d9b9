package tools

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// debianPackages are unpacked, never installed: no service is set up or
// started, and nothing on the machine changes. With the libraries the programs
// need besides libc.
var debianPackages = []string{
	"containerd", "runc", "libseccomp2",
	"iptables", "libxtables12", "libip4tc2", "libip6tc2", "libmnl0", "libnftnl11", "libnetfilter-conntrack3", "libnfnetlink0",
	"prometheus",
}

// fromDebian are the programs taken from those packages.
var fromDebian = []string{"containerd", "ctr", "runc", "iptables", "iptables-restore", "iptables-save", "prometheus", "promtool"}

// debian unpacks the packages; where that cannot be done, installed programs serve.
func (b *builder) debian(ctx context.Context) (string, error) {
	sum, err := digest(nil, debianPackages...)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(b.cache, "bin", "debian-"+sum)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if missing(exec.LookPath("apt-get")) || missing(exec.LookPath("dpkg-deb")) {
		return "", installed()
	}
	return cached(dir, func(out string) error {
		return b.progress.during("unpacking "+strings.Join(debianPackages, " "), func(*job) error {
			if err := unpack(ctx, out, debianPackages); err != nil {
				return err
			}
			return linkIPTables(filepath.Join(out, "usr/sbin"))
		})
	})
}

func missing(_ string, err error) bool { return err != nil }

// installed is nil if all programs are on this machine already.
func installed() error {
	var absent []string
	for _, name := range fromDebian {
		if missing(exec.LookPath(name)) {
			absent = append(absent, name)
		}
	}
	if len(absent) == 0 {
		return nil
	}
	return fmt.Errorf("install %s: this machine has no apt-get to fetch them with", strings.Join(absent, ", "))
}

func unpack(ctx context.Context, out string, packages []string) error {
	debs := filepath.Join(out, "debs")
	if err := os.MkdirAll(debs, 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(debs)
	if err := download(ctx, debs, packages); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(debs, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := quietly(ctx, out, "dpkg-deb", "-x", file, out); err != nil {
			return err
		}
	}
	return nil
}

// download fetches the packages; the package lists are updated only if that
// fails without, which needs root.
func download(ctx context.Context, dir string, packages []string) error {
	fetch := append([]string{"download"}, packages...)
	if quietly(ctx, dir, "apt-get", fetch...) == nil {
		return nil
	}
	if err := quietly(ctx, dir, "apt-get", "update"); err != nil {
		return fmt.Errorf("run 'apt-get update' as root, then try again: %w", err)
	}
	return quietly(ctx, dir, "apt-get", fetch...)
}

// linkIPTables does what Debian's alternatives do when the package is installed.
func linkIPTables(dir string) error {
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, verb := range []string{"", "-save", "-restore"} {
			if err := os.Symlink("xtables-nft-multi", filepath.Join(dir, family+verb)); err != nil {
				return err
			}
		}
	}
	return nil
}

func quietly(ctx context.Context, dir, name string, args ...string) error {
	return quietlyWith(ctx, dir, append(os.Environ(), "DEBIAN_FRONTEND=noninteractive"), name, args...)
}

// quietlyWith has that environment; an error holds what the program printed.
func quietlyWith(ctx context.Context, dir string, env []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = env
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, output.String())
	}
	return nil
}
