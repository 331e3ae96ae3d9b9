package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// rehearse builds a release twice, publishes it to a registry in this process, verifies it as RELEASE.md tells users to,
// and shows that nothing that was changed passes. Only the layout and the files stay.
func rehearse(ctx context.Context, r Release) error {
	if err := build(ctx, r); err != nil {
		return err
	}
	if err := reproduce(ctx, r); err != nil {
		return err
	}
	said, err := r.publishHere(ctx)
	if err != nil {
		return err
	}
	return r.report(os.Stdout, said)
}

// publishHere publishes to a registry in this process, with a new key, and returns what the commands of users print.
func (r Release) publishHere(ctx context.Context) (verified string, err error) {
	keys, err := os.MkdirTemp("", "attune-key-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(keys)
	if r.Key, err = r.newKey(ctx, keys); err != nil {
		return "", err
	}
	at, stop, err := serve()
	if err != nil {
		return "", err
	}
	defer stop()
	to := at + "/team"
	if err := r.publish(ctx, to); err != nil {
		return "", err
	}
	if err := r.keepSignatures(ctx, at, to); err != nil {
		return "", err
	}
	if verified, err = r.verify(ctx, to, r.Out); err != nil {
		return "", err
	}
	return verified, r.refuseChanges(ctx, to)
}

// reproduce builds the release a second time elsewhere, and compares all of it.
func reproduce(ctx context.Context, r Release) error {
	second := r
	out, err := os.MkdirTemp("", "attune-second-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(out)
	second.Out = filepath.Join(out, "release")
	if err := build(ctx, second); err != nil {
		return err
	}
	for _, file := range []string{checksums, "oci/index.json"} {
		one, err := os.ReadFile(filepath.Join(r.Out, file))
		if err != nil {
			return err
		}
		other, err := os.ReadFile(filepath.Join(second.Out, file))
		if err != nil {
			return err
		}
		if !bytes.Equal(one, other) {
			return fmt.Errorf("two builds differ in %s:\n%s\n%s", file, one, other)
		}
	}
	fmt.Printf("Two builds of commit %s are equal.\n", r.Commit)
	return nil
}

// serve starts a registry on a port of this machine.
func serve() (address string, stop func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	server := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), ReadHeaderTimeout: time.Minute}
	go server.Serve(listener) //nolint:errcheck // it ends with stop
	return listener.Addr().String(), func() { server.Close() }, nil
}

// newKey makes a key pair without a password. The public key is a file of the release.
func (r Release) newKey(ctx context.Context, dir string) (string, error) {
	if _, err := output(ctx, dir, []string{"COSIGN_PASSWORD="}, r.Cosign, "generate-key-pair"); err != nil {
		return "", err
	}
	public, err := os.ReadFile(filepath.Join(dir, "cosign.pub"))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "cosign.key"), os.WriteFile(filepath.Join(r.Out, "cosign.pub"), public, 0o644)
}

// keepSignatures adds what cosign has pushed to the layout, by the names that it has for users.
func (r Release) keepSignatures(ctx context.Context, at, to string) error {
	path, err := layout.FromPath(filepath.Join(r.Out, "oci"))
	if err != nil {
		return err
	}
	of, err := name.NewRegistry(at)
	if err != nil {
		return err
	}
	repositories, err := remote.Catalog(ctx, of)
	if err != nil {
		return err
	}
	for _, repository := range repositories {
		tags, err := remote.List(of.Repo(repository), options(ctx)...)
		if err != nil {
			return err
		}
		for _, tag := range tags {
			if !strings.HasPrefix(tag, "sha256-") {
				continue // the image and the chart
			}
			found, err := remote.Get(of.Repo(repository).Tag(tag), options(ctx)...)
			if err != nil {
				return err
			}
			public := r.Registry + strings.TrimPrefix(at+"/"+repository, to) + ":" + tag
			if err := appendTo(path, found, public); err != nil {
				return err
			}
		}
	}
	return nil
}

func appendTo(path layout.Path, found *remote.Descriptor, as string) error {
	named := layout.WithAnnotations(map[string]string{refName: as})
	if found.MediaType == types.OCIImageIndex {
		index, err := found.ImageIndex()
		if err != nil {
			return err
		}
		return path.AppendIndex(index, named)
	}
	image, err := found.Image()
	if err != nil {
		return err
	}
	return path.AppendImage(image, named)
}

