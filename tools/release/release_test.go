package main

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// small is a release whose source is a little program with one dependency, which is replaced.
func small(t *testing.T) (Release, string) {
	t.Helper()
	source := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":                "module attune.io/attune\n\ngo 1.26\n\nrequire b.example/b v1.2.3\n\nreplace b.example/b => ./b\n",
		"b/go.mod":              "module b.example/b\n\ngo 1.26\n",
		"b/b.go":                "package b\n",
		"cmd/a/a.go":            "package main\n\nimport (\n\t_ \"b.example/b\"\n\t\"fmt\"\n\n\t\"attune.io/attune/internal/answers\"\n)\n\nfunc main() { fmt.Println(answers.V()) }\n",
		"LICENSE":               "license",
		"THIRD_PARTY_NOTICES":   "notices",
		"internal/answers/v.go": "package answers\n\nvar version, commit string\n\n// V is both.\nfunc V() string { return version + \" \" + commit }\n",
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(source, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(source, name), []byte(text), 0o600))
	}
	return Release{
		Version: "v1.2.3", Commit: "0a1b", Time: time.Unix(1e9, 0).UTC(), Registry: "registry.example/team", URL: "https://attune.example", Out: t.TempDir(), Platforms: supported,
	}, source
}

var linux = platform{"linux", "amd64"}

func compile(t *testing.T, r Release, source string) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "program")
	require.NoError(t, r.goBuild(t.Context(), source, "./cmd/a", binary, linux))
	return binary
}

func TestTwoBuildsInDifferentDirectoriesAreEqual(t *testing.T) {
	digest := func() v1.Hash {
		r, source := small(t)
		image, err := imageOf(compile(t, r, source), source, linux, r.Time, r.labels())
		require.NoError(t, err)
		digest, err := image.Digest()
		require.NoError(t, err)
		return digest
	}
	assert.Equal(t, digest(), digest())
}

func TestTheImageHasOneProgramCertificatesAndLicenses(t *testing.T) {
	r, source := small(t)
	image, err := imageOf(compile(t, r, source), source, linux, r.Time, r.labels())
	require.NoError(t, err)
	content := mutate.Extract(image)
	defer content.Close()
	files := map[string]string{}
	for of := tar.NewReader(content); ; {
		header, err := of.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if header.Typeflag == tar.TypeReg {
			text, err := io.ReadAll(of)
			require.NoError(t, err)
			files[header.Name] = string(text)
		}
	}
	assert.Len(t, files, 4, "no shell and no package manager")
	assert.Equal(t, "license", files["licenses/LICENSE"])
	assert.Equal(t, "notices", files["licenses/THIRD_PARTY_NOTICES"])
	assert.Greater(t, strings.Count(files["etc/ssl/certs/ca-certificates.crt"], "BEGIN CERTIFICATE"), 100)
	said, err := exec.CommandContext(t.Context(), compile(t, r, source)).Output()
	require.NoError(t, err)
	assert.Equal(t, "v1.2.3 0a1b\n", string(said))
	config, err := image.ConfigFile()
	require.NoError(t, err)
	assert.Equal(t, "65532:65532", config.Config.User)
	assert.Equal(t, "v1.2.3", config.Config.Labels["org.opencontainers.image.version"])
	assert.Equal(t, "0a1b", config.Config.Labels["org.opencontainers.image.revision"])
}

func TestTheSBOMEqualsTheProgram(t *testing.T) {
	r, source := small(t)
	binary := compile(t, r, source)
	require.NoError(t, r.writeSBOM(t.Context(), "attune_linux_amd64", binary, strings.Repeat("a", 64)))
	written, err := os.ReadFile(filepath.Join(r.Out, "attune_linux_amd64.spdx.json"))
	require.NoError(t, err)
	listed, err := modulesOf(written)
	require.NoError(t, err)
	require.Len(t, listed, 2)
	assert.Equal(t, "./b", listed[0].Path, "what replaces a module is what is linked")
	assert.Equal(t, standard, listed[1].Path)

	// Of this test, go version -m and the SBOM have the same modules.
	self, err := os.Executable()
	require.NoError(t, err)
	require.NoError(t, r.writeSBOM(t.Context(), "self", self, strings.Repeat("b", 64)))
	written, err = os.ReadFile(filepath.Join(r.Out, "self.spdx.json"))
	require.NoError(t, err)
	assert.Contains(t, string(written), `"pkg:golang/github.com/google/go-containerregistry@v0.`)

	// A module less is seen.
	linked, err := goVersionModules(t.Context(), self)
	require.NoError(t, err)
	listed, err = modulesOf(bytes.Replace(written, []byte(`"DEPENDS_ON"`), []byte(`"OTHER"`), 1))
	require.NoError(t, err)
	assert.Len(t, listed, len(linked)-1)
}

