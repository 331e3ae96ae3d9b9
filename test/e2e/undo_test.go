package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
)

// TestUndo: kubectl attune undo puts the running pods of a workload back to what they had before attune, in place,
// and there they stay, while a neighbour is resized; kubectl attune resume lets them be sized again.
func TestUndo(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "undo", true)
	// The nodes of everybody are full enough.
	there := func(s *corev1.PodSpec) { onNode(s, staticNode) }
	d, _ := started(t, "undo", 2, idle(generous), there)
	neighbour := newDeployment("undo", "neighbour", 1, idle(generous))
	there(&neighbour.Spec.Template.Spec)
	start(t, neighbour)
	before := containersOf(t, d)
	// A memory limit is lowered where it is known what is held: else CPU would go first, and by itself.
	for _, p := range pods(ctx, t, d) {
		eventually(t, p.Name+" is measured", func() error { return measured(ctx, &p, 1) })
	}
	fit(t, d, func(s *v1alpha1.AttunePolicySpec) {
		s.UpdateStrategy.MaxConcurrentResizes = ptr.To(intstr.FromString("100%"))
		s.UpdateStrategy.Canary = &v1alpha1.CanarySettings{Percentage: ptr.To(int32(100))}
	})
	eventually(t, "both lowered", func() error { return carriedOut(t, d, fitting) })

	attune(t, "undo", "deployment/web", "-n", "undo")
	eventually(t, "both put back", func() error { return carriedOut(t, d, generous) })
	eventually(t, "it says so", func() error { return blockedBy(ctx, d, "Undone", "kubectl attune resume deployment/web -n undo") })
	rec, err := recommendation(ctx, d)
	require.NoError(t, err)
	eventually(t, "closed", func() error {
		if rec, err = recommendation(ctx, d); err != nil || rec.Status.UndoneAt == "" || len(rec.Status.Records) > 0 {
			return fmt.Errorf("undone at %q, records %v (%v)", rec.Status.UndoneAt, rec.Status.Records, err)
		}
		return nil
	})
	eventually(t, "new pods are as their template says", func() error { return hasNoSeed(ctx, d) })
	assert.Equal(t, before, containersOf(t, d), "the same pods and containers, not restarted")
	for _, p := range pods(ctx, t, d) {
		assert.Equal(t, int64(3), p.Generation, "lowered once, put back once")
		assert.NoError(t, hasLimit(&p, "app", 320*mebibyte))
		assert.NoError(t, hasQuota(&p, "app", 12_000))
	}

	fit(t, neighbour)
	eventually(t, "a neighbour is resized and kept", func() error { return told(ctx, neighbour, "Success", "") })
	require.NoError(t, carriedOut(t, d, generous))
	for _, p := range pods(ctx, t, d) {
		assert.Equal(t, int64(3), p.Generation, "left alone, though its cooldown is over")
	}
	require.NoError(t, blockedBy(ctx, d, "Undone", ""))

	attune(t, "resume", "deployment/web", "-n", "undo")
	eventually(t, "sized again", func() error { return carriedOut(t, d, fitting) })
	assert.Equal(t, before, containersOf(t, d))
}

// attune runs the plugin as a person would, and returns what it says.
func attune(t *testing.T, args ...string) string {
	t.Helper()
	out, err := env.cluster.Command(t.Context(), env.plugin, args...).CombinedOutput()
	require.NoError(t, err, "kubectl attune %s:\n%s", strings.Join(args, " "), out)
	return string(out)
}

// containersOf are the containers that run in a workload's pods, and how often each was restarted.
func containersOf(t *testing.T, d *appsv1.Deployment) map[types.UID]string {
	t.Helper()
	out := map[types.UID]string{}
	for _, p := range pods(t.Context(), t, d) {
		status := p.Status.ContainerStatuses[0]
		out[p.UID] = fmt.Sprintf("%s, restarted %d times", status.ContainerID, status.RestartCount)
	}
	return out
}

// carriedOut: every pod of a workload asks for a size, and its kubelet has carried that out.
func carriedOut(t *testing.T, d *appsv1.Deployment, want size) error {
	t.Helper()
	all := pods(t.Context(), t, d)
	if len(all) != int(*d.Spec.Replicas) {
		return fmt.Errorf("%d pods", len(all))
	}
	for i := range all {
		if err := hasSpec(t, &all[i], want); err != nil {
			return fmt.Errorf("pod %s: %w", all[i].Name, err)
		}
		if all[i].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s is %s", all[i].Name, all[i].Status.Phase)
		}
	}
	return nil
}
