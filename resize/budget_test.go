package resize_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "attune.io/attune/resize"
)

func budgetOf(name string, selector *metav1.LabelSelector, allowed int32) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: web().Namespace, Name: name, Generation: 1},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, DisruptionsAllowed: allowed, CurrentHealthy: 3, DesiredHealthy: 3 - allowed},
	}
}

// Case 39: a restart by a resize is a disruption, and the API server checks no budget for it.
func TestRestartsHonourDisruptionBudgets(t *testing.T) {
	named := func(label string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": label}}
	}
	all := &metav1.LabelSelector{}
	outdated := budgetOf("changed", named("web"), 3)
	outdated.Generation = 2
	elsewhere := budgetOf("elsewhere", all, 0)
	elsewhere.Namespace = "other"
	none := "the resize would restart a container (resizePolicy), but PodDisruptionBudget none allows no disruption now: 3 pods are healthy, and 3 must be. The resize follows when it allows one"
	for name, tc := range map[string]struct {
		budgets []policyv1.PodDisruptionBudget
		urgent  bool
		message string
	}{
		"no budget":                      {},
		"one allows one":                 {budgets: []policyv1.PodDisruptionBudget{budgetOf("one", named("web"), 1)}},
		"one allows none":                {budgets: []policyv1.PodDisruptionBudget{budgetOf("none", named("web"), 0)}, message: none},
		"the second of two allows none":  {budgets: []policyv1.PodDisruptionBudget{budgetOf("one", all, 1), budgetOf("none", named("web"), 0)}, message: none},
		"an empty selector is all pods":  {budgets: []policyv1.PodDisruptionBudget{budgetOf("none", all, 0)}, message: none},
		"no selector is no pod":          {budgets: []policyv1.PodDisruptionBudget{budgetOf("none", nil, 0)}},
		"of other pods":                  {budgets: []policyv1.PodDisruptionBudget{budgetOf("none", named("db"), 0)}},
		"of another namespace":           {budgets: []policyv1.PodDisruptionBudget{elsewhere}},
		"its answer is of an older spec": {budgets: []policyv1.PodDisruptionBudget{outdated}, message: "the resize would restart a container (resizePolicy), but the status of PodDisruptionBudget changed is not up to date"},
		"the kernel killed it anyway":    {budgets: []policyv1.PodDisruptionBudget{budgetOf("none", named("web"), 0)}, urgent: true},
	} {
		t.Run(name, func(t *testing.T) {
			pod := restarting(web(), corev1.ResourceMemory)
			pod.Labels = map[string]string{"app": "web"}
			plan := mustPlan(t, pod, wish(size(500, 1000, 600, 1024)))
			plan.Urgent = tc.urgent
			in := world(func(w *GateInput) {
				w.Workload.Replicas, w.Workload.ReadyReplicas, w.Namespace.Budgets = 3, 3, tc.budgets
			})
			_, refusal := Admit(pod, plan, in)
			if tc.message == "" {
				check(t, "", refusal)
				return
			}
			check(t, ReasonDisruptionBudget, refusal)
			require.NotNil(t, refusal)
			assert.Equal(t, tc.message, refusal.Message)
			assert.True(t, refusal.Transient)

			stays := web()
			stays.Labels = pod.Labels
			_, refusal = Admit(stays, mustPlan(t, stays, wish(size(500, 1000, 600, 1024))), in)
			check(t, "", refusal)
		})
	}
}
