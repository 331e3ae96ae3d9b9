package targets

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
)

func TestWhoIsEvictedLater(t *testing.T) {
	settings := policy.Settings{Strategy: v1alpha1.StrategyNode, NodeEviction: true}
	for kind, want := range map[v1alpha1.WorkloadKind]v1alpha1.EvictionRanking{
		v1alpha1.KindDeployment: v1alpha1.RankingLow, v1alpha1.KindRollout: v1alpha1.RankingLow,
		v1alpha1.KindStatefulSet: v1alpha1.RankingMedium, "CloneSet.apps.kruise.io": v1alpha1.RankingMedium,
	} {
		assert.Equal(t, want, evictionRanking(settings, workload.Workload{Identity: workload.Identity{Kind: kind}, Replicas: 3}), kind)
	}
}
