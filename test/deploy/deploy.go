// Package deploy builds the operator's image, loads it into a test cluster and
// installs or upgrades the chart there. Tests, the demo and make deploy share it.
package deploy

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"attune.io/attune/test/cluster"
)

// Namespace is where the operator lives.
const Namespace = "attune-system"

// Options say how the operator is installed.
type Options struct {
	// Values are files, Set single values, as helm's flags of these names; they win over our own.
	Values, Set []string
	// Alone: the operator makes its own certificates and measures the kubelets itself, without cert-manager and Prometheus.
	Alone bool
	// Built is what was built for several clusters; nil: Operator builds the image.
	Built *Built
	// Out gets helm's messages.
	Out io.Writer
}

// Operator builds, loads and installs the operator, and returns when it is ready. Again: upgrades.
func Operator(ctx context.Context, c *cluster.Cluster, o Options) error {
	project, err := cluster.ProjectDir()
	if err != nil {
		return err
	}
	tag, err := loadImage(ctx, c, project, o.Built)
	if err != nil {
		return err
	}
	ours, err := writeValues(tag, o.Alone)
	if err != nil {
		return err
	}
	defer os.Remove(ours)
	return run(c.Command(ctx, "helm", helmArgs(project, ours, o)...), o.Out)
}

// helmArgs install the chart. Our own values are a file too, the first one: helm lets every --set win over every file.
func helmArgs(project, ours string, o Options) []string {
	args := []string{
		"upgrade", "--install", "attune", filepath.Join(project, "charts", "attune"),
		"--namespace", Namespace, "--create-namespace", "--wait", "--timeout", "120s",
	}
	for _, file := range append([]string{ours}, o.Values...) {
		args = append(args, "--values", file)
	}
	for _, value := range o.Set {
		args = append(args, "--set", value)
	}
	return args
}

// writeValues writes what holds on every test cluster, unless the caller's values say otherwise.
func writeValues(tag string, alone bool) (path string, err error) {
	ours := map[string]any{
		"image": map[string]any{"repository": "docker.io/local/attune", "tag": tag, "pullPolicy": "Never"},
		"usage": map[string]any{"source": "prometheus", "prometheus": map[string]any{"address": cluster.PrometheusURL}},
	}
	if alone {
		ours["usage"], ours["certs"] = map[string]any{"source": "embedded"}, map[string]any{"provider": "self-signed"}
	}
	values, err := json.Marshal(ours) // JSON is YAML
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp("", "attune-values-*.yaml")
	if err != nil {
		return "", err
	}
	_, err = file.Write(values)
	return file.Name(), errors.Join(err, file.Close())
}

// Uninstall removes the operator's release.
func Uninstall(ctx context.Context, c *cluster.Cluster, out io.Writer) error {
	return run(c.Command(ctx, "helm", "uninstall", "attune", "--namespace", Namespace, "--wait"), out)
}

// Plugin builds kubectl-attune and returns its path.
func Plugin(ctx context.Context, dir string) (string, error) {
	project, err := cluster.ProjectDir()
	if err != nil {
		return "", err
	}
	binary := filepath.Join(dir, "kubectl-attune")
	return binary, Binary(ctx, project, "./cmd/kubectl-attune", binary)
}

// Image builds the operator's image into dir and returns the archive and the image's tag, which
// changes with the program: an upgrade to another build is always a rollout.
func Image(ctx context.Context, project, dir string) (archive, tag string, err error) {
	binary := filepath.Join(dir, "attune")
	if err := Binary(ctx, project, "./cmd/attune", binary); err != nil {
		return "", "", err
	}
	if tag, err = contentTag(binary); err != nil {
		return "", "", err
	}
	archive = filepath.Join(dir, "attune.tar")
	return archive, tag, cluster.BuildImage(archive, binary, "/attune", licenses(project), "docker.io/local/attune:"+tag, "docker.io/local/attune:dev")
}

// licenses are the files that every copy of the program has to bring along.
func licenses(project string) []string {
	return []string{filepath.Join(project, "LICENSE"), filepath.Join(project, "THIRD_PARTY_NOTICES")}
}

// Binary builds one static program of the project. The environment variable LDFLAGS replaces the linker's flags, e.g. to
// set its version.
func Binary(ctx context.Context, project, pkg, out string) error {
	out, err := filepath.Abs(out) // the compiler runs in the project
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", cmp.Or(os.Getenv("LDFLAGS"), "-s -w"), "-o", out, pkg)
	cmd.Dir = project
	cmd.Env = append(append(os.Environ(), "CGO_ENABLED=0"), cluster.CompilerEnv()...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", pkg, err, output)
	}
	return nil
}

// Compile compiles the operator and the plugin, for Operator and Plugin to find that done.
func Compile(ctx context.Context, project string) error {
	dir, err := os.MkdirTemp("", "attune-compiled-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return Binary(ctx, project, "./cmd/...", dir+"/")
}

// Built are the operator's image and the plugin.
type Built struct{ Archive, Tag, Plugin string }

// Build builds the operator's image and the plugin into dir, once for several clusters.
func Build(ctx context.Context, dir string) (*Built, error) {
	project, err := cluster.ProjectDir()
	if err != nil {
		return nil, err
	}
	b := &Built{}
	if b.Archive, b.Tag, err = Image(ctx, project, dir); err != nil {
		return nil, err
	}
	b.Plugin, err = Plugin(ctx, dir)
	return b, err
}

func loadImage(ctx context.Context, c *cluster.Cluster, project string, built *Built) (string, error) {
	if built != nil {
		return built.Tag, c.Load(ctx, built.Archive)
	}
	dir, err := os.MkdirTemp("", "attune-image-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	archive, tag, err := Image(ctx, project, dir)
	if err != nil {
		return "", err
	}
	return tag, c.Load(ctx, archive)
}

func contentTag(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, file); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil))[:12], nil
}

func run(cmd *exec.Cmd, out io.Writer) error {
	if out == nil {
		out = io.Discard
	}
	tail := &tailBuffer{}
	cmd.Stdout, cmd.Stderr = io.MultiWriter(out, tail), io.MultiWriter(out, tail)
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", filepath.Base(cmd.Path), err, tail.data)
	}
	return nil
}

// tailBuffer keeps the end of what was written, for the error.
type tailBuffer struct{ data []byte }

func (t *tailBuffer) Write(p []byte) (int, error) {
	const most = 8192
	t.data = append(t.data, p...)
	t.data = t.data[max(0, len(t.data)-most):]
	return len(p), nil
}
