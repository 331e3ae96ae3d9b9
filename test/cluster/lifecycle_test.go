package cluster_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"attune.io/attune/test/cluster"
)

// Two clusters with the same addresses run at the same time, and neither
// sees the other.
func TestSideBySide(t *testing.T) {
	first, firstClient := sharedCluster(t)
	second, err := cluster.Start(t.Context(), cluster.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, second.Stop()) })
	secondClient := clientOf(t, second)

	runPod(t, firstClient, workload("only-first", 0, 1))
	runPod(t, secondClient, workload("only-second", 0, 1))
	_, err = firstClient.CoreV1().Pods("default").Get(t.Context(), "only-second", metav1.GetOptions{})
	require.Error(t, err)
	_, err = secondClient.CoreV1().Pods("default").Get(t.Context(), "only-first", metav1.GetOptions{})
	require.Error(t, err)

	// The first one's credentials over the second one's network: same address, another cluster.
	cfg, err := first.RESTConfig()
	require.NoError(t, err)
	cfg.Dial = second.Dial
	mixed, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	_, err = mixed.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.ErrorContains(t, err, "certificate")
}

// A node that loses power is found out, and the others go on.
func TestKillNode(t *testing.T) {
	skipWhereUnavailable(t)
	t.Parallel()
	c, err := cluster.Start(t.Context(), cluster.Options{Nodes: 2})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	client := clientOf(t, c)
	require.NoError(t, c.KillNode(2))
	eventually(t, 30*time.Second, func(ctx context.Context) error {
		node, err := client.CoreV1().Nodes().Get(ctx, c.NodeName(2), metav1.GetOptions{})
		if err == nil && len(node.Spec.Taints) == 0 {
			err = errors.New("node2 still counts as ready")
		}
		return err
	})
	runPod(t, client, workload("after", 0, 1))
}

// The options reach the components: a node greater than the machine, another
// configuration of its kubelet, and a plugin of the API server's less.
func TestOptions(t *testing.T) {
	skipWhereUnavailable(t)
	t.Parallel()
	c, err := cluster.Start(t.Context(), cluster.Options{
		NodeCPU: "1200m", NodeMemory: "48Gi",
		APIServerArgs: []string{"--disable-admission-plugins=PodResizeValidator"},
		KubeletConfig: func(_ int, config map[string]any) { config["maxPods"] = 7 },
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Stop()) })
	client := clientOf(t, c)
	node, err := client.CoreV1().Nodes().Get(t.Context(), c.NodeName(1), metav1.GetOptions{})
	require.NoError(t, err)
	allocatable := node.Status.Allocatable
	require.Equal(t, "1200m", allocatable.Cpu().String())
	require.Equal(t, int64(48<<30), allocatable.Memory().Value())
	require.Equal(t, int64(7), allocatable.Pods().Value())

	// What no node can hold is refused at admission by that plugin; without it the kubelet puts it off.
	pod := runPod(t, client, workload("greedy", 0, 1))
	resize(t, client, pod, sized("1300m", "128Mi"))
	eventually(t, 10*time.Second, func(ctx context.Context) error {
		pod, err := client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodResizePending && condition.Reason == corev1.PodReasonDeferred {
				return nil
			}
		}
		return fmt.Errorf("the resize is not deferred: %v", pod.Status.Conditions)
	})
}

// A detached cluster is found again, serves scripts that work from anywhere,
// and goes away whole.
func TestDetached(t *testing.T) {
	skipWhereUnavailable(t)
	t.Parallel()
	dir := filepath.Join(t.TempDir(), ".cluster")
	name := fmt.Sprintf("detached-%d", os.Getpid())
	started, err := cluster.Start(t.Context(), cluster.Options{Name: name, Dir: dir, Detach: true})
	require.NoError(t, err)
	t.Cleanup(func() { _ = cluster.Down(dir) })

	attached, err := cluster.Attach(dir)
	require.NoError(t, err)
	require.Equal(t, started.Facts, attached.Facts)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pod.yaml"), []byte(
		"{apiVersion: v1, kind: ConfigMap, metadata: {name: from-file}}"), 0o600))
	for _, command := range [][]string{{"kubectl", "create", "-f", "pod.yaml"}, {"helm", "list"}, {"enter", "kubectl", "get", "configmap", "from-file"}} {
		cmd := exec.Command(filepath.Join(dir, "bin", command[0]), command[1:]...)
		cmd.Dir = dir
		output, err := cmd.CombinedOutput()
		require.NoError(t, err, "%v: %s", command, output)
	}

	require.NoError(t, cluster.Down(dir))
	requireNothingOf(t, name)
	require.NoDirExists(t, dir)
	_, err = cluster.Attach(dir)
	require.ErrorIs(t, err, cluster.ErrNotRunning)
}

