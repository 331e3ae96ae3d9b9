// Package e2e proves attune on a real kubelet: which pods changed to what, and
// what must not change.
package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/test/cluster"
	"attune.io/attune/test/deploy"
)

// env is what every test works with: one cluster with the operator installed.
var env struct {
	cluster *cluster.Cluster
	client  client.Client
	plugin  string
	built   *deploy.Built
}

// settings of the operator: its source is asked every 2 s, since tests wait for what follows. It may evict pods,
// which no policy asks for but those of TestEviction.
var settings = []string{"usage.interval=2s", "logLevel=debug", "node.eviction.enabled=true"}

// bridging are these with the bridge to what reads VerticalPodAutoscalers.
var bridging = append(slices.Clone(settings), "bridge.vpa=true")

func TestMain(m *testing.M) {
	flag.Parse()
	for _, prepare := range []func() error{waitTogether, runOnlyItsOwn} {
		if err := prepare(); err != nil {
			fmt.Fprintln(os.Stderr, "e2e:", err)
			os.Exit(1)
		}
	}
	if reason := cluster.Unavailable(); reason != "" {
		// Each test reports itself as skipped, by name, with the reason.
		os.Exit(m.Run())
	}
	code, err := withCluster(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

// storiesAtOnce is how many stories run at once: more than there are processors, since what they do is wait.
const storiesAtOnce = 8

// turns are taken by the stories of this process's cluster.
var turns = make(chan struct{}, storiesAtOnce)

// waitTogether lets all tests wait at once: for a turn, for the others, for the process of a shared cluster. Turns alone
// bound how many run. If go test did that, the parallel parts of a story would queue behind stories that have not begun,
// and keep its turn meanwhile. With -parallel, there are so many turns.
func waitTogether() error {
	const all = 1000
	flag.Visit(func(f *flag.Flag) {
		if f.Name == "test.parallel" {
			turns = make(chan struct{}, max(1, f.Value.(flag.Getter).Get().(int)))
		}
	})
	return flag.Set("test.parallel", strconv.Itoa(all))
}

func withCluster(m *testing.M) (int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "attune-e2e-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	staticPods = filepath.Join(dir, "static-pods")
	if err := os.Mkdir(staticPods, 0o755); err != nil {
		return 1, err
	}
	install := installationOf(only())
	install.options.Artifacts = os.Getenv("ATTUNE_ARTIFACTS")
	if err := recordRights(dir, &install.options); err != nil {
		return 1, err
	}
	if env.built, err = builtOnce(ctx, dir); err != nil {
		return 1, err
	}
	env.plugin = env.built.Plugin
	if err := startSharedClusters(); err != nil {
		return 1, err
	}
	c, err := cluster.Start(ctx, install.options)
	if err != nil {
		return 1, err
	}
	defer c.Stop()
	env.cluster = c
	if env.client, err = newClient(c); err != nil {
		return 1, err
	}
	if err := reserveNodes(ctx, install.reserved...); err != nil {
		return 1, err
	}
	if install.before != nil {
		if err := install.before(ctx, c); err != nil {
			return 1, err
		}
	}
	if install.settings != nil {
		if err := deploy.Operator(ctx, c, deploy.Options{Set: install.settings, Built: env.built}); err != nil {
			return 1, err
		}
	}
	shown := meters()
	code := m.Run()
	if err := errors.Join(shown.stop(), recordGrants()); err != nil || code != 0 || !wholeRun() {
		return code, err
	}
	return code, errors.Join(judgeRights(), judgeMeters())
}

// builtVariable has the programs for the processes of the shared clusters, as JSON.
const builtVariable = "ATTUNE_E2E_BUILT"

// builtOnce builds the programs, unless the process that started this one has built them.
func builtOnce(ctx context.Context, dir string) (*deploy.Built, error) {
	built := &deploy.Built{}
	if text := os.Getenv(builtVariable); text != "" {
		return built, json.Unmarshal([]byte(text), built)
	}
	built, err := deploy.Build(ctx, dir)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(built)
	if err != nil {
		return nil, err
	}
	return built, os.Setenv(builtVariable, string(text))
}

// mainCluster is for all tests but those of the shared clusters.
func mainCluster() installation {
	install := installation{settings: append(slices.Clone(bridging), "hpa.retarget=true"), before: installForeign, options: cluster.Options{
		Nodes: nodes, Prometheus: true, CertManager: true, Backfill: backfill(), NodeCPU: "1900m", NodeMemory: "8Gi",
		KubeletConfig: configureKubelet,
	}}
	for i := smallNode; i <= nodes; i++ {
		install.reserved = append(install.reserved, i)
	}
	return install
}

func init() { ctrl.SetLogger(logr.Discard()) } // or controller-runtime complains of its absence

func newClient(c *cluster.Cluster) (client.Client, error) {
	config, err := c.RESTConfig()
	if err != nil {
		return nil, err
	}
	config.WarningHandlerWithContext = rest.NoWarnings{}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, workload.AddArgoToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// longest are the stories that take more than four minutes. They take their turns before the others, so that no turn is
// empty while one of them ends alone.
var longest = []string{
	"TestAStarvedContainerIsRaisedAtOnce", "TestClusterPolicy", "TestRestartingResize", "TestABirthThatCrashes", "TestLittleRoom", "TestOneShot",
}

// begun are the longest stories: their turns come before those of all others.
var begun sync.WaitGroup

// need skips a test by name where no kubelet can run, and runs it beside the others in its turn otherwise.
func need(t *testing.T) context.Context {
	t.Helper()
	cluster.Need(t)
	long := slices.Contains(longest, t.Name())
	others.Add(1) // all tests get here before the first one goes on
	t.Cleanup(others.Done)
	if long {
		begun.Add(1)
	}
	t.Parallel()
	if !long {
		begun.Wait()
	}
	takeTurn(t)
	if long {
		begun.Done()
	}
	return t.Context()
}

func takeTurn(t *testing.T) {
	t.Helper()
	turns <- struct{}{}
	t.Cleanup(func() { <-turns })
}

// others are the tests that call need.
var others sync.WaitGroup

// needLast is need for a test that measures how long something takes: it begins when the others have ended.
func needLast(t *testing.T) context.Context {
	t.Helper()
	cluster.Need(t)
	t.Parallel()
	others.Wait()
	takeTurn(t)
	return t.Context()
}