func TestChecksums(t *testing.T) {
	r, _ := small(t)
	for name, text := range map[string]string{"a.txt": "a", "b.txt": "b"} {
		require.NoError(t, os.WriteFile(filepath.Join(r.Out, name), []byte(text), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(r.Out, "oci"), 0o755))
	require.NoError(t, r.writeChecksums())
	check := func() error {
		cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", checksums)
		cmd.Dir = r.Out
		return cmd.Run()
	}
	require.NoError(t, check())
	require.NoError(t, flip(filepath.Join(r.Out, "b.txt")))
	assert.Error(t, check(), "a changed byte")
}

// helm upgrade --reuse-values keeps the values of the chart before. A tag or a digest among them would keep its image too.
func TestTheChartNamesTheImageByDigest(t *testing.T) {
	os.Getenv("ATTUNE_INPUTS")
	const digest = "sha256:abc"
	current, err := os.ReadFile("../../charts/attune/values.yaml")
	require.NoError(t, err)
	for values, want := range map[string]string{
		"a: 1\nimage:\n  # Registry.\n  registry: x\n\n  repository: y\n  tag: \"\"\n  digest: \"\"\nb: 1\n": "registry.example/team/attune",
		"image:\n  repository: y\n  tag: \"\"\nb:\n  tag: stays\n":                                           "registry.example/team/attune",
		string(current): "registry.example/team/attune",
	} {
		set, err := setImage([]byte(values), "registry.example/team/attune")
		require.NoError(t, err)
		var v struct {
			Image struct{ Registry, Repository, Tag, Digest string }
		}
		require.NoError(t, yaml.Unmarshal(set, &v))
		assert.Equal(t, want, strings.TrimPrefix(v.Image.Registry+"/"+v.Image.Repository, "/"))
		assert.Empty(t, v.Image.Tag+v.Image.Digest, "they are in Chart.yaml")
		assert.Equal(t, strings.Count(values, "#"), strings.Count(string(set), "#"), "comments stay")
	}
	_, err = setImage([]byte("image: {}\n"), "registry.example/team/attune")
	assert.ErrorContains(t, err, "no block image")

	current, err = os.ReadFile("../../charts/attune/Chart.yaml")
	require.NoError(t, err)
	for _, chart := range []string{string(current), "name: attune\nannotations:\n  a: b\n"} {
		var metadata struct {
			Name        string
			Annotations map[string]string
		}
		r := Release{Version: "v1.2.3", Registry: "registry.example:5000/team"}
		require.NoError(t, yaml.Unmarshal(r.annotated([]byte(chart), digest), &metadata))
		assert.Equal(t, digest, metadata.Annotations[imageDigest])
		assert.NotContains(t, metadata.Annotations, "artifacthub.io/prerelease")
		var images []struct{ Name, Image string }
		require.NoError(t, yaml.UnmarshalStrict([]byte(metadata.Annotations["artifacthub.io/images"]), &images))
		require.Len(t, images, 1)
		assert.Equal(t, "registry.example:5000/team/attune@"+digest, images[0].Image)
		r.Version = "v1.2.3-rc.1"
		require.NoError(t, yaml.Unmarshal(r.annotated([]byte(chart), digest), &metadata))
		assert.Equal(t, "true", metadata.Annotations["artifacthub.io/prerelease"])
		assert.Equal(t, "attune", metadata.Name)
	}
}

func TestAChartInARegistryIsWhatHelmReads(t *testing.T) {
	r, _ := small(t)
	archive, err := packed(r.Time, []entry{{"attune/Chart.yaml", 0o644, []byte("name: attune\nversion: 1.2.3\n")}})
	require.NoError(t, err)
	again, err := packed(r.Time, []entry{{"attune/Chart.yaml", 0o644, []byte("name: attune\nversion: 1.2.3\n")}})
	require.NoError(t, err)
	assert.Equal(t, archive, again)
	entries, err := unpacked(archive)
	require.NoError(t, err)
	chart, err := chartImage(archive, entries, r.labels())
	require.NoError(t, err)
	manifest, err := chart.Manifest()
	require.NoError(t, err)
	assert.Equal(t, chartConfig, manifest.Config.MediaType)
	assert.Equal(t, "1.2.3", manifest.Annotations["org.opencontainers.image.version"])
	require.Len(t, manifest.Layers, 1)
	assert.Equal(t, chartContent, manifest.Layers[0].MediaType)
	config, err := chart.RawConfigFile()
	require.NoError(t, err)
	assert.JSONEq(t, `{"name": "attune", "version": "1.2.3"}`, string(config))
}

func TestProvenanceNamesTheCommitAndTheWorkflow(t *testing.T) {
	r, _ := small(t)
	p := r.provenance(func(string) string { return "" })
	assert.Equal(t, "0a1b", p.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"])
	assert.Equal(t, "https://attune.example/blob/0a1b/Makefile", p.RunDetails.Builder.ID)
	environment := map[string]string{
		"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "o/r", "GITHUB_WORKFLOW_REF": "o/r/.github/workflows/release.yml@refs/tags/v1.2.3",
		"GITHUB_RUN_ID": "7", "GITHUB_RUN_ATTEMPT": "1",
	}
	p = r.provenance(func(name string) string { return environment[name] })
	assert.Equal(t, "https://github.com/o/r/.github/workflows/release.yml", p.RunDetails.Builder.ID)
	assert.Equal(t, "https://github.com/o/r/actions/runs/7/attempts/1", p.RunDetails.Metadata.InvocationID)
}

// Users copy these commands. The rehearsal runs them.
func TestReleasePageHasCommandsToVerify(t *testing.T) {
	os.Getenv("ATTUNE_INPUTS")
	page, err := os.ReadFile("../../RELEASE.md")
	require.NoError(t, err)
	commands := userCommands.FindSubmatch(page)
	require.NotNil(t, commands)
	for _, want := range []string{"cosign verify ", "cosign verify-attestation --type spdxjson", "cosign verify-attestation --type slsaprovenance1", "cosign verify-blob ", "sha256sum --check"} {
		assert.Contains(t, string(commands[1]), want)
	}
	require.NoError(t, exec.CommandContext(t.Context(), "bash", "-n", "-c", string(commands[1])).Run())
}

// sha256sum says nothing about a downloaded file that checksums.txt does not list.
func TestReleasePageNoticesFilesWithoutAChecksum(t *testing.T) {
	os.Getenv("ATTUNE_INPUTS")
	page, err := os.ReadFile("../../RELEASE.md")
	require.NoError(t, err)
	commands := userCommands.FindSubmatch(page)
	require.NotNil(t, commands)
	_, commands[1], _ = bytes.Cut(commands[1], []byte("checksums.txt.provenance.sigstore.json checksums.txt\n")) // what needs no cosign
	dir := t.TempDir()
	files := []string{"install.yaml", "attune-1.2.3.tgz", "kubectl-attune_linux_amd64.tar.gz"}
	var sums []string
	for _, file := range append(files, "install.yaml.sbom") {
		if file != "install.yaml.sbom" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(file), 0o600))
		}
		sums = append(sums, fmt.Sprintf("%x  %s\n", sha256.Sum256([]byte(file)), file))
	}
	check := func(sums []string) (string, error) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, checksums), []byte(strings.Join(sums, "")), 0o600))
		cmd := exec.CommandContext(t.Context(), "bash", "-c", string(commands[1])) // as in a terminal: a failed command does not end it
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "VERSION=v1.2.3")
		said, err := cmd.CombinedOutput()
		return string(said), err
	}
	said, err := check(sums)
	require.NoError(t, err, said)
	for i, file := range files {
		assert.Contains(t, said, file+": OK")
		said, err := check(slices.Delete(slices.Clone(sums), i, i+1))
		require.Error(t, err, said)
		assert.Contains(t, said, file+": FAILED")
	}
}

