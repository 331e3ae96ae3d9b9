package cluster_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"attune.io/attune/test/cluster"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// A resize in place reaches the container's cgroup, and nothing restarts.
func TestResizeReachesTheCgroup(t *testing.T) {
	c, client := sharedCluster(t)
	pod := runPod(t, client, workload("resized", 10, 20))
	requireCgroup(t, c, pod, map[string]string{
		"cpu/cpu.shares":               "102",
		"cpu/cpu.cfs_quota_us":         "20000",
		"memory/memory.limit_in_bytes": fmt.Sprint(128 << 20),
	})

	resize(t, client, pod, sized("250m", "256Mi"))
	requireCgroup(t, c, pod, map[string]string{
		"cpu/cpu.shares":               "256",
		"cpu/cpu.cfs_quota_us":         "50000",
		"memory/memory.limit_in_bytes": fmt.Sprint(256 << 20),
	})
	resized, err := client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
	require.NoError(t, err)
	require.Zero(t, resized.Status.ContainerStatuses[0].RestartCount)
	require.Equal(t, pod.Status.ContainerStatuses[0].ContainerID, resized.Status.ContainerStatuses[0].ContainerID)
}

func resize(t *testing.T, client kubernetes.Interface, pod *corev1.Pod, to corev1.ResourceRequirements) {
	t.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{
		"containers": []map[string]any{{"name": "app", "resources": to}},
	}})
	require.NoError(t, err)
	_, err = client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "resize")
	require.NoError(t, err)
}

func requireCgroup(t *testing.T, c *cluster.Cluster, pod *corev1.Pod, want map[string]string) {
	t.Helper()
	eventually(t, 10*time.Second, func(context.Context) error {
		for path, value := range want {
			got, err := c.ReadCgroup(pod, "app", filepath.Dir(path), filepath.Base(path))
			if err != nil {
				return err
			}
			if got != value {
				return fmt.Errorf("%s is %s, want %s", path, got, value)
			}
		}
		return nil
	})
}

// A frozen pod accepts connections but answers none; a thawed one answers again.
func TestFreezeAndThaw(t *testing.T) {
	c, client := sharedCluster(t)
	pod := runPod(t, client, workload("frozen", 0, 5))
	url := "http://" + pod.Status.PodIP + ":8080/healthz"
	web := c.HTTPClient()
	web.Timeout = time.Second
	web.Transport.(*http.Transport).DisableKeepAlives = true

	require.NoError(t, answers(web, url))
	require.NoError(t, c.FreezePod(pod))
	require.Error(t, answers(web, url))
	require.NoError(t, c.ThawPod(pod))
	eventually(t, 5*time.Second, func(context.Context) error { return answers(web, url) })
}

func answers(client *http.Client, url string) error {
	response, err := client.Get(url)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

// Where the workload's memory is a child's, an OOM kill ends the child only.
func TestChildIsOOMKilledAlone(t *testing.T) {
	c, client := sharedCluster(t)
	pod := workload("with-child", 0, 20)
	pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "CHILD", Value: "1"})
	pod = runPod(t, client, pod)
	usage := func() int64 {
		var bytes int64
		file, err := c.ReadCgroup(pod, "app", "memory", "memory.usage_in_bytes")
		require.NoError(t, err)
		_, err = fmt.Sscan(file, &bytes)
		require.NoError(t, err)
		return bytes
	}
	eventually(t, 10*time.Second, func(context.Context) error {
		if usage() < 20<<20 {
			return fmt.Errorf("uses %d bytes only", usage())
		}
		return nil
	})
	require.NoError(t, answers(c.HTTPClient(), "http://"+pod.Status.PodIP+":8080/set?memory=300"))
	eventually(t, 20*time.Second, func(context.Context) error {
		control, err := c.ReadCgroup(pod, "app", "memory", "memory.oom_control")
		if err == nil && strings.Contains(control, "oom_kill 0") {
			return fmt.Errorf("no OOM kill yet: %s", control)
		}
		return err
	})
	after := awaitReady(t, client, pod.Namespace, pod.Name)
	require.Zero(t, after.Status.ContainerStatuses[0].RestartCount)
}

// An image made here runs on every node once it is loaded.
func TestLoadedImageRuns(t *testing.T) {
	c, client := sharedCluster(t)
	dir := t.TempDir()
	binary := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-o", binary, "../workload")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	archive := filepath.Join(dir, "image.tar")
	require.NoError(t, cluster.BuildImage(archive, binary, "/bin/thing", "local/thing:1", "local/thing:2"))
	require.NoError(t, c.Load(t.Context(), archive))
	for i := 1; i <= c.Nodes; i++ {
		pod := workload(fmt.Sprintf("loaded-%d", i), 0, 1)
		pod.Spec.Containers[0].Image = fmt.Sprintf("local/thing:%d", i)
		pod.Spec.NodeName = c.NodeName(i)
		runPod(t, client, pod)
	}
}

// Nothing gets out: the machine's own addresses are out of reach.
func TestNothingGetsOut(t *testing.T) {
	c, _ := sharedCluster(t)
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	require.NoError(t, err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addresses {
		network, ok := a.(*net.IPNet)
		if !ok || network.IP.To4() == nil {
			continue
		}
		_, err := c.Dial(t.Context(), "tcp4", net.JoinHostPort(network.IP.String(), port))
		require.Error(t, err, "%s was reached", network.IP)
	}
}
