package targets

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// ReasonSpared is the reason of a hold on a resource that a cluster policy would lower, if Kubernetes or the operator
// itself depends on the pods.
const ReasonSpared = "NeverLowered"

// spared reports whether the workload's pods are never lowered.
func (v View) spared() bool {
	return v.Workload.Template != nil && v.Settings.Spared.Spares(&v.Workload.Template.Spec)
}

// blockDecreases blocks the resources of a target that would lower the container. Under strategy Node it blocks all
// resources, because a node's share may be lower at any time.
func (v View) blockDecreases(c *corev1.Container, t v1alpha1.ContainerTarget) v1alpha1.ContainerTarget {
	if !v.spared() {
		return t
	}
	original, target := v.original(c), podview.FromResources(t.Target)
	for _, r := range recommender.Resources {
		lower := target[r].Request > 0 && target[r].Request < original[r].Request
		if !resize.HeldFor(t.Holds, r) && (lower || v.Settings.Strategy == v1alpha1.StrategyNode) {
			t.Holds = append(slices.Clip(t.Holds), v1alpha1.Hold{Resource: r.String(), Reason: ReasonSpared, Message: whySpared[v.Settings.Spared]})
		}
	}
	return t
}

var whySpared = map[policy.Spared]string{
	policy.SpareCritical: "an AttuneClusterPolicy never lowers pods of system priority. Use an AttunePolicy in their namespace",
	policy.SpareAll:      "an AttuneClusterPolicy never lowers pods in the operator's own namespace",
}
