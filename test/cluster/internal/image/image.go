// Package image makes container images without a registry or a daemon.
package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// User is who an image's program runs as: nobody in particular, so that a pod
// may demand runAsNonRoot.
const User = "65532:65532"

// Image is one static program and the names it is known by.
type Image struct {
	Binary     string // the program's file
	Entrypoint string // where it is in the image, an absolute path
	// Links are other names of the program in the same directory.
	Links []string
	// AsRoot says that the program runs as root, which a pod may change.
	AsRoot bool
	// Licenses are files that lie in the directory /licenses of the image.
	Licenses []string
	Tags     []string
}

// Write makes the archive at file, which holds all images.
func Write(file string, images ...Image) error {
	all := map[name.Tag]v1.Image{}
	for _, i := range images {
		img, err := build(i)
		if err != nil {
			return fmt.Errorf("making an image of %s: %w", i.Binary, err)
		}
		for _, t := range i.Tags {
			tag, err := name.NewTag(t)
			if err != nil {
				return err
			}
			all[tag] = img
		}
	}
	return tarball.MultiWriteToFile(file, all)
}

func build(i Image) (v1.Image, error) {
	content, err := layer(i)
	if err != nil {
		return nil, err
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil })
	if err != nil {
		return nil, err
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, err
	}
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", runtime.GOARCH
	file.Config = v1.Config{Entrypoint: []string{i.Entrypoint}, User: User, WorkingDir: "/"}
	if i.AsRoot {
		file.Config.User = ""
	}
	return mutate.ConfigFile(img, file)
}

// layer is the same for the same program, whenever it is made.
func layer(i Image) ([]byte, error) {
	binary, err := os.ReadFile(i.Binary)
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	entries := []tar.Header{{Name: "tmp/", Typeflag: tar.TypeDir, Mode: 0o1777}}
	if dir := path.Dir(i.Entrypoint); dir != "/" {
		entries = append(entries, tar.Header{Name: dir[1:] + "/", Typeflag: tar.TypeDir, Mode: 0o755})
	}
	entries = append(entries, tar.Header{Name: i.Entrypoint[1:], Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(binary))})
	for _, h := range entries {
		h.ModTime = time.Unix(0, 0)
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
	}
	if _, err := w.Write(binary); err != nil {
		return nil, err
	}
	if err := addLicenses(w, i.Licenses); err != nil {
		return nil, err
	}
	for _, link := range i.Links {
		h := tar.Header{Name: path.Join(path.Dir(i.Entrypoint), link)[1:], Typeflag: tar.TypeSymlink, Linkname: path.Base(i.Entrypoint), ModTime: time.Unix(0, 0)}
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
	}
	return buf.Bytes(), w.Close()
}

func addLicenses(w *tar.Writer, files []string) error {
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := w.WriteHeader(&tar.Header{Name: "licenses/" + filepath.Base(file), Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content)), ModTime: time.Unix(0, 0)}); err != nil {
			return err
		}
		if _, err := w.Write(content); err != nil {
			return err
		}
	}
	return nil
}
