package e2e

import (
	"bytes"
	"flag"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"attune.io/attune/test/cluster"
)

// installation is a cluster with the operator in it.
type installation struct {
	options cluster.Options
	// reserved are the nodes that only pods which name them get to.
	reserved []int
	// settings of the operator.
	settings []string
}

// installationOf is that of the test of this name, or of all those that have none for themselves.
func installationOf(test string) installation {
	switch test {
	case "TestEmbedded":
		return scraped()
	case sharingTest:
		return shared()
	}
	return together()
}

// aloneVariable is set for a process whose cluster is that of one test: to its name.
const aloneVariable = "ATTUNE_E2E_ALONE"

// only is the test that this process has its cluster for; empty: all those that have none for themselves.
func only() string {
	if *nodeStrategy {
		return sharingTest
	}
	return os.Getenv(aloneVariable)
}

// runOnlyItsOwn leaves out the tests that this process has no cluster for, unless it was told what to run. A
// process that was started by another one ends with it.
func runOnlyItsOwn() error {
	if os.Getenv(aloneVariable) != "" {
		go endWithParent()
	}
	if run := flag.Lookup("test.run"); only() != "" && run.Value.String() == "" {
		return run.Value.Set("^" + only() + "$")
	}
	return nil
}

// endWithParent ends this process, and its cluster with it, when nobody holds its standard input any more.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

// alone runs a test in a cluster of its own: in a process of its own beside the other tests, unless this is it.
func alone(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	if reason := cluster.Unavailable(); reason != "" {
		t.Skip(reason)
	}
	if only() == t.Name() {
		test(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.count=1", "-test.timeout=20m")
	cmd.Env = append(os.Environ(), aloneVariable+"="+t.Name())
	_, err := cmd.StdinPipe() // it ends with this process
	require.NoError(t, err)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { t.Log(out.String()) })
	t.Parallel() // it goes on while the others that cannot be together have their turn
	require.NoError(t, cmd.Wait())
}
