// Package cluster runs a real Kubernetes on this machine for tests and demos:
// etcd, the control plane, and nodes with containerd and kubelets, each cluster
// in Linux namespaces of its own. All clusters have the same addresses and any
// number of them run side by side; no traffic leaves them.
//
//	c, err := cluster.Start(ctx, cluster.Options{Nodes: 2})
//	defer c.Stop()
//	cfg, err := c.RESTConfig()
//	client, err := kubernetes.NewForConfig(cfg)
//
// It needs root and a Linux with cgroup v1 or v2: see [Unavailable]. The last nodes may
// be VMs, which have cgroup v2: see [Options].VMNodes.
package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"attune.io/attune/test/cluster/internal/inside"
	"attune.io/attune/test/cluster/internal/spec"
	"attune.io/attune/test/cluster/internal/state"
	"attune.io/attune/test/cluster/internal/tools"
)

// Tools says where the programs of a cluster are.
type Tools = tools.Tools

// Build gets all programs a cluster needs, from the cache or by building them;
// Start does so too.
func Build(ctx context.Context, o Options) (Tools, error) {
	o, err := o.withDefaults()
	if err != nil {
		return Tools{}, err
	}
	return tools.Build(ctx, o.wanted(), o.Progress)
}

// ProjectDir is the root of the project that the working directory is in.
func ProjectDir() (string, error) { return tools.ProjectDir() }

// CompilerEnv is what the compilers of the project's programs have in their environment.
func CompilerEnv() []string { return tools.Collecting() }

// Cluster is a running cluster. Its methods may be called concurrently.
type Cluster struct {
	// Name is the cluster's name.
	Name string
	// Kubeconfig is the administrator's; it is of use inside the cluster only.
	Kubeconfig string
	// Facts are what another process must know to attach.
	Facts
	dir       string        // of the cluster itself
	artifacts string        // where the logs go in the end
	lifeline  *os.File      // the cluster dies when it ends, unless it was let go
	netns     *os.File      // the control plane's network namespace
	ended     chan struct{} // closed when the first process, if it is our child, has ended
}

// Facts about a cluster, which do not change while it runs.
type Facts struct {
	Nodes   int    `json:"nodes"`
	VMNodes int    `json:"vmNodes"` // the last ones
	PID     int    `json:"pid"`     // of the first process, as this machine counts
	Tools   Tools  `json:"tools"`
	Dir     string `json:"dir"` // Options.Dir
}

const (
	// startLimit is for many nodes on a machine with other work; an idle one takes seconds.
	startLimit = 5 * time.Minute
	stopLimit  = 60 * time.Second
)

// Start starts a cluster and returns when pods can be created. It first removes
// what clusters that died left behind. An error leaves nothing running and
// says where the logs are.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if reason := o.unavailable(); reason != "" {
		return nil, errors.New(reason)
	}
	t, err := tools.Build(ctx, o.wanted(), o.Progress)
	if err != nil {
		return nil, err
	}
	dir, lock, err := claim(o.Name)
	if err != nil {
		return nil, err
	}
	c := &Cluster{Name: o.Name, dir: dir, artifacts: o.Artifacts}
	c.Facts = Facts{Nodes: o.Nodes, VMNodes: o.VMNodes, Tools: t, Dir: o.Dir}
	c.Kubeconfig = filepath.Join(dir, "pki", "admin.conf")
	err = c.launch(o, lock)
	lock.Close() // from here on the cluster's first process holds it alone
	if err == nil {
		err = c.complete(ctx, o)
	}
	if ctx.Err() != nil {
		// Nobody wants to know why a start that was called off did not succeed.
		return nil, errors.Join(ctx.Err(), c.Stop())
	}
	if err != nil {
		return nil, c.fail(err)
	}
	return c, nil
}

// claim sweeps away dead clusters and takes the name for a new one.
func claim(name string) (string, *os.File, error) {
	base, err := baseDir()
	if err != nil {
		return "", nil, err
	}
	guard, err := state.Guard(base)
	if err != nil {
		return "", nil, err
	}
	defer guard.Close()
	if err := state.Sweep(base); err != nil {
		return "", nil, fmt.Errorf("removing what dead clusters left: %w", err)
	}
	dir := filepath.Join(base, name)
	lock, err := state.Lock(dir)
	if err != nil {
		return "", nil, fmt.Errorf("starting cluster %s, use another name or stop it: %w", name, err)
	}
	return dir, lock, nil
}

// baseDir holds a directory for each cluster.
func baseDir() (string, error) {
	cache, err := tools.Cache()
	if err != nil {
		return "", err
	}
	for _, hidden := range []string{"/run/", "/var/lib/", "/var/log/"} {
		if strings.HasPrefix(cache+"/", hidden) {
			return "", fmt.Errorf("the cache %s is not visible on the nodes, which have a %s of their own: set ATTUNE_CACHE to another directory", cache, hidden)
		}
	}
	return filepath.Join(cache, "clusters"), nil
}

// launch writes the cluster's files and starts its first process, which starts the rest.
func (c *Cluster) launch(o Options, lock *os.File) error {
	x := components{options: o, tools: c.Tools, dir: c.dir}
	if err := x.write(); err != nil {
		return err
	}
	description, err := x.describe()
	if err != nil {
		return err
	}
	if err := description.Write(); err != nil {
		return err
	}
	return c.startFirst(lock)
}

// complete returns once everything asked for is there.
func (c *Cluster) complete(ctx context.Context, o Options) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := c.awaitNodes(ctx); err != nil {
		return err
	}
	if o.Prometheus {
		if err := c.backfill(ctx, o.Backfill); err != nil {
			return err
		}
		if err := c.StartPrometheus(ctx); err != nil {
			return err
		}
	}
	if o.CertManager {
		if err := c.StartCertManager(ctx); err != nil {
			return err
		}
	}
	if err := c.leave(o.Dir); err != nil {
		return err
	}
	if o.Detach {
		return c.letGo()
	}
	return nil
}

