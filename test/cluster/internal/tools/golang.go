package tools

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"attune.io/attune/test/cluster/internal/image"
)

// Images every node has from its start.
const (
	PauseImage    = "docker.io/local/pause:1"
	WorkloadImage = "local/workload:dev"
)

// builder makes what a cluster needs from source, the root of the test module.
type builder struct {
	source, cache string
	progress      *progress
}

func newBuilder(to io.Writer) (*builder, error) {
	source, err := sourceDir()
	if err != nil {
		return nil, err
	}
	cache, err := Cache()
	if err != nil {
		return nil, err
	}
	return &builder{source: source, cache: cache, progress: &progress{to: to, every: 15 * time.Second}}, nil
}

// sourceDir is the root of the test module, looked for from the working
// directory upwards: tests run in their package's directory, make in the project's.
func sourceDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		for _, candidate := range []string{dir, filepath.Join(dir, "test")} {
			if _, err := os.Stat(filepath.Join(candidate, "cluster/modules/kubernetes/go.mod")); err == nil {
				return candidate, nil
			}
		}
		if dir == "/" {
			return "", errors.New("the sources of the test cluster are not above the working directory, run this inside the project")
		}
	}
}

// ProjectDir is the root of the project that the working directory is in.
func ProjectDir() (string, error) {
	source, err := sourceDir()
	return filepath.Dir(source), err
}

func (b *builder) moduleDir(name string) string {
	return filepath.Join(b.source, "cluster/modules", name)
}

var kubernetesVersion = regexp.MustCompile(`\sk8s\.io/kubernetes (v[0-9.]+)`)

// kubernetesModule names the directory below modules whose go.mod pins that version.
func (b *builder) kubernetesModule(version string) (string, error) {
	if version == "" {
		return "kubernetes", nil
	}
	dirs, err := filepath.Glob(b.moduleDir("kubernetes*"))
	if err != nil {
		return "", err
	}
	var known []string
	for _, dir := range dirs {
		pinned, err := pinnedVersion(dir)
		if err != nil {
			return "", err
		}
		if pinned == version || strings.HasPrefix(pinned, version+".") {
			return filepath.Base(dir), nil
		}
		known = append(known, pinned)
	}
	return "", fmt.Errorf("Kubernetes %s is not among the test cluster's versions, choose one of %s", version, strings.Join(known, ", "))
}

func pinnedVersion(dir string) (string, error) {
	data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return "", err
	}
	match := kubernetesVersion.FindSubmatch(data)
	if match == nil {
		return "", fmt.Errorf("%s/go.mod requires no version of k8s.io/kubernetes", dir)
	}
	return string(match[1]), nil
}

// kubernetesPrograms are the names by which the one program of a kubernetes module is called.
var kubernetesPrograms = []string{"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl", "kubelet"}

// kubernetes returns what builds the program of that module, and gives it its names.
func (b *builder) kubernetes(module string) func(context.Context) (string, error) {
	return b.fromModule(module, func(ctx context.Context, dir, flags, out string) error {
		if err := b.build(ctx, dir, flags, filepath.Join(out, "kubernetes"), "."); err != nil { // of whatever version
			return err
		}
		for _, name := range kubernetesPrograms {
			if err := os.Symlink("kubernetes", filepath.Join(out, name)); err != nil {
				return err
			}
		}
		return nil
	})
}

// module returns what builds all tools of the named module.
func (b *builder) module(name string) func(context.Context) (string, error) {
	return b.fromModule(name, b.buildTools)
}

func (b *builder) fromModule(name string, build func(ctx context.Context, dir, flags, out string) error) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		dir := b.moduleDir(name)
		flags, err := linkerFlags(dir)
		if err != nil {
			return "", err
		}
		sum, err := digest([]string{dir}, flags)
		if err != nil {
			return "", err
		}
		return cached(filepath.Join(b.cache, "bin", name+"-"+sum), func(out string) error {
			return build(ctx, dir, flags, out)
		})
	}
}

// linkerFlags makes Kubernetes say its version, as a release does: clients and
// kubelets decide by it.
func linkerFlags(dir string) (string, error) {
	flags := "-s -w"
	if !strings.HasPrefix(filepath.Base(dir), "kubernetes") {
		return flags, nil
	}
	version, err := pinnedVersion(dir)
	if err != nil {
		return "", err
	}
	parts := strings.Split(strings.TrimPrefix(version, "v"), ".")
	values := [][2]string{{"gitVersion", version}, {"gitMajor", parts[0]}, {"gitMinor", parts[1]}, {"gitCommit", "unknown"}, {"gitTreeState", "clean"}}
	for _, v := range values {
		flags += fmt.Sprintf(" -X k8s.io/component-base/version.%s=%s", v[0], v[1])
	}
	return flags, nil
}

