package targets

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// A cluster policy never lowers pods that Kubernetes depends on, neither running nor at admission.
func TestCriticalPodsAreSpared(t *testing.T) {
	v := sizing(t, nil)
	v.Settings.StartupBoost = &policy.Boost{Multiplier: 2}
	v.Status.Verified = []v1alpha1.VerifiedResources{{Name: "app", Size: podview.ToResources(recommender.Size{recommender.CPU: {Request: 100}, recommender.Memory: {Request: 100 * mi}})}}
	v.Workload.Template.Spec.PriorityClassName = "system-cluster-critical"
	assert.Empty(t, reasons(Desired(v).Containers[0]), "an AttunePolicy may")
	require.NotNil(t, Desired(v).Seed)

	v.Settings.Spared = policy.SpareCritical
	spec := Desired(v)
	assert.Equal(t, []string{"cpu " + ReasonSpared, "memory " + ReasonSpared}, reasons(spec.Containers[0]))
	assert.Equal(t, "240m", spec.Containers[0].Target.CPURequest.String(), "what it would need is shown")
	assert.Nil(t, spec.Seed)

	// A target above the current size applies.
	for r := range v.Settings.Recommender.Of {
		v.Settings.Recommender.Of[r].MinAllowed = []recommender.Amount{3000, 900 * mi}[r]
	}
	spec = Desired(v)
	assert.Empty(t, reasons(spec.Containers[0]))
	require.NotNil(t, spec.Seed)
	assert.True(t, spec.Seed.Containers[0].RaiseOnly)
	assert.Nil(t, spec.Seed.Containers[0].CPUBoost, "it would be taken back by lowering")

	usual := sizing(t, nil)
	usual.Settings.Spared = policy.SpareCritical
	assert.Empty(t, reasons(Desired(usual).Containers[0]))
	usual.Settings.Spared = policy.SpareAll
	assert.Len(t, reasons(Desired(usual).Containers[0]), 2)
}

// Under strategy Node they have no demand to share.
func TestCriticalPodsShareNothing(t *testing.T) {
	v := byNode(t, func(*v1alpha1.AttunePolicySpec) {})
	v.Settings.Spared = policy.SpareAll
	spec := Desired(v)
	require.NotNil(t, spec.Containers[0].Demand)
	assert.Nil(t, spec.Containers[0].Demand.CPUPeak)
	assert.Nil(t, spec.Containers[0].Demand.MemoryPeak)
	assert.Nil(t, spec.Seed)
}
