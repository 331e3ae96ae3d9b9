package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// 100m and 100Mi used: 100m + 20 % and 100Mi + 30 %, and no more (maxAllowed: confidence is a little
// under 1 at times); limits at twice the request, as the template has them.
var (
	asked  = size{cpu: "250m", memory: "512Mi", cpuLimit: "500m", memoryLimit: "1Gi"}
	wanted = size{cpu: "120m", memory: "130Mi", cpuLimit: "240m", memoryLimit: "260Mi"}
)

// TestAutoResizesARunningPodInPlace: the same pod, not restarted, has other requests and limits, in its
// spec, its status and its cgroup; after a clean watch the size is kept and new pods are born with it.
func TestAutoResizesARunningPodInPlace(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "auto", true)
	d := deployment(ctx, t, "auto", "web", 1, app("app", asked))
	before := pods(ctx, t, d)[0]
	require.Equal(t, asked, sizeOf(before.Spec.Containers[0].Resources), "seeded before there was a policy")
	policyFor(ctx, t, d, v1alpha1.UpdateAuto, nil)

	var after corev1.Pod
	eventually(t, "resized on the kubelet", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(&before), &after); err != nil {
			return err
		}
		status := after.Status.ContainerStatuses[0]
		if status.Resources == nil || sizeOf(*status.Resources) != wanted {
			return fmt.Errorf("spec %v, status %v, conditions %v", sizeOf(after.Spec.Containers[0].Resources), status.Resources, after.Status.Conditions)
		}
		return nil
	})
	assert.Equal(t, before.UID, after.UID)
	assert.Equal(t, wanted, sizeOf(after.Spec.Containers[0].Resources))
	assert.Zero(t, after.Status.ContainerStatuses[0].RestartCount)
	assert.Equal(t, before.Status.ContainerStatuses[0].ContainerID, after.Status.ContainerStatuses[0].ContainerID)
	assert.Equal(t, int64(120*1024/1000), cgroup(t, &after, "cpu", "cpu.shares"))
	assert.Equal(t, int64(24000), cgroup(t, &after, "cpu", "cpu.cfs_quota_us"))
	assert.Equal(t, int64(260*mebibyte), cgroup(t, &after, "memory", "memory.limit_in_bytes"))

	eventually(t, "kept after a clean watch", func() error {
		rec, err := recommendation(ctx, d)
		if err != nil {
			return err
		}
		if len(rec.Status.Kept) != 1 || len(rec.Status.Records) != 0 {
			return fmt.Errorf("kept %v, records %v", rec.Status.Kept, rec.Status.Records)
		}
		return nil
	})
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	require.NotEmpty(t, rec.Status.History)
	assert.Equal(t, "Success", rec.Status.History[0].Result)

	eventually(t, "a new pod born with the kept size", func() error { return bornWith(ctx, d, wanted) })
}

func cgroup(t *testing.T, pod *corev1.Pod, controller, file string) int64 {
	t.Helper()
	text, err := env.cluster.ReadCgroup(pod, "app", controller, file)
	require.NoError(t, err)
	n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
	require.NoError(t, err)
	return n
}
