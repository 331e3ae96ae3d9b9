package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTheLastLineSaysWhatBecameOfAllTests(t *testing.T) {
	ran := `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"pass","Package":"p","Test":"TestA/sub"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    main_test.go:42: a kubelet needs root: run as root\n"}
{"Action":"output","Package":"p","Test":"TestB","Output":"--- SKIP: TestB (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p","Test":"TestC"}
{"Action":"fail","Package":"p"}
{"Action":"output","Package":"r","Output":"FAIL r [build failed]\n"}
{"Action":"fail","Package":"r","FailedBuild":"r"}
`
	var x tally
	require.NoError(t, x.add(strings.NewReader(ran)))
	require.NoError(t, x.add(strings.NewReader(`{"Action":"pass","Package":"q","Test":"TestA"}`)))
	assert.Equal(t, "3 passed, 2 failed, 1 skipped; failed: TestC, r; skipped: TestB (a kubelet needs root: run as root)", x.line())
	assert.Equal(t, "0 passed, 0 failed, 0 skipped", (&tally{}).line())
	assert.ErrorContains(t, (&tally{}).add(strings.NewReader("ok p 0.1s\n")), "no line of go test -json")
}

func TestAFailedTestIsQuoted(t *testing.T) {
	said := `{"Action":"output","Package":"p","Test":"TestA/sub","Output":"    a_test.go:3: \n"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"        \tError Trace:\ta_test.go:3\n"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"        \tError:      \tNot equal: \n"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"        \t            \texpected: 1\n"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"        \tTest:       \tTestA/sub\n"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"        \tMessages:   \tthe operator lives\n"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"goroutine 1 [running]\n"}
{"Action":"fail","Package":"p","Test":"TestA/sub"}
{"Action":"fail","Package":"p","Test":"TestA"}
`
	var x tally
	require.NoError(t, x.add(strings.NewReader(said)))
	assert.Equal(t, []string{"TestA/sub failed:\n    Error:      \tNot equal:\n    expected: 1\n    Messages:   \tthe operator lives"}, x.complaints)
	for range 6 {
		said += said
	}
	x = tally{}
	require.NoError(t, x.add(strings.NewReader(strings.ReplaceAll(said, `{"Action":"fail"`, `{"Action":"cont"`)+`{"Action":"fail","Package":"p","Test":"TestA/sub"}`)))
	assert.Len(t, strings.Split(x.complaints[0], "\n"), 1+mostComplaints)
}

func TestSlowestTestsAreNamed(t *testing.T) {
	ran := `{"Action":"pass","Package":"attune.io/attune/p","Test":"TestA/sub","Elapsed":9}
{"Action":"pass","Package":"attune.io/attune/p","Test":"TestA","Elapsed":9.14}
{"Action":"fail","Package":"attune.io/attune/p","Test":"TestB","Elapsed":70}
{"Action":"pass","Package":"q","Test":"TestC","Elapsed":100}
{"Action":"output","Package":"q","Output":"ok  \tq\t(cached)\tcoverage: 80.0% of statements\n"}
{"Action":"pass","Package":"q","Elapsed":100}
`
	var x tally
	require.NoError(t, x.add(strings.NewReader(ran)))
	assert.Equal(t, []string{"Slowest tests (1 packages cached):", "      70.0s p.TestB", "       9.1s p.TestA"}, x.slowest())
	for range mostSlow {
		require.NoError(t, x.add(strings.NewReader(`{"Action":"pass","Package":"r","Test":"TestD","Elapsed":1}`)))
	}
	assert.Len(t, x.slowest(), 1+mostSlow)
}

func TestMinutesOfEachTierAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "seconds")
	minutes, err := readMinutes(file)
	require.NoError(t, err)
	assert.Empty(t, minutes)
	require.NoError(t, os.WriteFile(file, []byte("test-unit 90\ntest-e2e 1200\n"), 0o600))
	minutes, err = readMinutes(file)
	require.NoError(t, err)
	assert.Equal(t, []string{"Minutes: test-unit 1.5, test-e2e 20.0"}, minutes)
	require.NoError(t, os.WriteFile(file, []byte("test-unit\n"), 0o600))
	_, err = readMinutes(file)
	assert.ErrorContains(t, err, "is not a name and seconds")
}

func TestCoverageCountsStatementsOfTheProduct(t *testing.T) {
	folder := t.TempDir()
	covered, err := readCoverage(folder)
	require.NoError(t, err)
	assert.Empty(t, covered.lines())
	require.NoError(t, os.WriteFile(filepath.Join(folder, "product"), []byte("attune.io/attune/a\nattune.io/attune/a/b\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "unit.cover"), []byte(`mode: set
attune.io/attune/a/x.go:1.2,3.4 7 1
attune.io/attune/a/x.go:5.2,6.4 1 0
attune.io/attune/a/b/y.go:1.2,3.4 1 1
attune.io/attune/a/b/y.go:5.2,6.4 1 0
attune.io/attune/a/b/zz_generated.deepcopy.go:5.2,6.4 50 0
attune.io/attune/builders/z.go:5.2,6.4 50 0
`), 0o600))
	covered, err = readCoverage(folder)
	require.NoError(t, err)
	assert.Equal(t, []string{"Coverage: each package's own tests execute 80.0% of the product's statements. Below 60%: a/b 50%"}, covered.lines())
	require.NoError(t, os.WriteFile(filepath.Join(folder, "other.cover"), []byte("nonsense\n"), 0o600))
	_, err = readCoverage(folder)
	assert.ErrorContains(t, err, "is not a line of a coverage profile")
}
