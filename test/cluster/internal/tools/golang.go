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

// module is a directory and, where it is not go.mod, the file beside it that says what is required.
type module struct{ dir, file string }

func (b *builder) moduleDir(name string) string {
	return filepath.Join(b.source, "cluster/modules", name)
}

// linkerFlags of all programs leave out what only debuggers read.
const linkerFlags = "-s -w"

// module returns what builds all tools of the named module.
func (b *builder) module(name string) func(context.Context) (string, error) {
	return b.fromModule(name, b.buildTools)
}

// fromModule returns what makes something of the named module.
func (b *builder) fromModule(name string, make func(ctx context.Context, m module, out string) error) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		m := module{dir: b.moduleDir(name)}
		sum, err := digest([]string{m.dir}, linkerFlags)
		if err != nil {
			return "", err
		}
		return cached(filepath.Join(b.cache, "bin", name+"-"+sum), func(out string) error {
			return make(ctx, m, out)
		})
	}
}

// buildMain builds the program that a module is, under its name.
func (b *builder) buildMain(ctx context.Context, m module, out string) error {
	return b.build(ctx, m, linkerFlags, filepath.Join(out, filepath.Base(m.dir)), ".")
}

// buildTools builds all of a module's tools in one go: while one is linked the next is compiled.
func (b *builder) buildTools(ctx context.Context, m module, out string) error {
	list, err := b.golang(ctx, m, "list", "-f", "{{.ImportPath}}", "tool")
	if err != nil {
		return err
	}
	if err := b.build(ctx, m, linkerFlags, out+"/", strings.Fields(list)...); err != nil {
		return err
	}
	err = os.Rename(filepath.Join(out, "server"), filepath.Join(out, "etcd")) // its main package is called so
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// build programs of a module; the progress counts the packages that have to be compiled.
func (b *builder) build(ctx context.Context, m module, flags, out string, packages ...string) error {
	return b.progress.during("building "+strings.Join(names(m.dir, packages), " "), func(w *job) error {
		flags := []string{"-trimpath", "-ldflags", flags}
		if all, err := b.uncompiled(ctx, m, flags, packages); err == nil { // without it, less is told
			w.total.Store(int64(all))
		}
		args := append(append([]string{"build", "-v", "-o", out}, flags...), packages...)
		cmd := b.command(ctx, m, args...)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, io.MultiWriter(&said, w)
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), m.dir, err, said.String())
		}
		return nil
	})
}

// uncompiled counts the packages that are not in Go's build cache.
func (b *builder) uncompiled(ctx context.Context, m module, flags, packages []string) (int, error) {
	args := append([]string{"list", "-deps", "-f", `{{if and .Stale (ne .StaleReason "not installed but available in build cache")}}x{{end}}`}, flags...)
	text, err := b.golang(ctx, m, append(args, packages...)...)
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

func (b *builder) command(ctx context.Context, m module, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = m.dir
	flags := "-buildvcs=false"
	if m.file != "" {
		flags += " -modfile=" + m.file
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS="+flags, "GOWORK=off")
	cmd.Env = append(cmd.Env, Collecting()...)
	return cmd
}

// Collecting is the environment in which compilers collect garbage less often than by default: a fifth of their CPU time is saved.
// Above the limit they collect as often as they have to.
func Collecting() []string {
	var env []string
	for _, setting := range [][2]string{{"GOGC", "400"}, {"GOMEMLIMIT", "3GiB"}} {
		if os.Getenv(setting[0]) == "" {
			env = append(env, setting[0]+"="+setting[1])
		}
	}
	return env
}

func (b *builder) golang(ctx context.Context, m module, args ...string) (string, error) {
	cmd := b.command(ctx, m, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), m.dir, err, stderr.String())
	}
	return stdout.String(), nil
}

const certManagerPackage = "attune.io/attune/test/cluster/modules/certmanager"

// certManager builds its controllers and keeps its CRDs beside them.
func (b *builder) certManager(ctx context.Context) (string, error) {
	m := module{dir: b.moduleDir("certmanager")}
	sum, err := digest([]string{m.dir})
	if err != nil {
		return "", err
	}
	return cached(filepath.Join(b.cache, "bin", "certmanager-"+sum), func(out string) error {
		if err := b.build(ctx, m, linkerFlags, filepath.Join(out, "cert-manager"), certManagerPackage); err != nil {
			return err
		}
		found, err := b.golang(ctx, m, "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager")
		if err != nil {
			return err
		}
		return os.CopyFS(filepath.Join(out, "crds"), os.DirFS(filepath.Join(strings.TrimSpace(found), "deploy/crds")))
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
			if err := b.build(ctx, module{dir: b.source}, linkerFlags, filepath.Join(programs, name), pkg); err != nil {
				return err
			}
		}
		return image.Write(filepath.Join(out, "base.tar"),
			image.Image{Binary: filepath.Join(programs, "pause"), Entrypoint: "/pause", Tags: []string{PauseImage}},
			image.Image{Binary: filepath.Join(programs, "workload"), Entrypoint: "/workload", Tags: []string{WorkloadImage}})
	})
}
