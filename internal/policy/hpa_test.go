package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
)

// TestHPAHandling: Keep applies to a resource of all containers, or of one, and not with strategy Node.
func TestHPAHandling(t *testing.T) {
	resolve := func(change func(*v1alpha1.PolicySettings)) (policy.Settings, error) {
		p := &v1alpha1.AttunePolicy{Spec: v1alpha1.AttunePolicySpec{TargetRef: v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment}}}
		change(&p.Spec.PolicySettings)
		return policy.Resolve(nil, nil, p)
	}
	keep := &v1alpha1.CPUSettings{}
	keep.HPA = ptr.To(v1alpha1.HPAKeep)
	of := func(s policy.Settings) [2]bool {
		return [2]bool{s.KeepsReplicas("app", recommender.CPU), s.KeepsReplicas("app", recommender.Memory)}
	}
	plain, err := resolve(func(*v1alpha1.PolicySettings) {})
	require.NoError(t, err)
	assert.Equal(t, [2]bool{}, of(plain), "Block is the built-in value")
	assert.False(t, plain.KeepsAnyReplicas())

	kept, err := resolve(func(s *v1alpha1.PolicySettings) { s.CPU = keep })
	require.NoError(t, err)
	assert.Equal(t, [2]bool{true, false}, of(kept))
	assert.True(t, kept.KeepsAnyReplicas())
	assert.NotEqual(t, plain.Digest(), kept.Digest(), "targets depend on it")

	byNode, err := resolve(func(s *v1alpha1.PolicySettings) { s.CPU, s.Strategy = keep, ptr.To(v1alpha1.StrategyNode) })
	require.NoError(t, err)
	assert.Equal(t, [2]bool{}, of(byNode))

	_, err = resolve(func(s *v1alpha1.PolicySettings) {
		s.CPU = &v1alpha1.CPUSettings{}
		s.CPU.HPA = ptr.To(v1alpha1.HPAHandling("Retarget"))
	})
	assert.EqualError(t, err, "cpu.hpa Retarget is not one of Block or Keep")
}
