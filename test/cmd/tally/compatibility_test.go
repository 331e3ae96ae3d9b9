package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const events = `{"Action":"run","Package":"e2e","Test":"TestA"}
{"Action":"run","Package":"e2e","Test":"TestA/part"}
{"Action":"fail","Package":"e2e","Test":"TestA/part"}
{"Action":"fail","Package":"e2e","Test":"TestA"}
{"Action":"pass","Package":"e2e","Test":"TestB"}
{"Action":"output","Package":"e2e","Test":"TestC","Output":"    a_test.go:1: needs 1.36"}
{"Action":"skip","Package":"e2e","Test":"TestC"}
{"Action":"fail","Package":"e2e"}
`

// TestCompatibility: the newest run of a pair of versions is in the table, and runs of other pairs stay in it.
func TestCompatibility(t *testing.T) {
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	require.NoError(t, os.WriteFile(in("page.md"), []byte("before\n"+begin+"old\n"+end+"after\n"), 0o600))
	require.NoError(t, os.WriteFile(in("record.yaml"), []byte(`
- {server: v1.34, kubelets: v1.34, date: "2026-01-01", passed: 9, failed: 0, skipped: 0}
- {server: v1.37, kubelets: v1.36, date: "2026-01-01", passed: 1, failed: 0, skipped: 0}
- {server: v1.36, kubelets: v1.36, date: "2027-01-01", passed: 7, failed: 0, skipped: 0}
`), 0o600))
	for _, name := range []string{"e2e.json", "e2e-v1.37:v1.36.json"} {
		require.NoError(t, os.WriteFile(in(name), []byte(events), 0o600))
		day := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
		require.NoError(t, os.Chtimes(in(name), day, day))
	}
	for range 2 { // the second time nothing changes
		require.NoError(t, compatibility(folder, "v1.36", in("record.yaml"), in("page.md")))
		page, err := os.ReadFile(in("page.md"))
		require.NoError(t, err)
		assert.Equal(t, "before\n"+begin+`| API server | kubelets | stories passed | failed | skipped | run on |
|---|---|---|---|---|---|
| v1.34 | v1.34 | 9 | 0 | 0 | 2026-01-01 |
| v1.36 | v1.36 | 7 | 0 | 0 | 2027-01-01 |
| v1.37 | v1.36 | 1 | 1 | 1 | 2026-11-28 |
`+end+"after\n", string(page))
	}
	require.NoError(t, os.WriteFile(in("e2e.json"), []byte(`{"Action":"start","Package":"e2e"}`), 0o600))
	require.ErrorContains(t, compatibility(folder, "v1.36", in("record.yaml"), in("page.md")), "has no test")
}

// TestTheTableIsThatOfTheRecord: the table of the page is the one that make compatibility writes.
func TestTheTableIsThatOfTheRecord(t *testing.T) {
	page, err := os.ReadFile("../../../docs/compatibility.md")
	require.NoError(t, err)
	runs, err := readRuns("../../e2e/testdata/matrix.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, runs)
	assert.Contains(t, string(page), begin+table(sorted(runs))+end)
}
