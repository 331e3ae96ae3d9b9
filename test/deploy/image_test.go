package deploy

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/test/cluster"
)

// The image brings its license and those of the modules that are linked into the program.
func TestTheImageBringsItsLicenses(t *testing.T) {
	os.Getenv("ATTUNE_INPUTS") // the digest of what is read outside of this module, so that Go's test cache sees a change
	project, err := cluster.ProjectDir()
	require.NoError(t, err)
	dir := t.TempDir()
	binary, archive := filepath.Join(dir, "program"), filepath.Join(dir, "image.tar")
	require.NoError(t, os.WriteFile(binary, []byte("program"), 0o755))
	require.NoError(t, cluster.BuildImage(archive, binary, "/attune", licenses(project), "docker.io/local/attune:test"))
	image, err := tarball.ImageFromPath(archive, nil)
	require.NoError(t, err)
	layers := mutate.Extract(image)
	defer layers.Close()
	files := map[string]string{}
	for of := tar.NewReader(layers); ; {
		header, err := of.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		content, err := io.ReadAll(of)
		require.NoError(t, err)
		files[header.Name] = string(content)
	}
	assert.Contains(t, files["licenses/LICENSE"], "Apache License")
	assert.Contains(t, files["licenses/THIRD_PARTY_NOTICES"], "k8s.io/api v")
	assert.Equal(t, "program", files["attune"])
}