var userCommands = regexp.MustCompile("(?s)<!-- verify -->\n+```sh\n(.*?)```")

// verify runs the commands of RELEASE.md by which users verify a release, on the files of a directory.
func (r Release) verify(ctx context.Context, registry, downloads string) (string, error) {
	page, err := os.ReadFile(filepath.Join(r.Project, "RELEASE.md"))
	if err != nil {
		return "", err
	}
	commands := userCommands.FindSubmatch(page)
	if commands == nil {
		return "", errors.New("RELEASE.md has no commands to verify a release")
	}
	dir, err := os.MkdirTemp("", "attune-verify-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", string(commands[1]))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(r.Cosign)+":"+os.Getenv("PATH"), "VERSION="+r.Version, "REGISTRY="+registry,
		"DOWNLOADS=file://"+downloads, "SIGNER=--key "+filepath.Join(r.Out, "cosign.pub")+" --insecure-ignore-tlog=true")
	said, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("verifying as RELEASE.md says: %w\n%s", err, said)
	}
	return string(said), nil
}

// refuseChanges changes one byte of a file, and the image behind the tag, and expects that each is refused, and why.
func (r Release) refuseChanges(ctx context.Context, to string) error {
	dir, err := os.MkdirTemp("", "attune-changed-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, file := range []string{checksums, pluginArchive(r.Platforms[0]), "install.yaml", filepath.Base(r.chartFile())} {
		if err := os.CopyFS(filepath.Join(dir, file), flat(r.Out)); err != nil {
			return err
		}
		if err := flip(filepath.Join(dir, file, file)); err != nil {
			return err
		}
		why := file + ": FAILED"
		if file == checksums {
			why = "failed to verify signature"
		}
		if err := r.refused(ctx, to, filepath.Join(dir, file), why); err != nil {
			return fmt.Errorf("%s was changed: %w", file, err)
		}
	}
	return r.refuseImage(ctx, to)
}

// refused expects that verifying fails for a reason.
func (r Release) refused(ctx context.Context, registry, downloads, why string) error {
	_, err := r.verify(ctx, registry, downloads)
	if err == nil {
		return errors.New("it is still accepted")
	}
	if !strings.Contains(err.Error(), why) {
		return fmt.Errorf("it is refused, but not because of %q: %w", why, err)
	}
	return nil
}

// refuseImage moves the release's tag to an image with another label, as somebody with access to the registry can.
func (r Release) refuseImage(ctx context.Context, to string) error {
	index, _, err := r.parts()
	if err != nil {
		return err
	}
	tag, err := name.NewTag(to + "/attune:" + r.Version)
	if err != nil {
		return err
	}
	if err := remote.WriteIndex(tag, changed(index), options(ctx)...); err != nil {
		return err
	}
	if err := r.refused(ctx, to, r.Out, "no signatures found"); err != nil {
		return fmt.Errorf("the image was changed: %w", err)
	}
	return remote.WriteIndex(tag, index, options(ctx)...)
}

// report says what was made.
func (r Release) report(out io.Writer, verified string) error {
	index, chart, err := r.parts()
	if err != nil {
		return err
	}
	digests := []interface{ Digest() (v1.Hash, error) }{index, chart}
	for i, of := range []string{r.image() + ":" + r.Version, r.chart() + ":" + r.number()} {
		digest, err := digests[i].Digest()
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s@%s\n", of, digest)
	}
	_, err = fmt.Fprintf(out, "%s\nVerified as RELEASE.md says; files and an image with one change were refused. The release is in %s.\n", strings.TrimSpace(verified), r.Out)
	return err
}

// flat are the files of a directory, without its directories.
func flat(dir string) fs.FS { return flatFS{os.DirFS(dir)} }

type flatFS struct{ fs.FS }

// ReadDir implements fs.ReadDirFS.
func (f flatFS) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(entries, fs.DirEntry.IsDir), err
}

// flip changes the last byte of a file.
func flip(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	content[len(content)-1] ^= 1
	return os.WriteFile(path, content, 0o644)
}

// changed is an index that differs in one annotation.
func changed(index v1.ImageIndex) v1.ImageIndex {
	return mutate.Annotations(index, map[string]string{"changed": "yes"}).(v1.ImageIndex)
}
