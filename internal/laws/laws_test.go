// Package laws tests who imports whom (docs/architecture).
package laws

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const module = "attune.io/attune/"

type pkg struct {
	ImportPath string
	Standard   bool
	Imports    []string
	Deps       []string
}

// packages asks the go command. Results of tests are cached by the files that the test process looks at, so it looks at
// all sources: a new import is never judged by an old result.
func packages(t *testing.T) []pkg {
	t.Helper()
	require.NoError(t, filepath.WalkDir("../..", func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(entry.Name(), ".go") {
			_, err = entry.Info()
		}
		return err
	}))
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Imports,Deps", module+"...").Output()
	require.NoError(t, err)
	var all []pkg
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else {
			require.NoError(t, err)
		}
		all = append(all, p)
	}
}

// law forbids the packages below one folder to depend on what it names.
type law struct {
	within string
	// forbids is asked about every direct or indirect dependency.
	forbids func(from, dependency string, standard bool) bool
	because string
}

var laws = []law{
	{"recommender", func(_, d string, standard bool) bool { return !standard && !strings.HasPrefix(d, module+"recommender") },
		"the recommender imports the standard library only"},
	{"usage/codec", func(_, _ string, standard bool) bool { return !standard }, "histories are packed by pure code"},
	{"resize", client, "resize is pure: it holds no client"},
	{"resize/harm", func(from, d string, standard bool) bool { return client(from, d, standard) || d == module+"tuning" }, "harm is judged below tuning, by pure code"},
	{"tuning", client, "a pass is decided by pure code"},
	{"podview", func(from, d string, standard bool) bool { return client(from, d, standard) || d == module+"resize" }, "podview is below resize, and pure"},
	{"internal/policy", client, "settings are resolved by pure code; internal/lookup reads what they rest on"},
	{"internal/constraint", func(from, d string, standard bool) bool { return client(from, d, standard) || d == module+"resize" },
		"constraint is below resize and the webhook, and pure"},
	{"internal/workload", client, "owners are found by pure code"},
	{"ui", client, "pages are made of values by pure code"},
	{"internal/answers", client, "what the plugin and the page answer is computed by pure code"},
	{"internal/event", client, "events, and what the page shows over time, are kept as values"},
	{"cmd/kubectl-attune/vpaimport", func(from, d string, standard bool) bool {
		return client(from, d, standard) || strings.HasPrefix(d, "k8s.io/autoscaler")
	}, "VPAs are translated by pure code, and read without Go types"},
	{"cmd/kubectl-attune/terminal", client, "when something is written again is decided by pure code"},
	{"cmd/kubectl-attune/output", client, "answers are made of values"},
	{"cmd/kubectl-attune/input", client, "what users write is read by pure code"},
	{"cmd/kubectl-attune/wizard", client, "the wizard asks a person; what it knows of a cluster comes through an interface"},
	{"cmd/kubectl-attune/doctor", client, "the doctor judges values; its caller reads them"},
	{"controller", func(_, d string, _ bool) bool {
		return strings.HasPrefix(d, module+"webhook") || strings.HasPrefix(d, module+"bridge")
	}, "controller and webhook meet in the API objects, and the bridge is beside the loops"},
	{"webhook", func(_, d string, _ bool) bool {
		return strings.HasPrefix(d, module+"controller") || strings.HasPrefix(d, module+"bridge")
	}, "controller and webhook meet in the API objects"},
	{"bridge", func(_, d string, _ bool) bool { return strings.HasPrefix(d, module+"controller") },
		"the bridge says what the webhook would do, and knows nothing of the loops"},
	{"controller/policy", sibling, "loops never import their siblings"},
	{"controller/workload", sibling, "loops never import their siblings"},
	{"controller/node", sibling, "loops never import their siblings"},
	{"controller/usage", sibling, "loops never import their siblings"},
}

func client(_, d string, _ bool) bool {
	return strings.HasPrefix(d, "k8s.io/client-go") || strings.HasPrefix(d, "sigs.k8s.io/controller-runtime")
}

func sibling(from, d string, _ bool) bool {
	return strings.HasPrefix(d, module+"controller/") && d != from
}

func TestLaws(t *testing.T) {
	all := packages(t)
	standard := map[string]bool{}
	for _, p := range all {
		standard[p.ImportPath] = p.Standard
	}
	for _, l := range laws {
		t.Run(l.within, func(t *testing.T) {
			checked := 0
			for _, p := range all {
				if p.ImportPath != module+l.within && !strings.HasPrefix(p.ImportPath, module+l.within+"/") {
					continue
				}
				checked++
				for _, d := range p.Deps {
					if l.forbids(p.ImportPath, d, standard[d]) {
						t.Errorf("%s depends on %s: %s", p.ImportPath, d, l.because)
					}
				}
			}
			require.NotZero(t, checked, "the law is about no package")
		})
	}
}

// TestNothingIsLinkedThatNeverRuns: Prometheus's database brings the libraries of all clouds with it.
func TestNothingIsLinkedThatNeverRuns(t *testing.T) {
	var linked []string
	for _, p := range packages(t) {
		if p.ImportPath == module+"cmd/attune" || p.ImportPath == module+"cmd/kubectl-attune" {
			linked = append(linked, p.Deps...)
		}
	}
	require.Contains(t, linked, "github.com/prometheus/prometheus/promql")
	for _, of := range []string{
		"github.com/prometheus/prometheus/tsdb", "github.com/prometheus/prometheus/config", "github.com/prometheus/prometheus/discovery",
		"github.com/aws/aws-sdk-go-v2", "github.com/Azure/azure-sdk-for-go", "google.golang.org/grpc", "testing",
	} {
		for _, d := range linked {
			if d == of || strings.HasPrefix(d, of+"/") && of != "github.com/prometheus/prometheus/tsdb" {
				t.Errorf("a program has %s in it, which never runs", d)
			}
		}
	}
}

func TestNames(t *testing.T) {
	for _, p := range packages(t) {
		if !strings.HasPrefix(p.ImportPath, module) {
			continue
		}
		last := p.ImportPath[strings.LastIndex(p.ImportPath, "/")+1:]
		switch last {
		case "util", "utils", "helper", "helpers", "common", "manager", "impl":
			t.Errorf("%s: a package is named after what it is about", p.ImportPath)
		}
	}
}

// TestOneToolchain: every module pins the toolchain of the product, so that no part is built or tested with a Go that has
// known faults. The modules of test/cluster/modules, whose files are the keys of a cache, are built by the others' Go.
func TestOneToolchain(t *testing.T) {
	pinned := regexp.MustCompile(`(?m)^toolchain (go1\.\d+\.\d+)$`)
	of := func(path string) string {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		found := pinned.FindSubmatch(content)
		if found == nil {
			return ""
		}
		return string(found[1])
	}
	want := of("../../go.mod")
	require.NotEmpty(t, want)
	modules := 0
	require.NoError(t, filepath.WalkDir("../..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", ".cluster", "bin", "node_modules", "modules"}, entry.Name()):
			return fs.SkipDir
		case entry.Name() == "go.mod":
			modules++
			assert.Equal(t, want, of(path), "%s: write toolchain %s", path, want)
		}
		return nil
	}))
	assert.Greater(t, modules, 8)
}
