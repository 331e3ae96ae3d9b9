package tools

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"

	"attune.io/attune/test/cluster/internal/image"
)

// upstreamImage is what Kubernetes' own tests of in-place resize start: its name is in k8s.io/kubernetes/test/utils/image.
const upstreamImage = "registry.k8s.io/e2e-test-images/busybox:1.37.0-1"

// ginkgo runs them, several at once.
const ginkgo = "github.com/onsi/ginkgo/v2/ginkgo"

// UpstreamProgram has Kubernetes' own tests of in-place resize.
func (t Tools) UpstreamProgram() string { return filepath.Join(t.Upstream, "upstream.test") }

// GinkgoProgram runs them.
func (t Tools) GinkgoProgram() string { return filepath.Join(t.Upstream, "ginkgo") }

// UpstreamImages is the archive with the images that they start.
func (t Tools) UpstreamImages() string { return filepath.Join(t.Upstream, "images.tar") }

// upstream makes all three. The image is Debian's busybox under the name of the registry's.
func (b *builder) upstream(ctx context.Context, m module, out string) error {
	for pkg, program := range map[string]string{".": "upstream.test", ginkgo: "ginkgo"} {
		if err := b.build(ctx, m, linkerFlags, filepath.Join(out, program), pkg); err != nil {
			return err
		}
	}
	return b.progress.during("making the image of busybox", func(*job) error {
		unpacked := filepath.Join(out, "busybox")
		if err := unpack(ctx, unpacked, []string{"busybox-static"}); err != nil {
			return err
		}
		program := filepath.Join(unpacked, "bin/busybox")
		applets, err := exec.CommandContext(ctx, program, "--list").Output()
		if err != nil {
			return err
		}
		links := strings.Fields(string(bytes.ReplaceAll(applets, []byte("busybox\n"), nil)))
		return image.Write(filepath.Join(out, "images.tar"),
			image.Image{Binary: program, Entrypoint: "/bin/busybox", Links: links, AsRoot: true, Tags: []string{upstreamImage}})
	})
}
