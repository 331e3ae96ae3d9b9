package e2e

import (
	"bytes"
	"context"
	"flag"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/test/cluster"
)

// installation is a cluster with the operator in it.
type installation struct {
	options cluster.Options
	// reserved are the nodes that only pods which name them get to.
	reserved []int
	// watched are namespaces that are there before the operator is.
	watched []string
	// before is done before the operator is installed; nil: nothing is.
	before func(context.Context, *cluster.Cluster) error
	// settings of the operator.
	settings []string
}

// installationOf is that of the test or tests of this name, or of all those that have none for themselves.
func installationOf(name string) installation {
	switch name {
	case "TestEmbedded":
		return scraped()
	case versionsTest:
		return twoVersions()
	case hostileTest, vpaTest:
		return spoiling()
	case upstreamTest:
		return upstream()
	case noResizeTest:
		return notServing()
	case attacksTest:
		return attacked()
	case someNamespacesTest:
		return watching()
	case sharingTest:
		return shared()
	case overloadTest:
		return overload()
	case argoTest:
		return rolledOutByArgo()
	case climbTest:
		return climbed()
	case upheavalsTogether:
		return takenAway()
	}
	return together()
}

// aloneVariable is set for a process whose cluster is that of one test, or of the upheavals: to its name.
const aloneVariable = "ATTUNE_E2E_ALONE"

// only is what this process has its cluster for; empty: all those that have none for themselves.
func only() string {
	switch {
	case *onArgo:
		return argoTest
	case *onOverload:
		return overloadTest
	case *onUpstream:
		return upstreamTest
	case *onVM:
		return versionsTest
	case *onVPA:
		return vpaTest
	case *onHostile:
		return hostileTest
	case *onNoResize:
		return noResizeTest
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

// upheavals are the tests that take from the others what those need: the operator, its leader, its usage source. They
// have a cluster among themselves, and in it their turns.
var upheavals = []string{"TestFailover", "TestOutages", "TestRelease"}

const upheavalsTogether = "upheavals"

// takenAway is the cluster of the upheavals.
func takenAway() installation {
	return installation{settings: bridging, before: installForeign, options: cluster.Options{
		Prometheus: true, CertManager: true, Backfill: past(upheavalHistories, shortPast), NodeCPU: "1900m", NodeMemory: "8Gi",
	}}
}

// alone runs a test in a cluster of its own: in a process of its own beside the other tests, unless this is it.
func alone(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	elsewhere(t, t.Name(), test, func() (*process, error) { return begin(t.Name(), t.Name()) })
}

// upheaval runs a test in the cluster of the upheavals: in the one process that has it.
func upheaval(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	elsewhere(t, upheavalsTogether, test, upheavalsBegun)
}

var upheavalsBegun = sync.OnceValues(func() (*process, error) {
	wanted, err := regexp.Compile(strings.Split(flag.Lookup("test.run").Value.String(), "/")[0])
	if err != nil {
		return nil, err
	}
	return begin(upheavalsTogether, slices.DeleteFunc(slices.Clone(upheavals), func(name string) bool { return !wanted.MatchString(name) })...)
})

// elsewhere runs a test in the process that has the cluster for it, beside the other tests, unless this is it.
func elsewhere(t *testing.T, whose string, test func(t *testing.T), begun func() (*process, error)) {
	t.Helper()
	cluster.Need(t)
	if only() == whose {
		test(t)
		return
	}
	p, err := begun()
	require.NoError(t, err)
	t.Parallel() // it goes on while the others have their turns
	<-p.ended
	p.told.Do(func() { t.Log(p.out.String()) })
	assert.NoError(t, p.err)
	assert.Contains(t, p.out.String(), "\n--- PASS: "+t.Name()+" ", "how it ended")
}

// process runs tests in a cluster of their own.
type process struct {
	out   bytes.Buffer
	ended chan struct{}
	// err is how it ended.
	err error
	// told: the log has what it printed.
	told sync.Once
}

// clusters are those of other processes that there may be at a time, beside this one's: the machine may be small.
var clusters = make(chan struct{}, 2)

// begin starts a process that ends with this one, in its turn.
func begin(whose string, tests ...string) (*process, error) {
	p := &process{ended: make(chan struct{})}
	run := "-test.run=^(" + strings.Join(tests, "|") + ")$"
	cmd := exec.Command(os.Args[0], run, "-test.v", "-test.count=1", "-test.timeout=20m")
	cmd.Env = append(os.Environ(), aloneVariable+"="+whose)
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		clusters <- struct{}{}
		defer func() { <-clusters }()
		p.err = cmd.Run()
	}()
	return p, nil
}
