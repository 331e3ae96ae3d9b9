package e2e

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
)

// TestABirthThatCrashes: a program runs with half of the CPU that it needs to start with. Its lower size is kept, and then
// comes a rollout, whose first pod crashes: it is given what its template says, starts, and the rollout goes on.
func TestABirthThatCrashes(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "birth", true)
	d, p := started(t, "birth", 1, needing(60, generous), func(s *corev1.PodSpec) { onNode(s, staticNode) })
	eventually(t, "it is measured", func() error { return measured(ctx, p, 1) })
	fit(t, d)
	eventually(t, "lowered while it runs, and kept", func() error { return told(ctx, d, "Success", "") })
	require.NoError(t, carriedOut(t, d, fitting))
	eventually(t, "the webhook knows", func() error { return createdWith(ctx, d, fitting) })

	require.NoError(t, env.client.Get(ctx, client.ObjectKeyFromObject(d), d))
	d.Spec.Template.Annotations = map[string]string{"version": "2"}
	require.NoError(t, env.client.Update(ctx, d))
	eventually(t, "rolled out", func() error {
		if err := env.client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		if s := d.Status; s.ObservedGeneration < d.Generation || s.UpdatedReplicas != 1 || s.AvailableReplicas != 1 || s.Replicas != 1 {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	eventually(t, "with what its template says", func() error { return carriedOut(t, d, generous) })
	young := pods(ctx, t, d)[0]
	assert.NotEqual(t, p.UID, young.UID)
	assert.Contains(t, young.Annotations[v1alpha1.SeededAnnotation], "deployment-web", "it was born with less")
	assert.GreaterOrEqual(t, young.Status.ContainerStatuses[0].RestartCount, int32(2), "it crashed")
	eventually(t, "on its node as well", func() error { return hasQuota(&young, "app", 12_000) })
	// The container may end between the restore and the kubelet's work (TestAContainerThatCannotStart).
	eventually(t, "it says why", func() error {
		if told(ctx, d, "Undone", "ContainerNotRunning") == nil {
			return nil
		}
		return told(ctx, d, "Undone", "FailedStart")
	})
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	restores := map[string]int64{}
	for _, row := range rec.Status.History {
		if row.Pod == young.Name {
			restores[row.Reason]++
		}
	}
	assert.Equal(t, int64(1), restores["FailedStart"], "%v", rec.Status.History)
	require.NoError(t, see(t, &young))
	starts := podview.First(rec.Status.Tries, func(t v1alpha1.Try) bool { return t.PodUID == young.UID && t.Reason == "ContainerNotRunning" }).Times
	assert.Equal(t, 2+2*int64(starts), young.Generation, "and resized once, and twice for each time that it could not start")
	assert.NotEmpty(t, append(rec.Status.BadSeeds, namesOf(rec.Status.FailedStarts)...), "no other pod is born so")
}

// TestAContainerThatCannotStart: attune raises a CPU limit, and the container has ended before the kubelet's work. It
// cannot start above the limit of its pod's cgroup. It gets that limit, and then its own size while it runs.
func TestAContainerThatCannotStart(t *testing.T) {
	ctx := need(t)
	if !kubeletsAre(t, 36) || kubeletsAre(t, 37) {
		t.Skip("older kubelets do not show the limit of the pod's cgroup, and newer ones raise it")
	}
	namespace(ctx, t, "cannot-start", true)
	d := newDeployment("cannot-start", "web", 1, needing(60, size{cpu: "50m", cpuLimit: "100m", memory: "64Mi", memoryLimit: "128Mi"}))
	createFor(t, d)
	policyFor(ctx, t, d, v1alpha1.UpdateRecommend, nil)
	var p corev1.Pod
	eventually(t, "it waits", func() error {
		all := pods(ctx, t, d)
		if len(all) != 1 || len(all[0].Status.ContainerStatuses) != 1 {
			return fmt.Errorf("%d pods", len(all))
		}
		p = all[0]
		if w := p.Status.ContainerStatuses[0].State.Waiting; w == nil || !strings.Contains(w.Message, "back-off 20s") {
			return fmt.Errorf("state %v", p.Status.ContainerStatuses[0].State)
		}
		return nil
	})
	want := size{cpu: "60m", cpuLimit: "200m", memory: "80Mi", memoryLimit: "160Mi"}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "app", "resources": want.requirements()}}}})
	require.NoError(t, err)
	require.NoError(t, env.client.SubResource("resize").Patch(ctx, &p, client.RawPatch(types.StrategicMergePatchType, data), client.FieldOwner(podview.FieldManager)))
	eventually(t, "it is started", func() error { return told(ctx, d, "Undone", "ContainerNotRunning") })
	eventually(t, "with its size", func() error { return carriedOut(t, d, want) })
	require.NoError(t, is(t, &p, corev1.PodReady, ""))
	eventually(t, "on its node as well", func() error { return hasQuota(&p, "app", 20_000) })
	grant, err := env.cluster.PodGrant(&p)
	require.NoError(t, err)
	assert.Equal(t, int64(20_000), grant.Quota, "its pod's cgroup follows")
	assert.Equal(t, int64(160*mebibyte), grant.Memory)
}

// needing is a container that gives up at its start with a lower CPU request, in millicores.
func needing(milli int, s size) corev1.Container {
	return idle(s, corev1.EnvVar{Name: "NEEDS_MILLICORES", Value: strconv.Itoa(milli)}, corev1.EnvVar{Name: "CPU_REQUEST", ValueFrom: &corev1.EnvVarSource{
		ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "requests.cpu", Divisor: resource.MustParse("1m")},
	}})
}

func namesOf(crashes []v1alpha1.FailedStart) (names []string) {
	for _, c := range crashes {
		names = append(names, c.Name)
	}
	return names
}