// A tag of a release never moves: mirrors keep the first content, and users cannot tell which one they have.
func TestAPublishedTagDoesNotMove(t *testing.T) {
	at, stop, err := serve()
	require.NoError(t, err)
	defer stop()
	image, chart := v1.ImageIndex(mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: empty.Image})), empty.Image
	other, err := mutate.Config(chart, v1.Config{User: "1"})
	require.NoError(t, err)
	for range 2 { // a workflow that failed half-way runs again
		_, err = pushIndex(t.Context(), at+"/attune:v1.2.3", image)
		require.NoError(t, err)
		_, err = push(t.Context(), at+"/charts/attune:1.2.3", chart)
		require.NoError(t, err)
	}
	_, err = pushIndex(t.Context(), at+"/attune:v1.2.3", changed(image))
	require.ErrorContains(t, err, "attune:v1.2.3 is already published with another content")
	_, err = push(t.Context(), at+"/charts/attune:1.2.3", other)
	require.ErrorContains(t, err, "charts/attune:1.2.3 is already published with another content")
	tag, err := name.NewTag(at + "/attune:v1.2.3")
	require.NoError(t, err)
	found, err := remote.Head(tag)
	require.NoError(t, err)
	digest, err := image.Digest()
	require.NoError(t, err)
	assert.Equal(t, digest, found.Digest)
}

