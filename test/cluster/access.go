package cluster

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"attune.io/attune/test/cluster/internal/inside"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// RESTConfig lets clients in this process reach the API server as
// cluster-admin, without limits on their own rate.
func (c *Cluster) RESTConfig() (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return nil, err
	}
	cfg.Dial = c.Dial
	cfg.Proxy = noProxy
	cfg.QPS, cfg.Burst = -1, -1
	return cfg, nil
}

// HTTPClient reaches what listens inside the cluster: nodes, pods, Services' endpoints and Prometheus.
func (c *Cluster) HTTPClient() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: c.Dial, Proxy: nil}, Timeout: 30 * time.Second}
}

func noProxy(*http.Request) (*url.URL, error) { return nil, nil }

// Dial connects to an address inside the cluster, which must be a literal one:
// there are no names. The connection works from any thread.
func (c *Cluster) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := dialIn(ctx, c.netns, network, address)
	if err != nil {
		return nil, fmt.Errorf("in the network of cluster %s: %w", c.Name, err)
	}
	return conn, nil
}

// DialerOf connects as a running container of a pod would, from the pod's own address. It is to be closed.
func (c *Cluster) DialerOf(pod *corev1.Pod, container string) (*PodDialer, error) {
	processes, err := c.ReadCgroup(pod, container, "memory", "cgroup.procs")
	if err != nil {
		return nil, err
	}
	first, _, _ := strings.Cut(processes, "\n")
	netns, err := os.Open(filepath.Join("/proc", first, "ns", "net"))
	if err != nil {
		return nil, err
	}
	return &PodDialer{netns}, nil
}

// PodDialer connects from a pod.
type PodDialer struct{ netns *os.File }

// Dial connects to a literal address.
func (d *PodDialer) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	return dialIn(ctx, d.netns, network, address)
}

// Close it.
func (d *PodDialer) Close() error { return d.netns.Close() }

// Listen listens at a literal address of the control plane's, which API server, nodes and pods reach.
func (c *Cluster) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return inNetwork(c.netns, func() (net.Listener, error) { return (&net.ListenConfig{}).Listen(ctx, network, address) })
}

// dialIn a network namespace.
func dialIn(ctx context.Context, netns *os.File, network, address string) (net.Conn, error) {
	// A single address is dialled on the goroutine that asks for it.
	return inNetwork(netns, func() (net.Conn, error) { return (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address) })
}

// inNetwork opens a socket in a network namespace, where it stays.
func inNetwork[T any](netns *os.File, open func() (T, error)) (socket T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		// Never unlocked: Go throws the thread away with its foreign namespace.
		runtime.LockOSThread()
		if err = unix.Setns(int(netns.Fd()), unix.CLONE_NEWNET); err != nil {
			err = fmt.Errorf("entering the network namespace: %w", err)
			return
		}
		socket, err = open()
	}()
	<-done
	return socket, err
}

// Command prepares to run a program, by default one of the cluster's own
// (kubectl, helm …), in the cluster's network and with its kubeconfig. Files
// are seen as this process sees them.
func (c *Cluster) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return c.nsenter(ctx, c.PID, []string{"--net"}, name, args)
}

// NodeCommand prepares to run a program in the network and with the mounts of
// node i, for example ctr. Its working directory is the root. On a VM node it
// begins when its input has ended, and its output comes when it has.
func (c *Cluster) NodeCommand(ctx context.Context, i int, name string, args ...string) (*exec.Cmd, error) {
	if c.isVM(i) {
		return c.vmCommand(ctx, i, name, args), nil
	}
	pid, err := c.nodePID(ctx, i)
	if err != nil {
		return nil, err
	}
	return c.nsenter(ctx, pid, []string{"--net", "--mount"}, name, args), nil
}

func (c *Cluster) nsenter(ctx context.Context, pid int, namespaces []string, name string, args []string) *exec.Cmd {
	all := append([]string{"-t", fmt.Sprint(pid)}, namespaces...)
	all = append(append(all, "--", c.program(name)), args...)
	cmd := exec.CommandContext(ctx, "nsenter", all...)
	cmd.Env = append(c.Tools.Env(c.dir+"/home"), "KUBECONFIG="+c.Kubeconfig)
	return cmd
}

// vmCommand is this very program, which has pid 1 of the VM run the command.
func (c *Cluster) vmCommand(ctx context.Context, i int, name string, args []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, inside.Self)
	network := fmt.Sprintf("/proc/%d/ns/net", c.PID)
	cmd.Args = append([]string{inside.VMExecRole, network, fmt.Sprint(i), c.program(name)}, args...)
	cmd.Env = append(c.Tools.Env(c.dir+"/home"), "KUBECONFIG="+c.Kubeconfig)
	return cmd
}

// program is the path of the named program, if it is known.
func (c *Cluster) program(name string) string {
	if path, err := c.Tools.Find(name); err == nil {
		return path
	}
	return name
}
