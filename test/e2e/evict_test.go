package e2e

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
)

// The pods of the evictions are small at first, and then want more than one of their two nodes has in all: the tight
// one has 1Gi, the other one 8Gi. They have no limits: without an OOM kill, none is raised above twice the template's.
var (
	cramped = size{cpu: "30m", memory: "100Mi"}
	roomy   = size{cpu: "30m", memory: "1050Mi"}
)

// evictionLabel is on the node where the pods of the evictions may start now.
const evictionLabel = "e2e.attune.io/eviction"

func evictionHistories() (all []history) {
	for _, name := range []string{"moves", "in-place", "budget", "single"} {
		all = append(all, history{"evict", name + "-6d4f8c7b9d-x2x7k", "app", 0.025, 900})
	}
	return all
}

// TestEviction: a node can never give a pod what it wants. Where the policy lets it be recreated, it is evicted
// once, through the Eviction API, and its successor is born on the other node with that size. Where the policy
// does not, where a PodDisruptionBudget denies it and where no other replica would be left, the pod stays as it is
// and the status says why; the siblings on the other node grow in place.
func TestEviction(t *testing.T) {
	ctx := need(t)
	namespace(ctx, t, "evict", true)
	startHere(t, tightNode, true)
	workloads := map[string]*appsv1.Deployment{}
	for _, name := range []string{"moves", "in-place", "budget", "single"} {
		d := newDeployment("evict", name, 1, idle(cramped))
		d.Spec.Template.Spec.NodeSelector = map[string]string{evictionLabel: ""}
		d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: reservedTaint, Operator: corev1.TolerationOpExists}}
		start(t, d)
		workloads[name] = d
	}
	startHere(t, tightNode, false)
	startHere(t, staticNode, true)
	for _, name := range []string{"moves", "in-place", "budget"} {
		scale(ctx, t, workloads[name], 2)
	}
	before := map[string]podsByNode{}
	for name, d := range workloads {
		before[name] = byNode(t, d)
		require.Equal(t, nodeName(tightNode), before[name].cramped.Spec.NodeName)
	}
	denyAll(t, workloads["budget"])
	for name, d := range workloads {
		fit(t, d, func(s *v1alpha1.AttunePolicySpec) {
			s.Memory.MaxAllowed = ptr.To(resource.MustParse(roomy.memory))
			s.UpdateStrategy.MaxConcurrentResizes = ptr.To(intstr.FromString("100%"))
			if name != "in-place" {
				s.UpdateStrategy.ResizeMethod = ptr.To(v1alpha1.ResizeInPlaceOrRecreate)
			}
		})
	}
	t.Run("evicted, and its successor runs on the other node", func(t *testing.T) {
		movedAway(t, workloads["moves"], before["moves"])
	})
	for name, says := range map[string]struct{ reason, message string }{
		"in-place": {"NodeCapacity", "1Gi"},
		"single":   {"NodeCapacity", "(resizeMethod InPlaceOrRecreate): the workload has 1 replicas"},
		"budget":   {"EvictionDenied", "PodDisruptionBudget"},
	} {
		t.Run("stays: "+name, func(t *testing.T) { stays(t, workloads[name], before[name], says.reason, says.message) })
	}
}

// podsByNode are a workload's pods: the one on the node that has too little, and the one on the other (nil: none).
type podsByNode struct{ cramped, roomy *corev1.Pod }

func byNode(t *testing.T, d *appsv1.Deployment) (on podsByNode) {
	t.Helper()
	for _, p := range pods(t.Context(), t, d) {
		if p.Spec.NodeName == nodeName(staticNode) {
			on.roomy = &p
			continue
		}
		on.cramped = &p
	}
	require.NotNil(t, on.cramped)
	require.Equal(t, *d.Spec.Replicas > 1, on.roomy != nil, "one pod on each node")
	return on
}

