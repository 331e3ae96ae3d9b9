package e2e

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// TestOOMKillIsRevertedAndNotTriedAgain: a container whose need grows past its lowered limit is killed;
// within seconds the pod has its old size back, and what is recommended from then on is above what killed. Its CPU limit
// was lowered too, and is raised when it runs again: raised before, it would keep it from starting (cgroup v1).
func TestOOMKillIsRevertedAndNotTriedAgain(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "oom", true)
	d := deployment(ctx, t, "oom", "leaky", 1, app("app", size{cpu: "200m", cpuLimit: "400m", memory: "512Mi", memoryLimit: "512Mi"}))
	pod := pods(ctx, t, d)[0]
	policyFor(ctx, t, d, v1alpha1.UpdateAuto, nil)
	eventually(t, "lowered on the kubelet, to 60 MiB and 30 % or a little more for what the history lacks", func() error {
		return hasMemoryLimitWithin(ctx, &pod, resource.MustParse("78Mi"), resource.MustParse("80Mi"))
	})

	assert.Negative(t, pod.Status.ContainerStatuses[0].Resources.Limits.Cpu().Cmp(resource.MustParse("400m")), "its CPU is lowered with it")

	use(ctx, t, &pod, "memory=200")
	killed := waitForKill(ctx, t, &pod)
	before := resource.MustParse("512Mi")
	eventually(t, "put back on the kubelet", func() error { return hasMemoryLimit(ctx, &pod, before) })
	t.Logf("from the kill (to the second) to the old limit on the kubelet: %s", time.Since(killed).Round(time.Second))
	eventually(t, "its CPU too", func() error {
		if err := hasMemoryLimit(ctx, &pod, before); err != nil {
			return err
		}
		if got := pod.Status.ContainerStatuses[0].Resources.Limits.Cpu(); got.String() != "400m" {
			return fmt.Errorf("status has %s", got)
		}
		return nil
	})
	assert.Equal(t, int32(1), pod.Status.ContainerStatuses[0].RestartCount, "by the kernel, once")

	eventually(t, "reverted in the history", func() error {
		rec, err := recommendation(ctx, d)
		if err != nil {
			return err
		}
		if len(rec.Status.History) == 0 || len(rec.Status.Records) > 0 {
			return fmt.Errorf("history %v, records %v", rec.Status.History, rec.Status.Records)
		}
		return nil
	})
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	assert.Equal(t, "Reverted", rec.Status.History[0].Result)
	assert.Equal(t, "oomkill", rec.Status.History[0].Reason)
	floor := resource.MustParse("101Mi") // 1.3 times 78 MiB is 101.4 MiB
	require.Len(t, rec.Status.Floors, 1, "one kill is one floor")
	assert.Positive(t, rec.Status.Floors[0].Amount.Cmp(floor), "floor %s", rec.Status.Floors[0].Amount.String())
	eventually(t, "a target above what killed", func() error {
		rec, err := recommendation(ctx, d)
		if err != nil {
			return err
		}
		if target := rec.Spec.Containers[0].Target.MemoryRequest; target == nil || target.Cmp(floor) < 0 {
			return fmt.Errorf("target %v", target)
		}
		return nil
	})
}

func hasMemoryLimit(ctx context.Context, pod *corev1.Pod, want resource.Quantity) error {
	return hasMemoryLimitWithin(ctx, pod, want, want)
}

func hasMemoryLimitWithin(ctx context.Context, pod *corev1.Pod, least, most resource.Quantity) error {
	if err := env.client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
		return err
	}
	status := pod.Status.ContainerStatuses[0]
	if status.Resources == nil || status.State.Running == nil {
		return fmt.Errorf("state %v", status.State)
	}
	if got := status.Resources.Limits[corev1.ResourceMemory]; got.Cmp(least) < 0 || got.Cmp(most) > 0 {
		return fmt.Errorf("status has %s, spec %v, conditions %v", got.String(), sizeOf(pod.Spec.Containers[0].Resources), pod.Status.Conditions)
	}
	return nil
}

// use tells the workload what to use, such as memory=200 (MiB) or cpu=300 (millicores).
func use(ctx context.Context, t *testing.T, pod *corev1.Pod, what string) {
	t.Helper()
	url := fmt.Sprintf("http://%s:8080/set?%s", pod.Status.PodIP, what)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	require.NoError(t, err)
	// The answer may not come: the process may be killed while it takes the memory.
	if response, err := env.cluster.HTTPClient().Do(request); err == nil {
		response.Body.Close()
	}
}

func waitForKill(ctx context.Context, t *testing.T, pod *corev1.Pod) time.Time {
	t.Helper()
	var at time.Time
	eventually(t, "OOM-killed", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		status := pod.Status.ContainerStatuses[0]
		for _, end := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
			if end != nil && end.Reason == "OOMKilled" {
				at = end.FinishedAt.Time
				return nil
			}
		}
		return fmt.Errorf("state %v, last %v", status.State, status.LastTerminationState)
	})
	return at
}
