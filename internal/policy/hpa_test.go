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

// TestHPAHandling: Keep and Retarget apply to a resource of all containers, or of one, and not with strategy Node.
// Only cpu.hpa may be Retarget.
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

	retarget := &v1alpha1.CPUSettings{}
	retarget.HPA = ptr.To(v1alpha1.HPARetarget)
	retargets, err := resolve(func(s *v1alpha1.PolicySettings) { s.CPU = retarget })
	require.NoError(t, err)
	assert.True(t, retargets.Retargets("app", recommender.CPU))
	assert.False(t, retargets.Retargets("app", recommender.Memory))
	assert.False(t, kept.Retargets("app", recommender.CPU))
	assert.Equal(t, [2]bool{true, false}, of(retargets), "where the target may not be written, a range is searched")
	assert.NotEqual(t, kept.Digest(), retargets.Digest())

	_, err = resolve(func(s *v1alpha1.PolicySettings) {
		s.CPU = &v1alpha1.CPUSettings{}
		s.CPU.HPA = ptr.To(v1alpha1.HPAHandling("Move"))
	})
	assert.EqualError(t, err, "cpu.hpa Move is not one of Block, Keep or Retarget")
	_, err = resolve(func(s *v1alpha1.PolicySettings) {
		s.Memory = &v1alpha1.MemorySettings{}
		s.Memory.HPA = ptr.To(v1alpha1.HPARetarget)
	})
	assert.EqualError(t, err, "memory.hpa Retarget is not one of Block or Keep: only cpu.hpa may be Retarget, e.g. memory.hpa: Keep")
}
