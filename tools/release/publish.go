package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// publishOut pushes what build has made to the registry, and signs it there.
func publishOut(ctx context.Context, r Release) error { return r.publish(ctx, r.Registry) }

// publish pushes and signs below the registry to. Files that users download are signed beside them.
func (r Release) publish(ctx context.Context, to string) error {
	images, charts, err := r.parts()
	if err != nil {
		return err
	}
	image, err := pushIndex(ctx, to+"/attune:"+r.Version, images)
	if err != nil {
		return err
	}
	chart, err := push(ctx, to+"/charts/attune:"+r.number(), charts)
	if err != nil {
		return err
	}
	if err := r.sign(ctx, image, chart); err != nil {
		return err
	}
	if err := r.attest(ctx, image, images); err != nil {
		return err
	}
	return r.signFiles(ctx)
}

// parts returns image and chart of the layout.
func (r Release) parts() (v1.ImageIndex, v1.Image, error) {
	path, err := layout.FromPath(filepath.Join(r.Out, "oci"))
	if err != nil {
		return nil, nil, err
	}
	of, err := path.ImageIndex()
	if err != nil {
		return nil, nil, err
	}
	manifest, err := of.IndexManifest()
	if err != nil {
		return nil, nil, err
	}
	var images v1.ImageIndex
	var chart v1.Image
	for _, m := range manifest.Manifests {
		switch m.Annotations[refName] {
		case r.image() + ":" + r.Version:
			images, err = of.ImageIndex(m.Digest)
		case r.chart() + ":" + r.number():
			chart, err = of.Image(m.Digest)
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if images == nil || chart == nil {
		return nil, nil, fmt.Errorf("%s/oci does not have image and chart of %s for %s: run release build first", r.Out, r.Version, r.Registry)
	}
	return images, chart, nil
}

func options(ctx context.Context) []remote.Option {
	return []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
}

// unmoved returns the name of a content by digest. A tag that has another content, or about which the registry does not
// answer, is an error: a tag of a release never moves.
func unmoved(ctx context.Context, tag name.Tag, content interface{ Digest() (v1.Hash, error) }) (string, error) {
	digest, err := content.Digest()
	if err != nil {
		return "", err
	}
	found, err := remote.Head(tag, options(ctx)...)
	failed := &transport.Error{}
	switch {
	case errors.As(err, &failed) && failed.StatusCode == http.StatusNotFound:
	case err != nil:
		return "", fmt.Errorf("%s may be published already, and nothing was pushed: %w", tag, err)
	case found.Digest != digest:
		return "", fmt.Errorf("%s is already published with another content, %s instead of %s: release a new version", tag, found.Digest, digest)
	}
	return tag.Digest(digest.String()).String(), nil
}

// pushIndex returns the name of what was pushed, by digest.
func pushIndex(ctx context.Context, to string, index v1.ImageIndex) (string, error) {
	tag, err := name.NewTag(to)
	if err != nil {
		return "", err
	}
	as, err := unmoved(ctx, tag, index)
	if err != nil {
		return "", err
	}
	return as, remote.WriteIndex(tag, index, options(ctx)...)
}

func push(ctx context.Context, to string, image v1.Image) (string, error) {
	tag, err := name.NewTag(to)
	if err != nil {
		return "", err
	}
	as, err := unmoved(ctx, tag, image)
	if err != nil {
		return "", err
	}
	return as, remote.Write(tag, image, options(ctx)...)
}

// cosign runs it with the key, without a transparency log, or keyless with both.
func (r Release) cosign(ctx context.Context, args ...string) error {
	args = append(args, "--yes")
	var environment []string
	if r.Key != "" {
		environment = []string{"COSIGN_PASSWORD=" + os.Getenv("COSIGN_PASSWORD")} // else it asks
		args = append(args, "--key", r.Key, "--tlog-upload=false", "--use-signing-config=false")
	}
	_, err := output(ctx, r.Out, environment, r.Cosign, args...)
	return err
}

// sign signs names by digest: the image for all platforms, that of each platform, and the chart.
func (r Release) sign(ctx context.Context, names ...string) error {
	for _, of := range names {
		if err := r.cosign(ctx, "sign", "--recursive", of); err != nil {
			return err
		}
	}
	return nil
}

// attest attaches the provenance and the SBOMs of all platforms to the image, and to the image of each platform its own.
func (r Release) attest(ctx context.Context, image string, index v1.ImageIndex) error {
	manifest, err := index.IndexManifest()
	if err != nil {
		return err
	}
	of, err := name.NewDigest(image)
	if err != nil {
		return err
	}
	to := func(digest, kind, file string) error {
		return r.cosign(ctx, "attest", "--type", kind, "--predicate", filepath.Join(r.Out, file), digest)
	}
	if err := to(image, "slsaprovenance1", provenance); err != nil {
		return err
	}
	for _, m := range manifest.Manifests {
		one := of.Context().Digest(m.Digest.String()).String()
		sbom := "attune_" + m.Platform.OS + "_" + m.Platform.Architecture + ".spdx.json"
		if err := errors.Join(to(one, "slsaprovenance1", provenance), to(one, "spdxjson", sbom), to(image, "spdxjson", sbom)); err != nil {
			return err
		}
	}
	return nil
}

// signFiles signs the checksums, and attaches the provenance to them: with them it holds for every file.
func (r Release) signFiles(ctx context.Context) error {
	sums := filepath.Join(r.Out, checksums)
	if err := r.cosign(ctx, "sign-blob", "--bundle", sums+".sigstore.json", sums); err != nil {
		return err
	}
	return r.cosign(ctx, "attest-blob", "--type", "slsaprovenance1", "--predicate", filepath.Join(r.Out, provenance), "--bundle", sums+".provenance.sigstore.json", sums)
}
