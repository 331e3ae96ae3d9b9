package cluster_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"attune.io/attune/test/cluster"
)

var onVM = flag.Bool("vm", false, "run the tests that need a VM node, whose kernel takes minutes to build where it is not cached")

// vmLimit is for what takes a VM node seconds where the machine has nothing else to do.
const vmLimit = 3 * time.Minute

// A VM node has cgroup v2: resizes reach its files in place, an OOM kill is told, and the VM goes with its cluster.
func TestCgroupV2Node(t *testing.T) {
	if !*onVM {
		t.Skip("a VM node's kernel may have to be built first: -vm asks for it (make test-v2)")
	}
	skipWhereUnavailable(t)
	if reason := cluster.VMUnavailable(); reason != "" {
		t.Skip(reason)
	}
	name := fmt.Sprintf("v2-%d", os.Getpid())
	mounts := mountCount(t)
	c, err := cluster.Start(t.Context(), cluster.Options{Name: name, Nodes: 2, VMNodes: 1})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Stop())
		requireNothingOf(t, name)
		require.Equal(t, mounts, mountCount(t))
	})
	client := clientOf(t, c)
	requireAllocatable(t, client, c.NodeName(1), "1500m")
	requireAllocatable(t, client, c.NodeName(2), "1")

	pod := workload("app", 10, 40)
	pod.Spec.NodeName = c.NodeName(2)
	pod = runPodWithin(t, client, pod, vmLimit)
	requireCgroupFiles(t, c, pod, map[string]string{"cpu.max": "20000 100000", "cpu.weight": "4", "memory.max": fmt.Sprint(128 << 20)})
	for _, step := range []struct {
		cpu, memory string
		want        map[string]string
	}{
		{"200m", "192Mi", map[string]string{"cpu.max": "40000 100000", "cpu.weight": "8", "memory.max": fmt.Sprint(192 << 20)}},
		{"50m", "96Mi", map[string]string{"cpu.max": "10000 100000", "cpu.weight": "2", "memory.max": fmt.Sprint(96 << 20)}},
	} {
		resize(t, client, pod, sized(step.cpu, step.memory))
		requireCgroupFiles(t, c, pod, step.want)
	}
	require.Zero(t, appStatus(t, client, pod).RestartCount)

	require.NoError(t, c.FreezePod(pod))
	require.NoError(t, c.ThawPod(pod))
	eventually(t, vmLimit, func(context.Context) error {
		return answers(c.HTTPClient(), "http://"+pod.Status.PodIP+":8080/healthz")
	})

	_ = answers(c.HTTPClient(), "http://"+pod.Status.PodIP+":8080/set?memory=300") // it may be killed before it answers
	eventually(t, vmLimit, func(context.Context) error {
		last := appStatus(t, client, pod).LastTerminationState.Terminated
		if last == nil {
			return errors.New("no container has ended")
		}
		if last.Reason != "OOMKilled" || last.ExitCode != 137 {
			return fmt.Errorf("the container ended otherwise: %+v", last)
		}
		return nil
	})
}

// The harness runs on a machine that has cgroup v2 and nothing else: a VM, in which it makes a cluster of its own.
func TestCgroupV2Machine(t *testing.T) {
	if !*onVM {
		t.Skip("a VM's kernel may have to be built first: -vm asks for it (make test-v2)")
	}
	if reason := cluster.VMUnavailable(); reason != "" {
		t.Skip(reason)
	}
	program, err := os.Executable()
	require.NoError(t, err)
	env := append(os.Environ(), "TMPDIR="+t.TempDir(), "GLIBC_TUNABLES=glibc.pthread.rseq=0", cluster.RequireKubelet+"=1")
	output, code, err := cluster.Machine{Dir: t.TempDir(), MiB: 6144, Env: env}.Run(t.Context(), program, "-test.v", "-test.timeout=8m", "-test.run=^TestResizedHere$")
	require.NoError(t, err)
	t.Log(output)
	require.Zero(t, code)
	require.Contains(t, output, "--- PASS: TestResizedHere", "it was not skipped")
	require.Contains(t, output, "cgroup v2")
}

// TestResizedHere: on this machine, whatever version of cgroups it has, a pod is resized in place.
func TestResizedHere(t *testing.T) {
	skipWhereUnavailable(t)
	name := fmt.Sprintf("here-%d", os.Getpid())
	c, err := cluster.Start(t.Context(), cluster.Options{Name: name, NodeCPU: "800m"})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Stop())
		requireNothingOf(t, name)
	})
	client := clientOf(t, c)
	pod := runPodWithin(t, client, workload("app", 10, 40), vmLimit)
	resize(t, client, pod, sized("200m", "192Mi"))
	want := cluster.GrantOf(c.CgroupVersion(pod), 200, 400, 192<<20)
	requireGrant(t, c, pod, want)
	require.Zero(t, appStatus(t, client, pod).RestartCount)
	t.Logf("cgroup v%d: %v", want.Version, want)
}

func requireAllocatable(t *testing.T, client kubernetes.Interface, node, cpu string) {
	t.Helper()
	n, err := client.CoreV1().Nodes().Get(t.Context(), node, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, cpu, n.Status.Allocatable.Cpu().String(), node)
	require.Zero(t, n.Status.Allocatable.Memory().Cmp(resource.MustParse("3Gi")), "%s: %s", node, n.Status.Allocatable.Memory())
}

func appStatus(t *testing.T, client kubernetes.Interface, pod *corev1.Pod) corev1.ContainerStatus {
	t.Helper()
	now, err := client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Len(t, now.Status.ContainerStatuses, 1)
	return now.Status.ContainerStatuses[0]
}

// requireCgroupFiles: the files of the container say so. Each is named after its controller.
func requireCgroupFiles(t *testing.T, c *cluster.Cluster, pod *corev1.Pod, want map[string]string) {
	t.Helper()
	eventually(t, vmLimit, func(context.Context) error {
		for file, value := range want {
			controller, _, _ := strings.Cut(file, ".")
			got, err := c.ReadCgroup(pod, "app", controller, file)
			if err != nil {
				return err
			}
			if got != value {
				return fmt.Errorf("%s is %s, want %s", file, got, value)
			}
		}
		return nil
	})
}
