package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A values file wins over ours: helm takes the last of several files, and any --set before all of them.
func TestAValuesFileWins(t *testing.T) {
	ours, err := writeValues("abc", false)
	require.NoError(t, err)
	defer os.Remove(ours)
	args := helmArgs("project", ours, Options{Values: []string{"theirs.yaml"}, Set: []string{"logLevel=debug"}})
	files := valuesOf(args, "--values")
	assert.Equal(t, []string{ours, "theirs.yaml"}, files)
	assert.Equal(t, []string{"logLevel=debug"}, valuesOf(args, "--set"), "nothing of ours is set past the files")
	raw, err := os.ReadFile(ours)
	require.NoError(t, err)
	assert.JSONEq(t, `{"image": {"repository": "docker.io/local/attune", "tag": "abc", "pullPolicy": "Never"},
		"usage": {"source": "prometheus", "prometheus": {"address": "http://172.30.0.1:9090"}}}`, string(raw))
}

// The local cluster has neither cert-manager nor Prometheus, unless they are asked for.
func TestTheOperatorAlone(t *testing.T) {
	ours, err := writeValues("abc", true)
	require.NoError(t, err)
	defer os.Remove(ours)
	raw, err := os.ReadFile(ours)
	require.NoError(t, err)
	assert.Contains(t, string(raw), `"certs":{"provider":"self-signed"}`)
	assert.Contains(t, string(raw), `"usage":{"source":"embedded"}`)
}

// make image names a directory relative to where it runs, and the compiler runs in the project.
func TestBinaryIsWrittenRelativeToTheCaller(t *testing.T) {
	project := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(project, "go.mod"), []byte("module example.org/small\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(project, "main.go"), []byte("package main\n\nfunc main() {}\n"), 0o600))
	t.Chdir(t.TempDir())
	require.NoError(t, Binary(t.Context(), project, ".", "small"))
	assert.FileExists(t, "small")
	assert.NoFileExists(t, filepath.Join(project, "small"))
}

func valuesOf(args []string, flag string) (values []string) {
	for i := range args {
		if args[i] == flag {
			values = append(values, args[i+1])
		}
	}
	return slices.Clone(values)
}
