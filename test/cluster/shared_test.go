package cluster_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"attune.io/attune/test/await"
	"attune.io/attune/test/cluster"
)

// shared is one cluster for all tests that do not harm it. It dies with the
// test process.
var shared = sync.OnceValues(func() (c *cluster.Cluster, err error) {
	c, err = cluster.Start(context.Background(), cluster.Options{
		Nodes:       2,
		Prometheus:  true,
		Backfill:    []cluster.Series{yesterday},
		CertManager: true,
	})
	if err == nil {
		stopShared = c.Stop
	}
	return c, err
})

// stopShared is set once the shared cluster was started.
var stopShared = func() error { return nil }

func TestMain(m *testing.M) {
	if os.Getenv(ownerVariable) != "" {
		ownACluster(os.Getenv(ownerVariable))
		return
	}
	code := m.Run()
	if err := stopShared(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func skipWhereUnavailable(t *testing.T) {
	t.Helper()
	cluster.Need(t)
}

func sharedCluster(t *testing.T) (*cluster.Cluster, kubernetes.Interface) {
	t.Helper()
	skipWhereUnavailable(t)
	c, err := shared()
	require.NoError(t, err)
	return c, clientOf(t, c)
}

func clientOf(t *testing.T, c *cluster.Cluster) kubernetes.Interface {
	t.Helper()
	cfg, err := c.RESTConfig()
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(cfg)
	require.NoError(t, err)
	return client
}

// eventually fails the test if check still fails when limit is over.
func eventually(t *testing.T, limit time.Duration, check func(context.Context) error) {
	t.Helper()
	require.NoError(t, await.Until(t.Context(), "it holds", limit, 50*time.Millisecond, check))
}

// workload is a pod of the workload image that uses what it is told to.
func workload(name string, millicores, mib int) *corev1.Pod {
	env := []corev1.EnvVar{
		{Name: "CPU_MILLICORES", Value: fmt.Sprint(millicores)},
		{Name: "MEMORY_MIB", Value: fmt.Sprint(mib)},
	}
	health := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(8080)}}
	grace := int64(1)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers: []corev1.Container{{
				Name:            "app",
				Image:           cluster.WorkloadImage,
				ImagePullPolicy: corev1.PullNever,
				Env:             env,
				Resources:       sized("100m", "128Mi"),
				ReadinessProbe:  &corev1.Probe{ProbeHandler: health, PeriodSeconds: 1},
			}},
		},
	}
}

// sized is requests of that size and limits of twice the CPU and the same memory.
func sized(cpu, memory string) corev1.ResourceRequirements {
	limit := resource.MustParse(cpu)
	limit.Add(limit)
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: limit, corev1.ResourceMemory: resource.MustParse(memory)},
	}
}

// runPod creates the pod, waits until it is ready, and deletes it after the test.
func runPod(t *testing.T, client kubernetes.Interface, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	return runPodWithin(t, client, pod, 30*time.Second)
}

func runPodWithin(t *testing.T, client kubernetes.Interface, pod *corev1.Pod, limit time.Duration) *corev1.Pod {
	t.Helper()
	pods := client.CoreV1().Pods(pod.Namespace)
	_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = pods.Delete(context.Background(), pod.Name, metav1.DeleteOptions{}) // its cluster may be gone
	})
	return awaitReadyWithin(t, client, pod.Namespace, pod.Name, limit)
}

func awaitReady(t *testing.T, client kubernetes.Interface, namespace, name string) (pod *corev1.Pod) {
	t.Helper()
	return awaitReadyWithin(t, client, namespace, name, 30*time.Second)
}

func awaitReadyWithin(t *testing.T, client kubernetes.Interface, namespace, name string, limit time.Duration) (pod *corev1.Pod) {
	t.Helper()
	eventually(t, limit, func(ctx context.Context) (err error) {
		pod, err = client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range pod.Status.Conditions {
			if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("pod %s is not ready: %+v", name, pod.Status.ContainerStatuses)
	})
	return pod
}
