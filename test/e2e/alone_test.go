package e2e

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
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
	// before is done before the operator is installed; nil: nothing is.
	before func(context.Context, *cluster.Cluster) error
	// settings of the operator; nil: the test installs it.
	settings []string
}

// sharedCluster is a cluster beside the main one, with a process of its own. Its tests run there in the order of the names
// of their files.
type sharedCluster struct {
	name    string
	tests   []string
	install func() installation
}

// sharedClusters start together with the main one, the longest first.
var sharedClusters = []sharedCluster{
	{name: "upheavals", tests: []string{attacksTest, "TestFailover", "TestOutages", "TestRelease"}, install: attackedCluster},
	{name: "embedded", tests: []string{climbTest, "TestEmbedded"}, install: scraped},
	{name: "watched", tests: []string{someNamespacesTest}, install: emptyCluster},
	{name: "nodes", tests: []string{sharingTest}, install: shared},
}

// clusterOf returns the name of the cluster of a test: that of a shared one, or the test's own.
func clusterOf(test string) string {
	for _, c := range sharedClusters {
		if slices.Contains(c.tests, test) {
			return c.name
		}
	}
	return test
}

// installationOf returns what is installed for the cluster of this name; empty: the main one.
func installationOf(name string) installation {
	for _, c := range sharedClusters {
		if c.name == name {
			return c.install()
		}
	}
	switch name {
	case versionsTest:
		return twoVersions()
	case hostileTest, vpaTest:
		return spoiling()
	case upstreamTest:
		return upstream()
	case noResizeTest:
		return notServing()
	case overloadTest:
		return overload()
	case argoTest:
		return rolledOutByArgo()
	case kedaTest:
		return scaledByKEDA()
	case raisesTest:
		return climbed()
	}
	return mainCluster()
}

// aloneVariable is set for a process that has one of the shared clusters: to its name.
const aloneVariable = "ATTUNE_E2E_ALONE"

// only returns the name of this process's cluster; empty: the main one.
func only() string {
	switch {
	case *onRaises:
		return raisesTest
	case *onAttacks:
		return clusterOf(attacksTest)
	case *onArgo:
		return argoTest
	case *onKEDA:
		return kedaTest
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

// selected are those of some tests that -run names; all where it names none.
func selected(tests []string) ([]string, error) {
	wanted, err := regexp.Compile(strings.Split(flag.Lookup("test.run").Value.String(), "/")[0])
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(tests), func(name string) bool { return !wanted.MatchString(name) }), nil
}

// runOnlyItsOwn leaves out the tests that this process has no cluster for, unless it was told what to run. A
// process that was started by another one ends with it.
func runOnlyItsOwn() error {
	if os.Getenv(aloneVariable) != "" {
		go endWithParent()
	}
	if only() == "" {
		return nil
	}
	tests := []string{only()}
	for _, c := range sharedClusters {
		if c.name == only() {
			tests = c.tests
		}
	}
	tests, err := selected(tests)
	if err != nil {
		return err
	}
	for _, name := range tests {
		ends[name] = make(chan struct{})
	}
	if run := flag.Lookup("test.run"); run.Value.String() == "" {
		return run.Value.Set("^(" + strings.Join(tests, "|") + ")$")
	}
	return nil
}

// endWithParent ends this process, and its cluster with it, when nobody holds its standard input any more.
func endWithParent() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}

// attackedCluster is the cluster of the tests that take from the others what those need: the operator, its leader, its usage source.
func attackedCluster() installation {
	return installation{settings: bridging, before: installForeign, options: cluster.Options{
		Prometheus: true, CertManager: true, Backfill: past(append(attackHistories(), upheavalHistories...), shortPast), NodeCPU: "1900m", NodeMemory: "8Gi",
	}}
}

// alone runs a test in the cluster that it needs: in the process that has it, unless this is it.
func alone(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	cluster.Need(t)
	name := clusterOf(t.Name())
	if only() == name {
		if end := ends[t.Name()]; end != nil {
			t.Cleanup(func() { close(end) })
		}
		test(t)
		return
	}
	p := processes[name]
	require.NotNil(t, p, "nothing has started the cluster %q", name)
	t.Parallel()
	<-p.ended
	p.logged.Do(func() { t.Log(p.out.String()) })
	assert.NoError(t, p.err)
	assert.Contains(t, p.out.String(), "\n--- PASS: "+t.Name()+" ", "how it ended")
}

// ends has a channel for each test of this process's cluster, which is closed when the test has ended.
var ends = map[string]chan struct{}{}

// runsHere reports whether this process runs a test.
func runsHere(test string) bool {
	return ends[test] != nil
}

// process runs the tests of a shared cluster.
type process struct {
	out   bytes.Buffer
	ended chan struct{}
	// err is how it ended.
	err error
	// logged: the log has what it printed.
	logged sync.Once
}

// processes are those that this one has started, by the names of their clusters.
var processes = map[string]*process{}

// startSharedClusters starts the processes of the tests that are asked for, unless this process has one of the clusters.
func startSharedClusters() error {
	if only() != "" {
		return nil
	}
	limit, err := os.ReadFile(inotifyLimit)
	if err != nil {
		return err
	}
	instances, err := strconv.Atoi(strings.TrimSpace(string(limit)))
	if err != nil {
		return fmt.Errorf("%s: %w", inotifyLimit, err)
	}
	atOnce := len(sharedClusters)
	if instances < enoughInstances {
		fmt.Fprintf(os.Stderr, "e2e: the shared clusters run one after the other, since %s is %d: set it to %d\n", inotifyLimit, instances, enoughInstances)
		atOnce = 1
	}
	places := make(chan struct{}, atOnce)
	for _, c := range sharedClusters {
		tests, err := selected(c.tests)
		if err != nil {
			return err
		}
		if len(tests) == 0 {
			continue
		}
		if processes[c.name], err = begin(places, c.name, tests); err != nil {
			return err
		}
	}
	return nil
}

// inotifyLimit is how many inotify instances one user may have. A kubelet has five and an API server twelve; above the limit a
// kubelet does not start.
const (
	inotifyLimit    = "/proc/sys/fs/inotify/max_user_instances"
	enoughInstances = 512
)

// begin starts a process that ends with this one, once it has a place.
func begin(places chan struct{}, name string, tests []string) (*process, error) {
	p := &process{ended: make(chan struct{})}
	args := []string{"-test.run=^(" + strings.Join(tests, "|") + ")$", "-test.v", "-test.count=1", "-test.timeout=20m"}
	if *onOutage {
		args = append(args, "-test.timeout=60m", "-outage")
	}
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), aloneVariable+"="+name)
	cmd.Stdout, cmd.Stderr = &p.out, &p.out
	if _, err := cmd.StdinPipe(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		places <- struct{}{}
		defer func() { <-places }()
		p.err = cmd.Run()
	}()
	return p, nil
}
