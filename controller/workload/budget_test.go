package workload

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"attune.io/attune/resize"
	"attune.io/attune/tuning"
)

// 39: a resize that restarts containers is blocked while a PodDisruptionBudget allows no disruption. It waits for
// that budget, and continues one pod at a time once it allows a disruption.
func TestARestartWaitsForTheDisruptionBudget(t *testing.T) {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	budget.Spec.Selector = &metav1.LabelSelector{}
	pods := podsAt(3, small)
	for _, pod := range pods {
		pod.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.RestartContainer}}
	}
	l := newLab(t, heading(seen(t, small), big).Rec, append(objects(deploymentOf(small, 3), pods), budget)...)
	l.storm(5)
	assert.Zero(t, l.patches)
	blocked := condition(t, tuning.Decision{Status: l.rec().Status})
	assert.Equal(t, resize.ReasonDisruptionBudget, blocked.Reason)
	assert.Contains(t, blocked.Message, "PodDisruptionBudget web allows no disruption now")

	require.NoError(t, l.api.Get(t.Context(), client.ObjectKeyFromObject(budget), budget))
	budget.Status.DisruptionsAllowed = 1
	require.NoError(t, l.api.Status().Update(t.Context(), budget))
	assert.Len(t, l.c.wakers().waitingFor(tuning.AboutBudgets, client.Object.GetNamespace)(t.Context(), budget), 1, "it is woken by its budget")
	l.live(30 * time.Second)
	assert.Equal(t, 1, l.patches, "one at a time")
}

// A budget's counts change with every pod; only its selector and whether it allows a disruption wake the loop.
func TestRelevantChangesOfABudget(t *testing.T) {
	before := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
	for name, tc := range map[string]struct {
		edit func(*policyv1.PodDisruptionBudget)
		news bool
	}{
		"its counts":         {func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy, b.Status.ExpectedPods = 3, 4 }, false},
		"what it allows":     {func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 }, true},
		"its spec":           {func(b *policyv1.PodDisruptionBudget) { b.Generation = 2 }, true},
		"that it is settled": {func(b *policyv1.PodDisruptionBudget) { b.Status.ObservedGeneration = 1 }, true},
	} {
		after := before.DeepCopy()
		tc.edit(after)
		assert.Equal(t, tc.news, budgetChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}), name)
	}
}
