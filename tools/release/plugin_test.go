package main

import (
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

const manifestTemplate = "../../config/krew/attune.yaml"

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
	os.Getenv("ATTUNE_INPUTS") // the digest of what is read outside of this module, so that Go's test cache sees a change
	r := Release{Version: "v1.2.3", Out: t.TempDir(), URL: "https://downloads.example/attune/", Platforms: supported}
	for _, on := range supported {
		require.NoError(t, os.WriteFile(filepath.Join(r.Out, pluginArchive(on)), []byte(on.String()), 0o600))
	}
	require.NoError(t, r.writeKrew(manifestTemplate))
	out, err := os.ReadFile(filepath.Join(r.Out, "attune-krew.yaml"))
	require.NoError(t, err)
	var p plugin
	require.NoError(t, yaml.UnmarshalStrict(out, &p), string(out))

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
		assert.LessOrEqual(t, len(line), 80, "krew shows it as it is, and krew-index asks for it")
	}
	_, err = url.ParseRequestURI(p.Spec.Homepage)
	assert.NoError(t, err)
	require.Len(t, p.Spec.Platforms, 6)
	seen := map[string]bool{}
	for _, of := range p.Spec.Platforms {
		assert.Len(t, of.Selector.MatchLabels, 2)
		at := of.Selector.MatchLabels["os"] + "_" + of.Selector.MatchLabels["arch"]
		assert.False(t, seen[at], "two archives for %s", at)
		seen[at] = true
		assert.Equal(t, "https://downloads.example/attune/releases/download/v1.2.3/kubectl-attune_"+at+".tar.gz", of.URI)
		assert.Regexp(t, regexp.MustCompile(`^[a-f0-9]{64}$`), of.Sha256)
		assert.Equal(t, strings.HasPrefix(at, "windows"), of.Bin == "kubectl-attune.exe")
		assert.True(t, strings.HasPrefix(of.Bin, "kubectl-"+p.Metadata.Name))
	}
	// sha256sum of the text linux_amd64.
	assert.Equal(t, "6e42b235a426c6ab149ad1b1f5ae3c0894409575c45d47698630034658cf0963", p.Spec.Platforms[0].Sha256)
}

func TestReleasesWithBadFlags(t *testing.T) {
	valid := Release{Version: "v1.2.3", URL: "https://x", Out: "x", Registry: "registry.example:5000/team"}
	for want, change := range map[string]func(*Release){
		`version "1.2.3" is not valid`:              func(r *Release) { r.Version = "1.2.3" },
		`address "http://x"`:                        func(r *Release) { r.URL = "http://x" },
		"set --out":                                 func(r *Release) { r.Out = "" },
		"unknown revision":                          func(r *Release) { r.Ref = "no-such-tag" },
		`registry "" is not valid`:                  func(r *Release) { r.Registry = "" },
		`registry "ghcr.io/Owner" is not valid`:     func(r *Release) { r.Registry = "ghcr.io/Owner" },
		`registry "ghcr.io/owner/" is not valid`:    func(r *Release) { r.Registry = "ghcr.io/owner/" },
		`registry "https://ghcr.io/o" is not valid`: func(r *Release) { r.Registry = "https://ghcr.io/o" },
	} {
		r := valid
		change(&r)
		assert.ErrorContains(t, r.complete(t.Context()), want)
	}
	assert.ErrorContains(t, run(t.Context(), nil), "usage")
	assert.ErrorContains(t, run(t.Context(), []string{"build", "--version", "v1.2.3", "more"}), `unknown argument "more"`)
	assert.ErrorContains(t, run(t.Context(), []string{"build", "--platforms", "linux/amd64,plan9/arm"}), `a release has no platform "plan9/arm"`)
}

// The notices have the modules of every platform that a release has.
func TestTheNoticesAreForAllPlatforms(t *testing.T) {
	os.Getenv("ATTUNE_INPUTS")
	makefile, err := os.ReadFile("../../Makefile")
	require.NoError(t, err)
	var all []string
	for _, on := range supported {
		all = append(all, on.OS+"/"+on.Arch)
	}
	assert.Contains(t, string(makefile), "\nPLATFORMS := "+strings.Join(all, " ")+"\n")
}
