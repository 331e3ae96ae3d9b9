package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// TestDaemonPodFitsItsSmallNode: a DaemonSet needs on its largest node more than its smallest node has. A new pod on the
// small node requests no more than that node has, and starts. It runs last, since other tests need the room of the node.
func TestDaemonPodFitsItsSmallNode(t *testing.T) {
	ctx := needLast(t)
	const ns = "daemons"
	namespace(ctx, t, ns, true)
	template := size{cpu: "20m", memory: "32Mi", memoryLimit: "4Gi"}
	o := daemonSetOf("agent", newDeployment(ns, "agent", 1, idle(template)))
	spec := &o.Object.(*appsv1.DaemonSet).Spec.Template.Spec
	spec.NodeSelector = nil
	spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName(tightNode), nodeName(awayNode)},
		}}}},
	}}}
	require.NoError(t, env.client.Create(ctx, o.Object))
	settings := decidingFast(v1alpha1.UpdateInitial)
	settings.CPU.MaxAllowed, settings.Memory.MaxAllowed = nil, nil
	require.NoError(t, env.client.Create(ctx, &v1alpha1.AttunePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "agent"},
		Spec: v1alpha1.AttunePolicySpec{
			TargetRef:      v1alpha1.TargetRef{Kind: v1alpha1.KindDaemonSet, Name: "agent"},
			PolicySettings: settings,
		},
	}))
	onTight := func() (*corev1.Pod, error) {
		list := &corev1.PodList{}
		if err := env.client.List(ctx, list, client.InNamespace(ns), client.MatchingFields{"spec.nodeName": nodeName(tightNode)}); err != nil {
			return nil, err
		}
		i := slices.IndexFunc(list.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp == nil })
		if i < 0 {
			return nil, fmt.Errorf("no pod on %s", nodeName(tightNode))
		}
		return &list.Items[i], nil
	}
	var before *corev1.Pod
	eventually(t, "a pod on the small node", func() (err error) {
		if before, err = onTight(); err != nil {
			return err
		}
		return is(t, before, corev1.PodReady, "")
	})
	most := resource.MustParse("1Gi")
	eventually(t, "the usage is known to be above the small node", func() error {
		rec, err := o.recommendation(ctx)
		switch {
		case err != nil:
			return err
		case len(rec.Spec.Containers) != 1 || rec.Spec.LargestNode == nil:
			return fmt.Errorf("spec %v", rec.Spec)
		}
		c, node := rec.Spec.Containers[0], rec.Spec.LargestNode.Memory
		held := slices.ContainsFunc(c.Holds, func(h v1alpha1.Hold) bool { return h.Resource == "memory" && h.Reason == resize.ReasonNodeCapacity })
		if !held || node == nil || node.Cmp(most) > 0 {
			return fmt.Errorf("node of %v, target %v, holds %v, seed %v, blocked: %s", node, c.Target, c.Holds, rec.Spec.Seed, rec.Spec.SeedBlocked)
		}
		return nil
	})

	deleted := time.Now()
	require.NoError(t, env.client.Delete(ctx, before, client.GracePeriodSeconds(0)))
	var after *corev1.Pod
	within(t, time.Minute, "its successor runs", func() (err error) {
		if after, err = onTight(); err != nil {
			return err
		}
		if after.UID == before.UID {
			return fmt.Errorf("it is still the deleted pod")
		}
		return is(t, after, corev1.PodReady, "")
	})
	t.Logf("deleted to ready %s, with %v", time.Since(deleted).Round(100*time.Millisecond), sizeOf(after.Spec.Containers[0].Resources))
	assert.LessOrEqual(t, after.Spec.Containers[0].Resources.Requests.Memory().Value(), most.Value())
}
