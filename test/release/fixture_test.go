// Package release installs, upgrades, rolls back and removes what make release-rehearsal has made, on a local cluster
// that pulls from a registry, as users do. `make test-release` runs it.
package release

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"attune.io/attune/test/await"
	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
)

var (
	releaseDir = flag.String("release", "", "directory of the release, as make release-rehearsal writes it")
	beforeDir  = flag.String("before", "", "directory of the release before")
)

// registryAddress is an address of the control plane, from which nodes and Helm pull.
const registryAddress = "172.30.0.1:5000"

// patience bounds every wait: the machine may be busy.
const patience = 10 * time.Minute

// published is one release: the names of image and chart by digest, and its plugin.
type published struct {
	image, chart, version, plugin, dir string
}

// shop is a cluster, and a user with kubectl and Helm.
type shop struct {
	t       *testing.T
	cluster *cluster.Cluster
}

// start a cluster whose nodes pull from the registry of the releases, and read both.
func start(t *testing.T) (s shop, before, now published) {
	t.Helper()
	cluster.Need(t)
	require.NotEmpty(t, *releaseDir, "run make test-release")
	require.NotEmpty(t, *beforeDir, "run make test-release")
	handler := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	local := httptest.NewServer(handler)
	t.Cleanup(local.Close)
	before, now = push(t, *beforeDir, local), push(t, *releaseDir, local)
	require.NotEqual(t, before.image, now.image)

	host, _, _ := strings.Cut(now.image, "/")
	c, err := cluster.Start(t.Context(), cluster.Options{CertManager: true, Mirrors: map[string]string{host: "http://" + registryAddress}})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	listener, err := c.Listen(t.Context(), "tcp", registryAddress)
	require.NoError(t, err)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go server.Serve(listener) //nolint:errcheck // it ends with Close
	t.Cleanup(func() { server.Close() })
	s = shop{t, c}
	// The test cluster's kubelets measure no disk. Others do, and containers request some.
	s.run("kubectl", "patch", "node", "node1", "--subresource=status", "--type=merge", "-p",
		`{"status": {"capacity": {"ephemeral-storage": "10Gi"}, "allocatable": {"ephemeral-storage": "10Gi"}}}`)
	return s, before, now
}

// push all of a layout by the names that it has, to the registry of this test.
func push(t *testing.T, dir string, server *httptest.Server) (p published) {
	t.Helper()
	p.dir = dir
	from, err := layout.FromPath(filepath.Join(dir, "oci"))
	require.NoError(t, err)
	index, err := from.ImageIndex()
	require.NoError(t, err)
	manifest, err := index.IndexManifest()
	require.NoError(t, err)
	for _, m := range manifest.Manifests {
		as := m.Annotations["org.opencontainers.image.ref.name"]
		_, repository, _ := strings.Cut(as, "/")
		to, err := name.NewTag(strings.TrimPrefix(server.URL, "http://") + "/" + repository)
		require.NoError(t, err)
		if m.MediaType == types.OCIImageIndex {
			of, err := index.ImageIndex(m.Digest)
			require.NoError(t, err)
			require.NoError(t, remote.WriteIndex(to, of))
		} else {
			of, err := index.Image(m.Digest)
			require.NoError(t, err)
			require.NoError(t, remote.Write(to, of))
		}
		untagged, tag, _ := strings.Cut(as, ":")
		switch {
		case strings.HasPrefix(tag, "sha256-"): // a signature
		case path.Base(path.Dir(untagged)) == "charts":
			p.chart = strings.TrimSuffix(repository, ":"+tag) + "@" + m.Digest.String()
		default:
			p.image, p.version = untagged+"@"+m.Digest.String(), tag
		}
	}
	require.NotEmpty(t, p.image)
	require.NotEmpty(t, p.chart)
	p.plugin = extract(t, filepath.Join(dir, "kubectl-attune_linux_amd64.tar.gz"))
	return p
}

// extract the plugin from its archive.
func extract(t *testing.T, archive string) string {
	t.Helper()
	file, err := os.Open(archive)
	require.NoError(t, err)
	defer file.Close()
	content, err := gzip.NewReader(file)
	require.NoError(t, err)
	for of := tar.NewReader(content); ; {
		header, err := of.Next()
		require.NoError(t, err, "the archive has no plugin")
		if header.Name != "kubectl-attune" {
			continue
		}
		binary := filepath.Join(t.TempDir(), header.Name)
		to, err := os.OpenFile(binary, os.O_CREATE|os.O_WRONLY, 0o755)
		require.NoError(t, err)
		_, err = io.Copy(to, of)
		require.NoError(t, errors.Join(err, to.Close()))
		return binary
	}
}

// command in the cluster's network.
func (s shop) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	return s.cluster.Command(ctx, program, args...)
}

// run a command that succeeds, and return its output.
func (s shop) run(program string, args ...string) string {
	s.t.Helper()
	out, err := s.command(s.t.Context(), program, args...).CombinedOutput()
	require.NoError(s.t, err, "%s %s: %s", filepath.Base(program), strings.Join(args, " "), out)
	return strings.TrimSpace(string(out))
}

func (s shop) kubectl(args ...string) string {
	s.t.Helper()
	return s.run("kubectl", args...)
}

// until a command succeeds and its output is accepted.
func (s shop) until(what string, accepted func(string) bool, program string, args ...string) {
	s.t.Helper()
	err := await.Until(s.t.Context(), what, patience, time.Second, func(ctx context.Context) error {
		out, err := s.command(ctx, program, args...).CombinedOutput()
		if err == nil && !accepted(strings.TrimSpace(string(out))) {
			err = errors.New("not yet")
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		out, _ := s.command(s.t.Context(), "kubectl", "get", "pods,events,attunerecommendations", "-A", "-o", "wide").CombinedOutput()
		s.t.Logf("%s", out)
	}
	require.NoError(s.t, err)
}

// helm installs or upgrades to the chart of a release, by digest.
func (s shop) helm(of published, args ...string) {
	s.t.Helper()
	s.run("helm", append([]string{
		"upgrade", "--install", "attune", "oci://" + registryAddress + "/" + of.chart, "--plain-http", "--namespace", deploy.Namespace, "--create-namespace",
		"--wait", "--timeout", "10m", "--set", "certs.provider=self-signed", "--set", "usage.interval=2s",
	}, args...)...)
}

// serves expects that the operator runs the image of a release, pulled by digest, and says so.
func (s shop) serves(of published) {
	s.t.Helper()
	want := strings.Split(of.image, "@")[1]
	s.until("every pod runs the image of "+of.version, func(images string) bool {
		for image := range strings.FieldsSeq(images) {
			if !strings.HasSuffix(image, want) {
				return false
			}
		}
		return images != ""
	}, "kubectl", "get", "pods", "-n", deploy.Namespace, "-o", "jsonpath={.items[*].status.containerStatuses[*].imageID}")
	said := s.kubectl("exec", "-n", deploy.Namespace, "deploy/attune-webhook", "--", "/attune", "version")
	require.Contains(s.t, said, "attune "+of.version+", commit ")
	require.Contains(s.t, s.run(of.plugin, "version"), of.version+", commit ")
}