// ownerVariable tells a copy of this test to own a cluster of that name.
const ownerVariable = "ATTUNE_TEST_OWN_CLUSTER"

// ownACluster starts a cluster, says its first process' pid and waits to be killed.
func ownACluster(name string) {
	c, err := cluster.Start(context.Background(), cluster.Options{Name: name})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(c.PID)
	select {}
}

// startOwner starts a process that owns the named cluster.
func startOwner(t *testing.T, name string) (owner *os.Process, first int) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), ownerVariable+"="+name)
	cmd.Stderr = os.Stderr
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(output).ReadString('\n')
	require.NoError(t, err, "the owner did not get its cluster up")
	first, err = strconv.Atoi(strings.TrimSpace(line))
	require.NoError(t, err)
	return cmd.Process, first
}

// A cluster whose owner is killed cleans up after itself.
func TestKilledOwnerLeavesNothing(t *testing.T) {
	skipWhereUnavailable(t)
	t.Parallel()
	name := fmt.Sprintf("orphan-%d", os.Getpid())
	mounts := mountCount(t)
	owner, _ := startOwner(t, name)
	require.NoError(t, owner.Kill())
	eventually(t, 20*time.Second, func(context.Context) error { return leftOf(name) })
	require.Equal(t, mounts, mountCount(t))
}

// Where the cluster's first process is killed as well, the next start cleans up. Any start would, so no
// other test runs beside this one.
func TestNextStartSweeps(t *testing.T) {
	skipWhereUnavailable(t)
	name := fmt.Sprintf("dead-%d", os.Getpid())
	mounts := mountCount(t)
	owner, first := startOwner(t, name)
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	require.NoError(t, owner.Kill())
	eventually(t, 20*time.Second, func(context.Context) error {
		if syscall.Kill(first, 0) == nil {
			return errors.New("the first process is still ending")
		}
		return nil
	})
	require.Error(t, leftOf(name), "there is nothing to sweep, so this test tests nothing")

	next, err := cluster.Start(t.Context(), cluster.Options{Name: "after-" + name})
	require.NoError(t, err)
	requireNothingOf(t, name)
	require.NoError(t, next.Stop())
	requireNothingOf(t, "after-"+name)
	require.Equal(t, mounts, mountCount(t))
}

func requireNothingOf(t *testing.T, name string) {
	t.Helper()
	require.NoError(t, leftOf(name))
}

// leftOf says what there still is of the named cluster: directory, cgroups or processes.
func leftOf(name string) error {
	cache := os.Getenv("ATTUNE_CACHE")
	if cache == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return err
		}
		cache = filepath.Join(home, "attune")
	}
	dir := filepath.Join(cache, "clusters", name)
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("%s is still there", dir)
	}
	for _, pattern := range []string{"/sys/fs/cgroup/*/e2e-", "/sys/fs/cgroup/e2e-"} { // cgroup v1, v2
		if groups, _ := filepath.Glob(pattern + name + "-n*"); len(groups) > 0 {
			return fmt.Errorf("%v are still there", groups)
		}
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, p := range processes {
		line, _ := os.ReadFile(p) // gone in the meantime
		if strings.Contains(string(line), dir+"/") || strings.Contains(string(line), dir+"\x00") {
			return fmt.Errorf("%s still runs: %q", filepath.Dir(p), line)
		}
	}
	return nil
}

func mountCount(t *testing.T) int {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	require.NoError(t, err)
	return strings.Count(string(mounts), "\n")
}
