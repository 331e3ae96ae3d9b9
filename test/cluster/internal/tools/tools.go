// Package tools gets the programs a cluster is made of: Kubernetes, etcd, Helm,
// cert-manager and the CNI plugins are built from their Go modules, whose
// versions the go.mod files below modules/ pin; containerd, runc, iptables and
// Prometheus are unpacked from Debian's packages. The kernel of VM nodes is built
// from Debian's source package.
//
// All of it goes into a cache outside the repository, in directories named by a
// hash of what they were made from, so that nothing is ever built twice or stale.
package tools

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sync/errgroup"
)

// Tools says where the programs are.
type Tools struct {
	Kubernetes, Etcd, Helm, CNI, Debian, Images string
	// Argo, CertManager, CRIProxy, KEDA, Kernel, Upstream and VPA are there only where they were asked for.
	Argo, CertManager, CRIProxy, KEDA, Kernel, Upstream, VPA string
	// Kubelet is there only where the kubelets are of another version than the rest.
	Kubelet string
}

// KernelProgram is the kernel of VM nodes, a program as any other.
func (t Tools) KernelProgram() string { return filepath.Join(t.Kernel, "linux") }

// BaseImages is the archive with the images every node has: pause and workload.
func (t Tools) BaseImages() string { return filepath.Join(t.Images, "base.tar") }

// CertManagerCRDs is the directory of cert-manager's CRDs.
func (t Tools) CertManagerCRDs() string { return filepath.Join(t.CertManager, "crds") }

// Programs are the directories to search for programs, first match first.
func (t Tools) Programs() []string {
	dirs := []string{t.Kubernetes, t.Etcd, t.Helm}
	for _, dir := range []string{t.CertManager, t.CRIProxy} {
		if dir != "" {
			dirs = append(dirs, dir)
		}
	}
	dirs = append(dirs, filepath.Join(t.Debian, "usr/sbin"), filepath.Join(t.Debian, "usr/bin"))
	return append(dirs, "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
}

// KubeletProgram is the kubelet of nodes.
func (t Tools) KubeletProgram() string {
	return filepath.Join(cmp.Or(t.Kubelet, t.Kubernetes), "kubelet")
}

// Find is the file of the named program.
func (t Tools) Find(name string) (string, error) {
	for _, dir := range t.Programs() {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("the program %s is not there, install it or remove %s to have it fetched again", name, t.Debian)
}

// Env is the environment the programs run in: no proxies, and unpacked
// libraries besides the installed ones.
func (t Tools) Env(home string) []string {
	env := []string{
		"PATH=" + strings.Join(t.Programs(), ":"),
		"HOME=" + home,
		"LANG=C.UTF-8",
	}
	if t.Debian == "" {
		return env
	}
	libraries, _ := filepath.Glob(filepath.Join(t.Debian, "usr/lib/*-linux-gnu*")) // the pattern is well formed
	plugins, _ := filepath.Glob(filepath.Join(t.Debian, "usr/lib/*-linux-gnu*/xtables"))
	return append(env,
		"LD_LIBRARY_PATH="+strings.Join(libraries, ":"),
		"XTABLES_LIBDIR="+strings.Join(plugins, ":"))
}

// Wanted is what a cluster is to be made of, beside what every one has.
type Wanted struct {
	// Version of Kubernetes, as in "v1.36.3" or "v1.36"; "" is the default one. That of the kubelets is the same unless
	// KubeletVersion says otherwise.
	Version, KubeletVersion string
	// CertManager and the kernel of VM nodes take minutes to build. CRIProxy spoils resizes.
	CertManager, CRIProxy, VM bool
	// Upstream is Kubernetes' own tests of in-place resize.
	Upstream bool
	// VPA is the Vertical Pod Autoscaler, but for its recommender.
	VPA bool
	// Argo is the controller of Argo Rollouts.
	Argo bool
	// KEDA is its controller of ScaledObjects.
	KEDA bool
}

// Build gets whatever is missing and says on progress what takes how long.
// Several processes may call it at once: one works, the others wait.
func Build(ctx context.Context, wanted Wanted, progress io.Writer) (Tools, error) {
	b, err := newBuilder(progress)
	if err != nil {
		return Tools{}, err
	}
	var t Tools
	steps, err := b.steps(wanted, &t)
	if err != nil {
		return Tools{}, err
	}
	b.progress.steps = len(steps)
	// Two at once: one downloads or links while the other compiles.
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(2)
	for _, step := range steps {
		work.Go(func() (err error) {
			*step.into, err = step.make(ctx)
			b.progress.stepDone()
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return Tools{}, err
	}
	return t, nil
}

// step makes one part of the tools, or finds it made.
type step struct {
	into *string
	make func(context.Context) (string, error)
}

func (b *builder) steps(wanted Wanted, t *Tools) ([]step, error) {
	server, err := b.release(wanted.Version)
	if err != nil {
		return nil, err
	}
	steps := []step{
		{&t.Kubernetes, b.kubernetes(server)}, // by far the longest
		{&t.Debian, b.debian},
		{&t.Etcd, b.module("etcd")},
		{&t.CNI, b.module("cni")},
		{&t.Helm, b.module("helm")},
		{&t.Images, b.images},
	}
	if wanted.KubeletVersion != "" {
		kubelet, err := b.release(wanted.KubeletVersion)
		if err != nil {
			return nil, err
		}
		if kubelet != server {
			steps = append(steps, step{&t.Kubelet, b.kubernetes(kubelet)})
		}
	}
	if wanted.CertManager {
		steps = append(steps, step{&t.CertManager, b.certManager})
	}
	if wanted.CRIProxy {
		steps = append(steps, step{&t.CRIProxy, b.fromModule("criproxy", b.buildMain)})
	}
	if wanted.Upstream {
		steps = append(steps, step{&t.Upstream, b.fromModule("upstream", b.upstream)})
	}
	if wanted.VPA {
		steps = append(steps, step{&t.VPA, b.fromModule("vpa", b.vpa)})
	}
	if wanted.Argo {
		steps = append(steps, step{&t.Argo, b.fromModule("argo", b.argo)})
	}
	if wanted.KEDA {
		steps = append(steps, step{&t.KEDA, b.keda})
	}
	if wanted.VM {
		steps = append(steps, step{&t.Kernel, b.kernel})
	}
	return steps, nil
}
