package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"attune.io/attune/test/cluster"
)

// A resize in place reaches the container's cgroup, and nothing restarts.
func TestResizeReachesTheCgroup(t *testing.T) {
	c, client := sharedCluster(t)
	pod := runPod(t, client, workload("resized", 10, 20))
	requireGrant(t, c, pod, cluster.GrantOf(c.CgroupVersion(pod), 100, 200, 128<<20))

	resize(t, client, pod, sized("250m", "256Mi"))
	requireGrant(t, c, pod, cluster.GrantOf(c.CgroupVersion(pod), 250, 500, 256<<20))
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

func requireGrant(t *testing.T, c *cluster.Cluster, pod *corev1.Pod, want cluster.Grant) {
	t.Helper()
	eventually(t, 10*time.Second, func(context.Context) error {
		got, err := c.Grant(pod, "app")
		if err == nil && got != want {
			err = fmt.Errorf("its cgroup has %v, want %v", got, want)
		}
		return err
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

// Where the workload's memory is a child's, an OOM kill ends the child only, but for cgroup v2: there the kubelet has the
// kernel kill all of the container (memory.oom.group).
func TestChildIsOOMKilled(t *testing.T) {
	c, client := sharedCluster(t)
	pod := workload("with-child", 0, 20)
	pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{Name: "CHILD", Value: "1"})
	pod = runPod(t, client, pod)
	eventually(t, 10*time.Second, func(context.Context) error {
		bytes, err := c.MemoryUsage(pod, "app")
		if err == nil && bytes < 20<<20 {
			err = fmt.Errorf("uses %d bytes only", bytes)
		}
		return err
	})
	killed := answers(c.HTTPClient(), "http://"+pod.Status.PodIP+":8080/set?memory=300")
	if c.CgroupVersion(pod) == 2 {
		eventually(t, 20*time.Second, func(context.Context) error {
			if last := appStatus(t, client, pod).LastTerminationState.Terminated; last == nil || last.ExitCode != 137 {
				return fmt.Errorf("the container has not been killed: %+v", last)
			}
			return nil
		})
		return
	}
	require.NoError(t, killed)
	eventually(t, 20*time.Second, func(context.Context) error {
		kills, err := c.OOMKills(pod, "app")
		if err == nil && kills == 0 {
			err = errors.New("no OOM kill yet")
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
	require.NoError(t, cluster.BuildImage(archive, binary, "/bin/thing", nil, "local/thing:1", "local/thing:2"))
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
