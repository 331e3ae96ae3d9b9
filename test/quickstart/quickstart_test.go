// Package quickstart does what docs/quickstart.md says, on a local cluster of its own: all commands of the page, in its
// order, and nothing else.
package quickstart

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/test/cluster"
)

// promised is how long all of it takes at most, where the cluster's programs are built.
const promised = 10 * time.Minute

// shown is what a command of the page must come to.
type shown struct {
	command string
	// says is in its output; empty: it only has to succeed. The command is repeated until it says it, for patience.
	says     string
	patience time.Duration
}

// page is what must be seen, in the page's order.
var page = []shown{
	{command: "make cluster-up", says: `is up: 1 node`},
	{command: "make deploy", says: `attune is ready`},
	{command: `export PATH="$PWD/.cluster/bin:$PATH"`},
	{command: "kubectl attune doctor", says: `(?m)^\S*webhook.*ok|ok.*webhook`},
	{command: "kubectl apply -f docs/quickstart/workload.yaml", says: `deployment.apps/web created`},
	{command: "kubectl apply -f docs/quickstart/policy.yaml", says: `attuneclusterpolicy.attune.io/everything created`},
	{command: "kubectl attune recommendations -n shop", says: `(?m)^shop\s+Deployment/web\s+app\s+300m\s+\d+m`, patience: 5 * time.Minute},
	{command: "kubectl attune explain deployment/web -n shop", says: `sized by policy AttuneClusterPolicy/everything`},
	{command: "kubectl get attunerecommendation deployment-web -n shop -o jsonpath='{.spec.containers[0].target.cpuRequest}'", says: `^\d+m$`},
	{command: "make ui"},
	{command: `kubectl patch attuneclusterpolicy everything --type merge -p '{"spec":{"namespaces":["shop"],"updateStrategy":{"type":"Auto"},"memory":{"allowDecrease":true}}}'`, says: `patched`},
	{command: "kubectl attune history -n shop", says: `web-`, patience: 5 * time.Minute},
	{command: "kubectl get pods -n shop -o custom-columns='NAME:.metadata.name,CPU:.spec.containers[0].resources.requests.cpu,RESTARTS:.status.containerStatuses[0].restartCount'", says: `^NAME.*\n(web-\S+\s+([1-9]|[1-9]\d|[12]\d\d)m\s+0\s*\n){2}$`, patience: 5 * time.Minute},
	{command: "kubectl attune undo deployment/web -n shop", says: `web`},
	{command: "kubectl get pods -n shop -o jsonpath='{.items[*].spec.containers[0].resources.requests.cpu}'", says: `^300m 300m$`, patience: 3 * time.Minute},
	{command: "kubectl attune resume deployment/web -n shop", says: `web`},
	{command: "make cluster-down"},
}

// commandsOf returns the commands in the shell blocks of a page, one a line.
func commandsOf(text string) (commands []string) {
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			commands = append(commands, strings.TrimSpace(line))
		}
	}
	return commands
}

// visitor is somebody with a shell in the project's folder.
type visitor struct {
	t       *testing.T
	project string
	// exported are the page's own exports, which its later commands have.
	exported []string
}

func (v *visitor) shell(ctx context.Context, command string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "bash", "-c", strings.Join(append(v.exported, command), "\n"))
	cmd.Dir = v.project
	return cmd
}

// run a command until it says what it has to.
func (v *visitor) run(of shown) string {
	v.t.Helper()
	began := time.Now()
	says := regexp.MustCompile(of.says)
	for {
		out, err := v.shell(v.t.Context(), of.command).CombinedOutput()
		if err == nil && says.Match(out) {
			v.t.Logf("%5.1fs  %s\n%s", time.Since(began).Seconds(), of.command, out)
			return string(out)
		}
		if time.Since(began) > of.patience {
			require.Failf(v.t, "a command of the page", "%s: %v, and it does not say %s:\n%s", of.command, err, of.says, out)
		}
		time.Sleep(time.Second)
	}
}

// see the page that make ui shows, which has the same number as the object says, and end it as Ctrl-C does. The number
// grows while the usage is young, so both are read until they agree.
func (v *visitor) see(command, path string, number func() string) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := v.shell(ctx, "exec "+command)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var told bytes.Buffer
	cmd.Stdout, cmd.Stderr = &told, &told
	require.NoError(v.t, cmd.Start())
	address := "http://127.0.0.1:8321" + path
	var seen, said, err = "", "", fmt.Errorf("never asked")
	for ctx.Err() == nil {
		if seen, err = get(ctx, address); err == nil {
			if said = number(); strings.Contains(seen, ">"+said+"<") {
				break
			}
		}
		time.Sleep(500 * time.Millisecond)
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
	_ = cmd.Wait()
	require.NoError(v.t, err, told.String())
	assert.Contains(v.t, seen, ">"+said+"<")
	assert.Contains(v.t, told.String(), "http://127.0.0.1:8321/ui/")
}

func get(ctx context.Context, address string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, body)
	}
	return string(body), err
}

// TestThePage: everything that the page says, in under ten minutes.
func TestThePage(t *testing.T) {
	cluster.Need(t)
	project, err := cluster.ProjectDir()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(project, "docs", "quickstart.md"))
	require.NoError(t, err)
	var expected []string
	for _, of := range page {
		expected = append(expected, of.command)
	}
	require.Equal(t, expected, commandsOf(string(text)), "each command of the page has something to be seen, in the page's order")
	_, err = cluster.Attach(filepath.Join(project, ".cluster"))
	require.ErrorIs(t, err, cluster.ErrNotRunning, "the page starts from nothing: run make cluster-down first")

	v := &visitor{t: t, project: project}
	t.Cleanup(func() {
		out, err := v.shell(context.Background(), "make cluster-down").CombinedOutput()
		assert.NoError(t, err, string(out))
	})
	began := time.Now()
	var target shown
	for _, of := range page {
		switch {
		case strings.HasPrefix(of.command, "export "):
			v.exported = append(v.exported, of.command)
		case of.command == "make ui":
			v.see(of.command, "/ui/ns/shop/Deployment/web", func() string { return v.run(target) })
		default:
			v.run(of)
			if strings.HasPrefix(of.command, "kubectl get attunerecommendation ") {
				target = of
			}
		}
	}
	took := time.Since(began).Round(time.Second)
	t.Logf("the whole page took %s", took)
	assert.Less(t, took, promised)
}