// letGo lets the cluster outlive us. Until here it would have died with us, so
// that an interrupted start leaves nothing.
func (c *Cluster) letGo() error {
	_, err := c.lifeline.Write([]byte{1})
	return err
}

// startFirst starts the cluster's first process, which takes the lock with it
// and the reading end of a pipe that ends when we do.
func (c *Cluster) startFirst(lock *os.File) error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	c.lifeline = write
	log, err := os.Create(filepath.Join(c.dir, "log", "cluster.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(inside.Self)
	cmd.Args = []string{inside.OuterRole, c.dir}
	cmd.Env = c.Tools.Env(filepath.Join(c.dir, "home"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{lock, read}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: inside.Namespaces, Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the cluster's first process: %w", err)
	}
	c.PID = cmd.Process.Pid
	c.ended = make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(c.ended)
	}()
	if err := c.openNetwork(); err != nil {
		return err
	}
	return c.writeFacts()
}

func (c *Cluster) openNetwork() (err error) {
	c.netns, err = os.Open(fmt.Sprintf("/proc/%d/ns/net", c.PID))
	return err
}

func (c *Cluster) writeFacts() error {
	data, err := json.Marshal(c.Facts)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(c.dir, "cluster.json"), data, 0o600)
}

// ErrNotRunning says that there is no cluster where one was looked for.
var ErrNotRunning = errors.New("no cluster is running")

// Attach finds the running cluster that was started with Options.Dir dir.
func Attach(dir string) (*Cluster, error) {
	target, err := os.Readlink(filepath.Join(dir, stateLink))
	if err != nil || !state.Alive(target) {
		return nil, fmt.Errorf("%w in %s", ErrNotRunning, dir)
	}
	data, err := os.ReadFile(filepath.Join(target, "cluster.json"))
	if err != nil {
		return nil, err
	}
	c := &Cluster{Name: filepath.Base(target), dir: target, Kubeconfig: filepath.Join(target, "pki", "admin.conf")}
	if err := json.Unmarshal(data, &c.Facts); err != nil {
		return nil, err
	}
	if !c.leftIn(dir) {
		return nil, fmt.Errorf("%w in %s: what is there is a copy of %s", ErrNotRunning, dir, c.Dir)
	}
	return c, c.openNetwork()
}

// leftIn reports whether the cluster was started with Options.Dir dir. A directory that was moved is still that one, and a copy is not.
func (c *Cluster) leftIn(dir string) bool {
	own, err := os.Stat(c.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	this, wrong := os.Stat(dir)
	return err == nil && wrong == nil && os.SameFile(own, this)
}

// Stop ends the cluster and removes all of it: processes, mounts, cgroups and
// files. The logs are kept if Options.Artifacts said where. Stopping twice is fine.
func (c *Cluster) Stop() error {
	kept := c.keepLogs(c.artifacts)
	if c.netns != nil {
		c.netns.Close()
	}
	if c.PID != 0 && state.Alive(c.dir) {
		_ = syscall.Kill(c.PID, syscall.SIGKILL) // the kernel ends all the others
	}
	if c.ended != nil {
		<-c.ended
	}
	if c.lifeline != nil {
		c.lifeline.Close()
	}
	if err := state.WaitDead(c.dir, c.PID, stopLimit); err != nil {
		return err
	}
	if err := state.Remove(c.Name, c.dir); err != nil {
		return err
	}
	if c.Dir != "" {
		if err := removeDir(c.Dir); err != nil {
			return err
		}
	}
	return kept
}

// removeDir removes dir with all that is in it. A dir that is a mount point, as in a container or a VM whose disk
// is elsewhere, stays as an empty one.
func removeDir(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, syscall.EBUSY) {
		return err
	}
	if left, unread := os.ReadDir(dir); unread != nil || len(left) > 0 {
		return err
	}
	return nil
}

// Down stops the cluster that was started with Options.Dir dir, also what is left of one that died, and removes dir. It touches
// no other cluster.
func Down(dir string) error {
	c, err := Attach(dir)
	if err == nil {
		return errors.Join(c.Stop(), removeDir(dir))
	}
	if !errors.Is(err, ErrNotRunning) {
		return err
	}
	base, err := baseDir()
	if err != nil {
		return err
	}
	guard, err := state.Guard(base)
	if err != nil {
		return err
	}
	defer guard.Close()
	left, err := os.Readlink(filepath.Join(dir, stateLink))
	if err != nil || filepath.Dir(left) != base {
		return removeDir(dir)
	}
	return errors.Join(state.SweepOne(left), removeDir(dir))
}

// Logs is the directory with a log of every process, while the cluster is there.
func (c *Cluster) Logs() string { return filepath.Join(c.dir, "log") }

func (c *Cluster) keepLogs(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.CopyFS(dir, os.DirFS(c.Logs()))
}

// fail stops what has been started and says why and where the logs are.
func (c *Cluster) fail(cause error) error {
	c.artifacts = filepath.Join(os.TempDir(), "attune-cluster-logs", c.Name)
	if err := c.Stop(); err != nil {
		cause = errors.Join(cause, err)
	}
	return fmt.Errorf("the cluster did not come up, its logs are in %s: %w", c.artifacts, cause)
}

// isVM reports whether node i is one.
func (c *Cluster) isVM(i int) bool { return i > c.Nodes-c.VMNodes }

// NodeName is the name of node i; nodes count from 1.
func (c *Cluster) NodeName(i int) string { return spec.NodeName(i) }