// startHere labels a node as one where the pods of the evictions may start, or takes that back.
func startHere(t *testing.T, node int, may bool) {
	t.Helper()
	n := &corev1.Node{}
	require.NoError(t, env.client.Get(t.Context(), client.ObjectKey{Name: nodeName(node)}, n))
	before := n.DeepCopy()
	if may {
		metav1.SetMetaDataLabel(&n.ObjectMeta, evictionLabel, "")
	} else {
		delete(n.Labels, evictionLabel)
	}
	require.NoError(t, env.client.Patch(t.Context(), n, client.MergeFrom(before)))
}

// denyAll makes a budget that lets no pod of a workload go.
func denyAll(t *testing.T, d *appsv1.Deployment) {
	t.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: d.Namespace, Name: d.Name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: d.Spec.Selector},
	}
	require.NoError(t, env.client.Create(t.Context(), budget))
	eventually(t, "the budget counts its pods", func() error {
		if err := env.client.Get(t.Context(), client.ObjectKeyFromObject(budget), budget); err != nil {
			return err
		}
		if s := budget.Status; s.ObservedGeneration < budget.Generation || s.CurrentHealthy != 2 || s.DisruptionsAllowed != 0 {
			return fmt.Errorf("%+v", s)
		}
		return nil
	})
}

func movedAway(t *testing.T, d *appsv1.Deployment, before podsByNode) {
	ctx := t.Context()
	var born *corev1.Pod
	eventually(t, "another pod in its place", func() error {
		all := slices.DeleteFunc(pods(ctx, t, d), func(p corev1.Pod) bool { return p.UID == before.roomy.UID })
		if len(all) != 1 || all[0].UID == before.cramped.UID || is(t, &all[0], corev1.PodReady, "") != nil {
			return errors.Join(fmt.Errorf("%d pods beside its sibling", len(all)), blocked(ctx, d, "nothing"))
		}
		born = &all[0]
		return nil
	})
	assert.Equal(t, nodeName(staticNode), born.Spec.NodeName)
	assert.Equal(t, roomy, sizeOf(born.Spec.Containers[0].Resources))
	assert.Equal(t, int64(1), born.Generation, "born so")
	assert.Equal(t, cramped, seededFrom(t, *born))
	eventually(t, "its sibling grown in place", func() error { return hasSpec(t, before.roomy, roomy) })
	assert.Zero(t, before.roomy.Status.ContainerStatuses[0].RestartCount)
	eventually(t, "told, and once", func() error {
		rows, err := rowsOf(ctx, d, "Evicted")
		if err == nil && len(rows) != 1 {
			err = fmt.Errorf("%v", rows)
		}
		return err
	})
	rows, err := rowsOf(ctx, d, "Evicted")
	require.NoError(t, err)
	assert.Equal(t, before.cramped.Name, rows[0].Pod)
	assert.Equal(t, "Eviction", rows[0].Method)
	assert.Equal(t, "Infeasible", rows[0].Reason)
	eventually(t, "an event", func() error { return hasEvent(ctx, d.Namespace, before.cramped.Name, "Evicted") })
}

// stays: the pod on the node with too little is as it was, the status says why, and the sibling has its size.
func stays(t *testing.T, d *appsv1.Deployment, before podsByNode, reason, message string) {
	ctx := t.Context()
	eventually(t, "the status says why", func() error { return blockedBy(ctx, d, reason, message) })
	if before.roomy != nil {
		eventually(t, "its sibling grown in place", func() error { return hasSpec(t, before.roomy, roomy) })
	}
	now := byNode(t, d).cramped
	assert.Equal(t, before.cramped.UID, now.UID)
	assert.Nil(t, now.DeletionTimestamp)
	assert.NoError(t, hasSpec(t, now, cramped))
	assert.Equal(t, int64(1), now.Generation, "its node was not even asked")
	assert.Zero(t, now.Status.ContainerStatuses[0].RestartCount)
	rows, err := rowsOf(ctx, d, "Evicted")
	require.NoError(t, err)
	assert.Empty(t, rows)
}
