package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	_ "attune.io/attune/controller/policy"
	_ "attune.io/attune/internal/trim"
	_ "attune.io/attune/internal/workload"
	_ "attune.io/attune/recommender"
	_ "attune.io/attune/recommender/node"
	_ "attune.io/attune/resize"
	_ "attune.io/attune/tuning"
	_ "attune.io/attune/usage/history"
	_ "attune.io/attune/usage/prometheus"
	_ "attune.io/attune/webhook/pod"
)

// root is the project's own module.
const root = "../.."

// What one benchmark allocates and keeps does not depend on the machine, so it is held to its ceiling. The packages are
// imported above, so that a cached result of this test ends with each change of their code.
func TestAllocationsDoNotGrow(t *testing.T) {
	ceilings, err := readCeilings(ceilingsText)
	require.NoError(t, err)
	require.NotEmpty(t, ceilings)
	programs := buildBenchmarks(t, ceilings)
	measured := map[string]result{}
	for _, c := range ceilings {
		// Two ceilings of one benchmark are of one run.
		run := fmt.Sprint(c.pkg, c.name, c.times)
		r, found := measured[run]
		if !found {
			r = runBenchmark(t, programs, c)
			measured[run] = r
		}
		value, reported := r.values[c.unit]
		require.True(t, reported, "%s reports no %s", c.name, c.unit)
		t.Logf("%s: %s %s, at most %s", c.name, number(value), c.unit, number(c.most))
		assert.LessOrEqual(t, value, c.most, "%s takes more %s than ceilings.txt allows", c.name, c.unit)
	}
}

// buildBenchmarks builds the test programs of all packages with ceilings at once, and returns their folder.
func buildBenchmarks(t *testing.T, ceilings []ceiling) string {
	t.Helper()
	folder := t.TempDir()
	args := []string{"test", "-c", "-ldflags", "-s -w", "-o", folder + "/"}
	for i, c := range ceilings {
		if i == 0 || c.pkg != ceilings[i-1].pkg {
			args = append(args, "./"+c.pkg)
		}
	}
	os.Getenv("ATTUNE_INPUTS") // the digest of what is read outside of this module, so that Go's test cache sees a change
	build := exec.CommandContext(t.Context(), "go", args...)
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return folder
}

// runBenchmark runs the one benchmark of a ceiling.
func runBenchmark(t *testing.T, programs string, c ceiling) result {
	t.Helper()
	var pattern []string
	for _, part := range strings.Split(c.name, "/") {
		pattern = append(pattern, "^"+strings.ReplaceAll(part, " ", "_")+"$")
	}
	run := exec.CommandContext(t.Context(), filepath.Join(programs, path.Base(c.pkg)+".test"), "-test.run", "^$", "-test.benchmem",
		"-test.bench", "^Benchmark"+strings.Join(pattern, "/")[1:], "-test.benchtime", fmt.Sprintf("%dx", c.times))
	run.Dir = filepath.Join(root, c.pkg)
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	results := parseAll(string(out))
	require.Len(t, results, 1, "%s is one benchmark of %s\n%s", c.name, c.pkg, out)
	return results[0]
}

func TestParse(t *testing.T) {
	r, ok := parse("BenchmarkPass/1000_containers-2 \t       3\t 151235257 ns/op\t    161028 cpu-ns/workload\t54582050 B/op\t 1203814 allocs/op")
	require.True(t, ok)
	assert.Equal(t, "Pass/1000 containers", r.name)
	assert.Equal(t, []string{"ns/op", "cpu-ns/workload", "B/op", "allocs/op"}, r.units)
	assert.InDelta(t, 161028, r.values["cpu-ns/workload"], 0)
	for _, line := range []string{"", "PASS", "ok  \tattune.io/attune/resize\t5.304s", "BenchmarkPass/1000_containers-2", "--- BENCH: BenchmarkX-2"} {
		_, ok := parse(line)
		assert.False(t, ok, line)
	}
}

func TestTables(t *testing.T) {
	results := parseAll("BenchmarkIngest-2 \t 100\t 300 ns/op\t 77 B/op\t 0 allocs/op\nBenchmarkOdd-2 \t 100\t 3.25 ns/op\n")
	var out strings.Builder
	show(&out, results, []ceiling{{name: "Ingest", most: 1, unit: "allocs/op", promise: "120 ns"}})
	assert.Equal(t, `benchmark  ns/op  B/op  allocs/op  and  held to      promised at most
Ingest     300    77    0               1 allocs/op  120 ns
Odd        3.2                                       
`, out.String())
	out.Reset()
	compare(&out, parseAll("BenchmarkIngest/attune-2 \t 100\t 300 ns/op\nBenchmarkIngest/vpa-2 \t 100\t 1200 ns/op\n"))
	assert.Equal(t, `
the same work  unit   attune  VPA   VPA : attune
Ingest         ns/op  300     1200  4
`, out.String())
}

func TestCeilingsNameWhatIsWrong(t *testing.T) {
	_, err := readCeilings("# a comment\n\na | b | 1")
	require.ErrorIs(t, err, errColumns)
	require.ErrorContains(t, err, "ceilings.txt:3")
	_, err = ceilingOf(strings.Split("a | b | often | 1 allocs/op | ", "|"))
	require.Error(t, err)
	_, err = goTest(context.Background(), &strings.Builder{}, root, "test", "-bench", ".", "./nothing")
	require.ErrorContains(t, err, "nothing")
}