// buildMain builds the program that a module is, under its name.
func (b *builder) buildMain(ctx context.Context, dir, flags, out string) error {
	return b.build(ctx, dir, flags, filepath.Join(out, filepath.Base(dir)), ".")
}

// buildTools builds all of a module's tools in one go: while one is linked the next is compiled.
func (b *builder) buildTools(ctx context.Context, dir, flags, out string) error {
	list, err := b.golang(ctx, dir, "list", "-f", "{{.ImportPath}}", "tool")
	if err != nil {
		return err
	}
	if err := b.build(ctx, dir, flags, out+"/", strings.Fields(list)...); err != nil {
		return err
	}
	err = os.Rename(filepath.Join(out, "server"), filepath.Join(out, "etcd")) // its main package is called so
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// build programs of a module; the progress counts the packages that have to be compiled.
func (b *builder) build(ctx context.Context, dir, flags, out string, packages ...string) error {
	return b.progress.during("building "+strings.Join(names(dir, packages), " "), func(w *job) error {
		flags := []string{"-trimpath", "-ldflags", flags}
		if all, err := b.uncompiled(ctx, dir, flags, packages); err == nil { // without it, less is told
			w.total.Store(int64(all))
		}
		args := append(append([]string{"build", "-v", "-o", out}, flags...), packages...)
		cmd := b.command(ctx, dir, args...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, io.MultiWriter(&said, w)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), dir, err, said.String())
		}
		return nil
	})
}

// uncompiled counts the packages that are not in Go's build cache.
func (b *builder) uncompiled(ctx context.Context, dir string, flags, packages []string) (int, error) {
	args := append([]string{"list", "-deps", "-f", `{{if and .Stale (ne .StaleReason "not installed but available in build cache")}}x{{end}}`}, flags...)
	text, err := b.golang(ctx, dir, append(args, packages...)...)
	return strings.Count(text, "x"), err
}

// names are the packages' last path elements that are not a version; "." is called like its directory.
func names(dir string, packages []string) []string {
	var out []string
	for _, p := range packages {
		if p == "." {
			p = dir
		}
		dir, name := path.Split(p)
		if majorVersion.MatchString(name) {
			name = path.Base(dir)
		}
		out = append(out, name)
	}
	return out
}

var majorVersion = regexp.MustCompile(`^v[0-9]+$`)

func (b *builder) command(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
	return cmd
}

func (b *builder) golang(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := b.command(ctx, dir, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), dir, err, stderr.String())
	}
	return stdout.String(), nil
}

const certManagerPackage = "attune.io/attune/test/cluster/modules/certmanager"

// certManager builds its controllers and keeps its CRDs beside them.
func (b *builder) certManager(ctx context.Context) (string, error) {
	dir := b.moduleDir("certmanager")
	sum, err := digest([]string{dir})
	if err != nil {
		return "", err
	}
	return cached(filepath.Join(b.cache, "bin", "certmanager-"+sum), func(out string) error {
		if err := b.build(ctx, dir, "-s -w", filepath.Join(out, "cert-manager"), certManagerPackage); err != nil {
			return err
		}
		module, err := b.golang(ctx, dir, "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager")
		if err != nil {
			return err
		}
		return os.CopyFS(filepath.Join(out, "crds"), os.DirFS(filepath.Join(strings.TrimSpace(module), "deploy/crds")))
	})
}

// images builds the archive with the images every node has.
func (b *builder) images(ctx context.Context) (string, error) {
	pause, workload := filepath.Join(b.source, "cluster/pause"), filepath.Join(b.source, "workload")
	sum, err := digest([]string{pause, workload, filepath.Join(b.source, "cluster/internal/image")})
	if err != nil {
		return "", err
	}
	return cached(filepath.Join(b.cache, "images", sum), func(out string) error {
		programs := filepath.Join(out, "programs")
		defer os.RemoveAll(programs)
		for name, pkg := range map[string]string{"pause": "./cluster/pause", "workload": "./workload"} {
			if err := b.build(ctx, b.source, "-s -w", filepath.Join(programs, name), pkg); err != nil {
				return err
			}
		}
		return image.Write(filepath.Join(out, "base.tar"),
			image.Image{Binary: filepath.Join(programs, "pause"), Entrypoint: "/pause", Tags: []string{PauseImage}},
			image.Image{Binary: filepath.Join(programs, "workload"), Entrypoint: "/workload", Tags: []string{WorkloadImage}})
	})
}
