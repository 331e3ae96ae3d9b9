package main

import (
	"bytes"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const manifestTemplate = "../../../config/krew/attune.yaml"

// plugin is krew's format v1alpha2, as its documentation has it; an unknown field is refused.
type plugin struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		ShortDescription string `json:"shortDescription"`
		Description      string `json:"description"`
		Caveats          string `json:"caveats"`
		Homepage         string `json:"homepage"`
		Platforms        []struct {
			URI      string `json:"uri"`
			Sha256   string `json:"sha256"`
			Bin      string `json:"bin"`
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
		} `json:"platforms"`
	} `json:"spec"`
}

// The manifest keeps the rules by which krew judges one.
func TestTheManifestIsWhatKrewTakes(t *testing.T) {
	dir := t.TempDir()
	os.Getenv("ATTUNE_INPUTS") // the digest of what is read outside of this module, so that Go's test cache sees a change
	args := []string{manifestTemplate, "v1.2.3", "https://downloads.example/v1.2.3/"}
	for _, name := range []string{"linux_amd64", "linux_arm64", "darwin_amd64", "darwin_arm64", "windows_amd64"} {
		path := filepath.Join(dir, "kubectl-attune_"+name+".tar.gz")
		require.NoError(t, os.WriteFile(path, []byte(name), 0o600))
		args = append(args, path)
	}
	var out bytes.Buffer
	require.NoError(t, run(&out, args))
	var p plugin
	require.NoError(t, yaml.UnmarshalStrict(out.Bytes(), &p), out.String())

	assert.Equal(t, "krew.googlecontainertools.github.com/v1alpha2", p.APIVersion)
	assert.Equal(t, "Plugin", p.Kind)
	assert.Equal(t, p.Metadata.Name+".yaml", filepath.Base(manifestTemplate), "the file is named after the plugin")
	assert.Regexp(t, `^[\w-]+$`, p.Metadata.Name)
	assert.Equal(t, "v1.2.3", p.Spec.Version)
	assert.NotEmpty(t, p.Spec.ShortDescription)
	assert.LessOrEqual(t, len(p.Spec.ShortDescription), 50)
	assert.NotContains(t, p.Spec.ShortDescription, "\n")
	assert.False(t, strings.HasSuffix(p.Spec.ShortDescription, "."))
	for _, line := range strings.Split(p.Spec.Description+p.Spec.Caveats, "\n") {
		assert.LessOrEqual(t, len(line), 100, "krew shows it as it is")
	}
	_, err := url.ParseRequestURI(p.Spec.Homepage)
	assert.NoError(t, err)
	require.Len(t, p.Spec.Platforms, 5)
	seen := map[string]bool{}
	for _, of := range p.Spec.Platforms {
		assert.Len(t, of.Selector.MatchLabels, 2)
		at := of.Selector.MatchLabels["os"] + "_" + of.Selector.MatchLabels["arch"]
		assert.False(t, seen[at], "two archives for %s", at)
		seen[at] = true
		assert.Equal(t, "https://downloads.example/v1.2.3/kubectl-attune_"+at+".tar.gz", of.URI)
		assert.Regexp(t, regexp.MustCompile(`^[a-f0-9]{64}$`), of.Sha256)
		assert.Equal(t, strings.HasPrefix(at, "windows"), of.Bin == "kubectl-attune.exe")
		assert.True(t, strings.HasPrefix(of.Bin, "kubectl-"+p.Metadata.Name))
	}
	// sha256sum of the text linux_amd64.
	assert.Equal(t, "6e42b235a426c6ab149ad1b1f5ae3c0894409575c45d47698630034658cf0963", p.Spec.Platforms[0].Sha256)
}

func TestManifestsThatWouldBeRefused(t *testing.T) {
	good := filepath.Join(t.TempDir(), "kubectl-attune_linux_amd64.tar.gz")
	require.NoError(t, os.WriteFile(good, nil, 0o600))
	for want, args := range map[string][]string{
		"usage: krew TEMPLATE VERSION":         {manifestTemplate, "v1.2.3", "https://x"},
		`version "1.2.3" is none`:              {manifestTemplate, "1.2.3", "https://x", good},
		`"http://x" is no address`:             {manifestTemplate, "v1.2.3", "http://x", good},
		"attune.zip is not named kubectl-attu": {manifestTemplate, "v1.2.3", "https://x", "attune.zip"},
		"no such file":                         {manifestTemplate, "v1.2.3", "https://x", filepath.Join(t.TempDir(), "kubectl-attune_linux_arm64.tar.gz")},
	} {
		var out bytes.Buffer
		assert.ErrorContains(t, run(&out, args), want)
		assert.Empty(t, out.String())
	}
}
