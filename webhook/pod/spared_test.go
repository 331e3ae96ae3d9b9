package pod

import (
	"testing"

	"github.com/stretchr/testify/assert"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
)

// Under a cluster policy a new pod of system priority is at most raised, whatever its template was when the seed was
// computed; also if the webhook is called again with its own result.
func TestNewCriticalPodsAreNotLowered(t *testing.T) {
	critical := func(p *corev1.Pod) { p.Spec.Priority = ptr.To(int32(2_000_000_000)) }
	classed := func(class string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.PriorityClassName = class }
	}
	usual := func(p *corev1.Pod) { p.Spec.Priority, p.Spec.PriorityClassName = ptr.To(int32(1_000_000_000)), "high" }
	const stays, lowered, mixed = "cpu=1/2 memory=1Gi/2Gi", "cpu=250m/500m memory=256Mi/512Mi", "cpu=1/2 memory=1Gi/4Gi"
	for name, c := range map[string]struct {
		pod      func(*corev1.Pod)
		kind     v1alpha1.PolicyKind
		memory   string
		want     string
		strategy v1alpha1.Strategy
	}{
		"priority":                         {critical, v1alpha1.PolicyKindCluster, "256Mi", stays, ""},
		"system-cluster-critical":          {classed("system-cluster-critical"), v1alpha1.PolicyKindCluster, "256Mi", stays, ""},
		"system-node-critical":             {classed("system-node-critical"), v1alpha1.PolicyKindCluster, "256Mi", stays, ""},
		"strategy Node":                    {critical, v1alpha1.PolicyKindCluster, "256Mi", stays, v1alpha1.StrategyNode},
		"only its limit is raised":         {critical, v1alpha1.PolicyKindCluster, "3Gi", mixed, ""},
		"a usual priority":                 {usual, v1alpha1.PolicyKindCluster, "256Mi", lowered, ""},
		"an AttunePolicy":                  {critical, v1alpha1.PolicyKindNamespaced, "256Mi", lowered, ""},
		"an AttunePolicy, named as before": {critical, "", "256Mi", lowered, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rec := recommendation(seedFor(t, "app", "250m", c.memory))
			rec.Spec.Policy, rec.Spec.Strategy = v1alpha1.PolicyRef{Kind: c.kind, Name: "base"}, c.strategy
			pod := podOf(container(t, "app", "cpu=1/2 memory=1Gi/2Gi"))
			c.pod(pod)
			known := Read(rec)
			after := applied(t, pod, SeedPod(view(t, pod), known, &Namespace{}, now))
			assert.Equal(t, []string{c.want}, resources(after))
			assert.Empty(t, SeedPod(view(t, after), known, &Namespace{}, now).Patch, "a second call changes nothing")
			assert.Equal(t, known, Read(rec), "what is shared by all reviews stays as it is")
		})
	}
}
