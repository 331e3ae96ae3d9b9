package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// supported are the platforms of a release.
var supported = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"}}

func pluginArchive(on platform) string { return "kubectl-attune_" + on.String() + ".tar.gz" }

// buildPlugins builds the plugin for each platform, as an archive with the licenses, and writes an SBOM for each.
func (r Release) buildPlugins(ctx context.Context, source string) error {
	var shared []entry
	for _, name := range licenses {
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return err
		}
		shared = append(shared, entry{name, 0o644, content})
	}
	for _, on := range r.Platforms {
		if err := r.buildPlugin(ctx, source, on, shared); err != nil {
			return fmt.Errorf("plugin for %s: %w", on, err)
		}
	}
	return nil
}

func (r Release) buildPlugin(ctx context.Context, source string, on platform, shared []entry) error {
	dir, err := os.MkdirTemp("", "attune-plugin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	name := "kubectl-attune"
	if on.OS == "windows" {
		name += ".exe"
	}
	binary := filepath.Join(dir, name)
	if err := r.goBuild(ctx, source, "./cmd/kubectl-attune", binary, on); err != nil {
		return err
	}
	program, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	archive, err := packed(r.Time, append([]entry{{name, 0o755, program}}, shared...))
	if err != nil {
		return err
	}
	path := filepath.Join(r.Out, pluginArchive(on))
	if err := os.WriteFile(path, archive, 0o644); err != nil {
		return err
	}
	sum, err := sumOf(path)
	if err != nil {
		return err
	}
	return r.writeSBOM(ctx, strings.TrimSuffix(pluginArchive(on), ".tar.gz"), binary, sum)
}

// download is one archive of the plugin, as krew's manifest names it.
type download struct{ OS, Arch, URI, SHA256 string }

// writeKrew fills the template of the manifest for krew, kubectl's plugin manager.
func (r Release) writeKrew(path string) error {
	text, err := template.ParseFiles(path)
	if err != nil {
		return err
	}
	var platforms []download
	for _, on := range r.Platforms {
		sum, err := sumOf(filepath.Join(r.Out, pluginArchive(on)))
		if err != nil {
			return err
		}
		platforms = append(platforms, download{on.OS, on.Arch, r.downloads() + "/" + pluginArchive(on), sum})
	}
	var out strings.Builder
	manifest := map[string]any{"Version": r.Version, "Platforms": platforms}
	if err := text.Option("missingkey=error").Execute(&out, manifest); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.Out, "attune-krew.yaml"), []byte(out.String()), 0o644)
}