// A registry that answers no question about a tag may have it.
func TestARegistryThatDoesNotAnswerGetsNothing(t *testing.T) {
	pushed := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
			pushed = true
			w.WriteHeader(http.StatusCreated)
		case strings.Contains(r.URL.Path, "/manifests/"):
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer server.Close()
	_, err := push(t.Context(), strings.TrimPrefix(server.URL, "http://")+"/charts/attune:1.2.3", empty.Image)
	require.ErrorContains(t, err, "charts/attune:1.2.3 may be published already")
	assert.False(t, pushed)
}

// A little release is signed, its signatures hold for it, and for nothing else.
func TestSignaturesHoldForNothingElse(t *testing.T) {
	os.Getenv("ATTUNE_INPUTS")
	cosign, err := filepath.Abs("../../bin/cosign")
	require.NoError(t, err)
	if _, err := os.Stat(cosign); err != nil {
		t.Skip("there is no bin/cosign, which takes minutes to build: run make bin/cosign")
	}
	r, source := small(t)
	r.Cosign, r.Project = cosign, "../.."
	require.NoError(t, r.writeProvenance())
	binary := compile(t, r, source)
	index := v1.ImageIndex(empty.Index)
	for _, on := range r.nodes() {
		require.NoError(t, r.writeSBOM(t.Context(), "attune_"+on.String(), binary, strings.Repeat("a", 64)))
		image, err := imageOf(binary, source, on, r.Time, r.labels())
		require.NoError(t, err)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: on.OS, Architecture: on.Arch}}})
	}
	entries := []entry{{"attune/Chart.yaml", 0o644, []byte("name: attune\nversion: 1.2.3\n")}}
	archive, err := packed(r.Time, entries)
	require.NoError(t, err)
	chart, err := chartImage(archive, entries, r.labels())
	require.NoError(t, err)
	require.NoError(t, r.writeLayout(index, chart))
	require.NoError(t, os.WriteFile(r.chartFile(), archive, 0o600))
	for _, file := range []string{"install.yaml", pluginArchive(linux)} {
		require.NoError(t, os.WriteFile(filepath.Join(r.Out, file), []byte(file), 0o600))
	}
	require.NoError(t, r.writeChecksums())

	said, err := r.publishHere(t.Context())
	require.NoError(t, err)
	assert.Contains(t, said, "install.yaml: OK")
	require.NoError(t, r.report(t.Output(), said))

	// Another key is refused.
	at, stop, err := serve()
	require.NoError(t, err)
	defer stop()
	r.Key, err = r.newKey(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.NoError(t, r.publish(t.Context(), at+"/team"))
	_, err = r.newKey(t.Context(), t.TempDir())
	require.NoError(t, err)
	assert.ErrorContains(t, r.refused(t.Context(), at+"/team", r.Out, "never said"), "signature")

	// Signatures and attestations are in the layout, by the names that they have in the registry of users.
	path, err := layout.FromPath(filepath.Join(r.Out, "oci"))
	require.NoError(t, err)
	all, err := path.ImageIndex()
	require.NoError(t, err)
	manifest, err := all.IndexManifest()
	require.NoError(t, err)
	digest, err := index.Digest()
	require.NoError(t, err)
	var names []string
	for _, m := range manifest.Manifests {
		names = append(names, m.Annotations[refName])
	}
	assert.Contains(t, names, "registry.example/team/attune:sha256-"+digest.Hex)
	assert.NoFileExists(t, filepath.Join(r.Out, "cosign.key"))
}
