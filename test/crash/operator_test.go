package crash

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"attune.io/attune/certs"
)

// operator is the operator's process, and the next one after its death.
type operator struct {
	arguments, environment []string
	log                    *os.File

	mutex sync.Mutex
	cmd   *exec.Cmd
	// deaths counts the kills; over: it is not to be started again.
	deaths int
	over   bool
	// died, where set, looks around before there is a next one.
	died func()
}

// lifeline starts processes in a thread that lives as long as the tests: they die with it.
var lifeline = func() chan<- func() {
	starts := make(chan func())
	go func() {
		runtime.LockOSThread()
		for start := range starts {
			start()
		}
	}()
	return starts
}()

// newOperator talks to the API server at one address and asks for usage at the other.
func newOperator(t *testing.T, server, usage string) *operator {
	t.Helper()
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, current-context: c,
contexts: [{name: c, context: {cluster: c, user: c}}], users: [{name: c}], clusters: [{name: c, cluster: {server: %q}}]}`, server), 0o600))
	data, err := certs.Issue(time.Now(), certs.Replace, nil, []string{"localhost"})
	require.NoError(t, err)
	for name, content := range data {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	o := &operator{
		log:         log,
		environment: append(os.Environ(), "KUBECONFIG="+kubeconfig),
		arguments: []string{
			// One process leads at once: a lease would keep each next one waiting for its end, for 15 s.
			"--leader-elect=false", "--namespace=kube-system", "--cert-dir=" + dir, "--webhook-port=" + strconv.Itoa(freePort(t)),
			"--metrics-bind-address=0", "--health-probe-bind-address=0", "--log-level=debug",
			"--eviction", "--usage-source=prometheus", "--prometheus-address=" + usage, "--usage-interval=1s",
		},
	}
	t.Cleanup(func() {
		o.end()
		if t.Failed() {
			o.quote(t)
		}
	})
	return o
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (o *operator) start() error {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.over {
		return nil
	}
	o.cmd = exec.Command(program, o.arguments...)
	o.cmd.Env, o.cmd.Stdout, o.cmd.Stderr = o.environment, o.log, o.log
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	lifeline <- func() { started <- o.cmd.Start() }
	return <-started
}

// kill ends the process with SIGKILL; another one is started a moment later.
func (o *operator) kill() {
	if !o.stop() {
		return
	}
	if o.died != nil {
		o.died()
	}
	if err := o.start(); err != nil {
		panic("starting the operator again: " + err.Error())
	}
}

// stop ends the process with SIGKILL, and reports whether there was one.
func (o *operator) stop() bool {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if o.cmd == nil {
		return false
	}
	if err := o.cmd.Process.Kill(); err != nil {
		panic("killing the operator: " + err.Error())
	}
	_ = o.cmd.Wait() // It was killed, as asked.
	o.cmd = nil
	o.deaths++
	return true
}

func (o *operator) end() {
	o.mutex.Lock()
	o.over = true
	o.mutex.Unlock()
	o.stop()
	o.log.Close()
}

// quote shows the end of the log.
func (o *operator) quote(t *testing.T) {
	const most = 20_000
	raw, err := os.ReadFile(o.log.Name())
	require.NoError(t, err)
	t.Logf("the operator's log ends:\n%s", raw[max(0, len(raw)-most):])
}
