// Command cluster starts and stops the local test cluster: a real Kubernetes
// on this machine that no traffic leaves.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"attune.io/attune/test/cluster"
)

const usage = `Usage: cluster VERB

  build      get all programs, without starting anything
  up         start the cluster; it stays until "down"
             [--nodes N] [--vm-nodes N] [--name NAME] [--version V] [--kubelet-version V] [--upstream] [--prometheus] [--cert-manager]
  status     say what runs
  load TAR   import an archive of images on every node
  find NAME  print where the program NAME is, such as helm
  ui         show the web page of the operator on 127.0.0.1 of this machine [--port N]
  down       stop the cluster and remove all of it

Each takes --dir DIR, the directory for bin/kubectl, bin/helm and bin/enter
(default: .cluster in the project).
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	verbs := map[string]func(context.Context, cluster.Options, []string) error{
		"build": build, "up": up, "status": status, "load": load, "find": find, "ui": ui, "down": down,
	}
	if len(args) == 0 || verbs[args[0]] == nil {
		fmt.Fprint(os.Stderr, usage)
		return errors.New("say what to do")
	}
	o := cluster.Options{Detach: true}
	flags := flag.NewFlagSet(args[0], flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage) }
	flags.IntVar(&o.Nodes, "nodes", 1, "")
	flags.IntVar(&o.VMNodes, "vm-nodes", 0, "")
	flags.StringVar(&o.Name, "name", "", "")
	flags.StringVar(&o.Version, "version", "", "")
	flags.StringVar(&o.KubeletVersion, "kubelet-version", "", "")
	flags.BoolVar(&o.Upstream, "upstream", false, "")
	flags.BoolVar(&o.Prometheus, "prometheus", false, "")
	flags.BoolVar(&o.CertManager, "cert-manager", false, "")
	flags.StringVar(&o.Dir, "dir", "", "")
	flags.IntVar(&port, "port", 0, "")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	var err error
	if o.Dir, err = directory(o.Dir); err != nil {
		return err
	}
	return verbs[args[0]](ctx, o, flags.Args())
}

// port of the web page on 127.0.0.1; 0: usualPort, or a free one where another checkout has that.
var port int

const usualPort = 8321

func directory(dir string) (string, error) {
	if dir != "" {
		return filepath.Abs(dir)
	}
	project, err := cluster.ProjectDir()
	return filepath.Join(project, ".cluster"), err
}

func build(ctx context.Context, o cluster.Options, _ []string) error {
	_, err := cluster.Build(ctx, o)
	return err
}

func up(ctx context.Context, o cluster.Options, _ []string) error {
	if c, err := cluster.Attach(o.Dir); err == nil {
		fmt.Printf("The cluster %s is already up.\n", c.Name)
		lookAround(o)
		return nil
	}
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return err
	}
	fmt.Printf("The cluster %s is up: %d node(s).\n", c.Name, c.Nodes)
	if o.Prometheus {
		fmt.Printf("Prometheus answers inside it at %s.\n", cluster.PrometheusURL)
	}
	lookAround(o)
	return nil
}

func lookAround(o cluster.Options) {
	bin := filepath.Join(o.Dir, "bin")
	if wd, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(wd, bin); err == nil && filepath.IsLocal(short) {
			bin = short
		}
	}
	fmt.Printf("Look around with:\n  %s/kubectl get pods -A\n  %[1]s/helm list -A\n  %[1]s/enter CMD...   (in the cluster's network)\nThe image %s is on every node.\n", bin, cluster.WorkloadImage)
}

func status(ctx context.Context, o cluster.Options, _ []string) error {
	c, err := cluster.Attach(o.Dir)
	if errors.Is(err, cluster.ErrNotRunning) {
		fmt.Println("The cluster is down.")
		return nil
	}
	if err != nil {
		return err
	}
	processes, err := c.Processes(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("The cluster %s is up: %d node(s). Logs: %s\n", c.Name, c.Nodes, c.Logs())
	for _, p := range processes {
		state := "runs"
		if p.Exited {
			state = fmt.Sprintf("ended with %d", p.Result)
		}
		fmt.Printf("  %-24s %s\n", p.Name, state)
	}
	return nil
}

func find(ctx context.Context, o cluster.Options, args []string) error {
	if len(args) != 1 {
		return errors.New("say which program to find: cluster find NAME")
	}
	tools, err := cluster.Build(ctx, o)
	if err != nil {
		return err
	}
	path, err := tools.Find(args[0])
	if err == nil {
		fmt.Println(path)
	}
	return err
}

func load(ctx context.Context, o cluster.Options, args []string) error {
	if len(args) != 1 {
		return errors.New("say which archive to load: cluster load TAR")
	}
	c, err := cluster.Attach(o.Dir)
	if err != nil {
		return fmt.Errorf("%w, start it with: cluster up", err)
	}
	return c.Load(ctx, args[0])
}

func down(_ context.Context, o cluster.Options, _ []string) error {
	if err := cluster.Down(o.Dir); err != nil {
		return err
	}
	fmt.Println("The cluster is down; nothing of it is left.")
	return nil
}

// ui runs kubectl attune ui inside the cluster, and hands on to it what comes to the same port of this machine: the
// cluster's network is its own.
func ui(ctx context.Context, o cluster.Options, _ []string) error {
	c, err := cluster.Attach(o.Dir)
	if err != nil {
		return err
	}
	listener, err := listen(ctx)
	if err != nil {
		return fmt.Errorf("%w: choose another port with --port", err)
	}
	address := listener.Addr().String()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	page := c.Command(ctx, filepath.Join(o.Dir, "bin", "kubectl-attune"), "ui", "--no-open", "--port", strconv.Itoa(listener.Addr().(*net.TCPAddr).Port))
	page.Stdout, page.Stderr = os.Stdout, os.Stderr
	if err := page.Start(); err != nil {
		_ = listener.Close()
		return fmt.Errorf("%w: make deploy puts the plugin there", err)
	}
	go func() { cancel(page.Wait()) }()
	err = c.Forward(ctx, listener, address)
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return errors.Join(err, fmt.Errorf("kubectl attune ui: %w", cause))
	}
	return err
}

// listen for the web page, on this machine alone.
func listen(ctx context.Context) (net.Listener, error) {
	on := func(port int) (net.Listener, error) {
		return (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	}
	if port != 0 {
		return on(port)
	}
	listener, err := on(usualPort)
	if errors.Is(err, syscall.EADDRINUSE) {
		return on(0)
	}
	return listener, err
}
