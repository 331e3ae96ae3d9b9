package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test's own program be the child that holds memory.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == childFlag {
		runChild(os.Stdin)
		return
	}
	os.Exit(m.Run())
}

func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func TestOwed(t *testing.T) {
	const ms = time.Millisecond
	tests := map[string]struct {
		elapsed, used time.Duration
		share         float64
		due           time.Duration
		forget        bool
	}{
		"nothing yet":         {0, 0, 0.5, 0, false},
		"on its mark":         {100 * ms, 50 * ms, 0.5, 0, false},
		"ahead":               {100 * ms, 60 * ms, 0.5, 0, false},
		"a little behind":     {100 * ms, 48 * ms, 0.5, 2 * ms, false},
		"a slice at most":     {100 * ms, 0, 0.5, slice, false},
		"a second is made up": {2000 * ms, 0, 0.5, slice, false},
		"more is forgotten":   {2002 * ms, 0, 0.5, slice, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			due, forget := owed(test.elapsed, test.used, test.share)
			require.Equal(t, test.due, due)
			require.Equal(t, test.forget, forget)
		})
	}
}

// However busy the machine is, a burner works, and never uses more than it was told.
func TestBurnsNoMoreThanRequested(t *testing.T) {
	var b burner
	before, began := cpuTime(t), time.Now()
	b.set(1200)
	defer b.set(0)
	require.Eventually(t, func() bool { return cpuTime(t)-before > 300*time.Millisecond }, time.Minute, slice)
	used, elapsed := cpuTime(t)-before, time.Since(began)
	most := time.Duration(1.2*float64(elapsed)) + 4*slice
	require.Less(t, used, most+most/10, "the test itself uses some, too")
}

func residentMiB(t *testing.T, pid string) int {
	t.Helper()
	statm, err := os.ReadFile("/proc/" + pid + "/statm")
	require.NoError(t, err)
	var size, resident int
	_, err = fmt.Sscan(string(statm), &size, &resident)
	require.NoError(t, err)
	return resident * os.Getpagesize() / mebibyte
}

func TestMemoryIsResidentAndReleased(t *testing.T) {
	var b ballast
	before := residentMiB(t, "self")
	require.NoError(t, b.set(100))
	require.InDelta(t, before+100, residentMiB(t, "self"), 10)
	require.NoError(t, b.set(10))
	require.InDelta(t, before+10, residentMiB(t, "self"), 10)
}

func children(t *testing.T) []string {
	t.Helper()
	tasks, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	var all []string
	for _, task := range tasks {
		data, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children") // the thread may have ended
		all = append(all, strings.Fields(string(data))...)
	}
	return all
}

func TestKilledChildIsReplaced(t *testing.T) {
	c := keepChild(t.Context())
	require.NoError(t, c.set(50))
	holds := func(but string) func() bool {
		return func() bool {
			all := children(t)
			return len(all) == 1 && all[0] != but && residentMiB(t, all[0]) >= 50
		}
	}
	require.Eventually(t, holds(""), 10*time.Second, 20*time.Millisecond)
	first := children(t)[0]
	var pid int
	_, err := fmt.Sscan(first, &pid)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	require.Eventually(t, holds(first), 10*time.Second, 20*time.Millisecond)
}

func TestSetChangesOnlyNamedFields(t *testing.T) {
	var b burner
	held, dir := &ballast{}, t.TempDir()
	server := httptest.NewServer(handler(&b, held, &file{dir: dir}))
	defer server.Close()
	for path, want := range map[string]int{
		"/healthz": 200, "/set?memory=3": 200, "/set?cpu=0": 200, "/set": 200, "/set?file=2": 200,
		"/set?memory=-1": 400, "/set?cpu=much": 400, "/set?file=big": 400,
	} {
		response, err := http.Get(server.URL + path)
		require.NoError(t, err)
		response.Body.Close()
		require.Equal(t, want, response.StatusCode, path)
	}
	require.Len(t, held.chunks, 3)
	info, err := os.Stat(filepath.Join(dir, "ballast"))
	require.NoError(t, err)
	require.EqualValues(t, 2*mebibyte, info.Size())
}

func TestFileNeedsAPlace(t *testing.T) {
	require.ErrorContains(t, (&file{}).set(1), "FILE_DIR")
}
