package main

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// platform is an operating system and an architecture, as Go names them.
type platform struct{ OS, Arch string }

func (p platform) String() string { return p.OS + "_" + p.Arch }

func (p platform) environment() []string {
	return []string{"GOOS=" + p.OS, "GOARCH=" + p.Arch, "CGO_ENABLED=0"}
}

// nodes are the platforms of the image.
func (r Release) nodes() []platform {
	return slices.DeleteFunc(slices.Clone(r.Platforms), func(p platform) bool { return p.OS != "linux" })
}

// licenses come with every copy of the programs.
var licenses = []string{"LICENSE", "THIRD_PARTY_NOTICES"}

// maxImage bounds what a node downloads.
const maxImage = 60 << 20

// built is the image for all platforms.
type built struct {
	index  v1.ImageIndex
	digest v1.Hash
}

// buildImage builds the operator for each platform, and writes an SBOM for each.
func (r Release) buildImage(ctx context.Context, source string) (built, error) {
	index := mutate.Annotations(empty.Index, r.labels()).(v1.ImageIndex)
	for _, on := range r.nodes() {
		image, err := r.buildNode(ctx, source, on)
		if err != nil {
			return built{}, fmt.Errorf("image for %s: %w", on, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: on.OS, Architecture: on.Arch}},
		})
	}
	digest, err := index.Digest()
	return built{index, digest}, err
}

func (r Release) buildNode(ctx context.Context, source string, on platform) (v1.Image, error) {
	dir, err := os.MkdirTemp("", "attune-image-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "attune")
	if err := r.goBuild(ctx, source, "./cmd/attune", binary, on); err != nil {
		return nil, err
	}
	image, err := imageOf(binary, source, on, r.Time, r.labels())
	if err != nil {
		return nil, err
	}
	digest, err := image.Digest()
	if err != nil {
		return nil, err
	}
	return image, r.writeSBOM(ctx, "attune_"+on.String(), binary, digest.Hex)
}

// labels are those of the OCI image specification.
func (r Release) labels() map[string]string {
	const of = "org.opencontainers.image."
	return map[string]string{
		of + "title": "attune", of + "description": "Right-sizes Kubernetes pods at admission, and in place while they run.",
		of + "version": r.Version, of + "revision": r.Commit, of + "created": r.Time.Format(time.RFC3339),
		of + "source": r.URL, of + "url": r.URL, of + "documentation": r.URL + "/tree/" + r.Version + "/docs", of + "licenses": "Apache-2.0", of + "vendor": "The attune authors",
	}
}

// imageOf has one program, CA certificates and licenses. It has no shell and no package manager.
func imageOf(binary, source string, on platform, at time.Time, labels map[string]string) (v1.Image, error) {
	program, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	entries := []entry{
		{"attune", 0o755, program}, {"tmp/", 0o1777, nil},
		{"etc/", 0o755, nil}, {"etc/ssl/", 0o755, nil}, {"etc/ssl/certs/", 0o755, nil}, {"etc/ssl/certs/ca-certificates.crt", 0o644, roots()},
		{"licenses/", 0o755, nil},
	}
	for _, name := range licenses {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{"licenses/" + name, 0o644, content})
	}
	var content bytes.Buffer
	if err := pack(&content, at, entries); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	size, err := layer.Size()
	if err != nil {
		return nil, err
	}
	if size > maxImage {
		return nil, fmt.Errorf("the image has %d bytes, more than %d", size, maxImage)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	image, err := mutate.Append(base, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: at}, CreatedBy: "make release"}})
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = on.OS, on.Arch, v1.Time{Time: at}
	file.Config = v1.Config{Entrypoint: []string{"/attune"}, User: "65532:65532", WorkingDir: "/", Labels: labels}
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return nil, err
	}
	return mutate.Annotations(image, labels).(v1.Image), nil
}

// roots are the CA certificates that Mozilla trusts without a condition: a file cannot hold the conditions of others.
func roots() []byte {
	var b bytes.Buffer
	b.WriteString("# CA certificates that Mozilla trusts, from golang.org/x/crypto/x509roots. License of the list: MPL-2.0.\n")
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // a buffer takes all
		}
	}
	return b.Bytes()
}

// refName is the annotation by which an OCI layout names what it has.
const refName = "org.opencontainers.image.ref.name"

// writeLayout writes image and chart, by the names that users pull.
func (r Release) writeLayout(index v1.ImageIndex, chart v1.Image) error {
	path, err := layout.Write(filepath.Join(r.Out, "oci"), empty.Index)
	if err != nil {
		return err
	}
	if err := path.AppendIndex(index, layout.WithAnnotations(map[string]string{refName: r.image() + ":" + r.Version})); err != nil {
		return err
	}
	return path.AppendImage(chart, layout.WithAnnotations(map[string]string{refName: r.chart() + ":" + r.number()}))
}
