package inside

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"attune.io/attune/test/await"
	"attune.io/attune/test/cluster/internal/spec"
	"attune.io/attune/test/cluster/internal/state"
	"golang.org/x/sys/unix"
)

// runNode is pid 1 of a node. Its own mounts let every node use the default
// paths and ports of kubelet, containerd and kube-proxy.
func runNode(args []string) error {
	c, err := spec.Read(args[0])
	if err != nil {
		return err
	}
	i, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	n := c.Nodes[i-1]
	if err := nodeMounts(n); err != nil {
		return err
	}
	_ = unix.Sethostname([]byte(spec.NodeName(i)))
	if err := nodeNetwork(i, nodeLinkName); err != nil {
		return err
	}
	if err := makeCgroups(spec.CgroupRoot(c.Name, i)); err != nil {
		return err
	}
	s := newSupervisor(c.Dir, c.Env)
	if err := serveControl(c.Path(spec.NodeName(i)), s); err != nil {
		return err
	}
	if err := startNodeProcesses(c, n, s); err != nil {
		return err
	}
	logf("%s: everything is started", spec.NodeName(i))
	select {}
}

func startNodeProcesses(c spec.Cluster, n spec.Node, s *supervisor) error {
	if _, err := s.start(n.Runtime, 0); err != nil {
		return err
	}
	for _, p := range n.Import {
		if err := untilItSucceeds(s, p, patience); err != nil {
			return err
		}
	}
	if err := waitForAPI(c.Dir, patience); err != nil {
		return err
	}
	for _, p := range n.Then {
		if _, err := s.start(p, 0); err != nil {
			return err
		}
	}
	return nil
}

// untilItSucceeds repeats a process whose first failures mean "not ready yet".
func untilItSucceeds(s *supervisor, p spec.Process, limit time.Duration) error {
	return await.Until(context.Background(), p.Name, limit, 50*time.Millisecond, func(context.Context) error { return s.run(p) })
}

// nodeMounts gives the node private directories where several nodes would
// otherwise write into one another's, and hides what is the host's alone.
func nodeMounts(n spec.Node) error {
	if err := prepareMounts(); err != nil {
		return err
	}
	// Containers' mounts must reach the kubelet and containerd both.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("sharing mounts within the node: %w", err)
	}
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mounting /run: %w", err)
	}
	for target, source := range n.Binds {
		if err := unix.Mount(source, target, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("binding %s over %s: %w", source, target, err)
		}
	}
	return nil
}

// makeCgroups makes the node's root cgroup in every hierarchy: the kubelet
// wants it there before it starts, and a cpuset is unusable until it has cpus.
func makeCgroups(root string) error {
	if state.Unified() {
		return makeCgroupV2(root)
	}
	controllers, err := filepath.Glob(state.CgroupDir + "/*")
	if err != nil {
		return err
	}
	for _, dir := range controllers {
		if err := os.MkdirAll(filepath.Join(dir, root), 0o755); err != nil {
			return fmt.Errorf("making the node's cgroup: %w", err)
		}
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		if err := copyFile(filepath.Join(state.CgroupDir, "cpuset", file), filepath.Join(state.CgroupDir, "cpuset", root, file)); err != nil {
			return fmt.Errorf("preparing the node's cpuset: %w", err)
		}
	}
	return nil
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}
