package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// A namespace cannot move evictions to its neighbours by ranking its own pods above the cluster's defaults.
func TestEvictionRankingIsCapped(t *testing.T) {
	ranked := func(r v1alpha1.EvictionRanking) *v1alpha1.NodeSettings {
		return &v1alpha1.NodeSettings{EvictionRanking: ptr.To(r)}
	}
	for _, tc := range []struct{ cluster, namespace, policy, want v1alpha1.EvictionRanking }{
		{"", "", "", ""},
		{"", "", v1alpha1.RankingNever, v1alpha1.RankingNever},
		{v1alpha1.RankingMedium, "", "", v1alpha1.RankingMedium},
		{v1alpha1.RankingMedium, "", v1alpha1.RankingLow, v1alpha1.RankingLow},
		{v1alpha1.RankingMedium, "", v1alpha1.RankingNever, v1alpha1.RankingMedium},
		{v1alpha1.RankingMedium, v1alpha1.RankingHigh, "", v1alpha1.RankingMedium},
		{"", v1alpha1.RankingLow, v1alpha1.RankingHigh, v1alpha1.RankingHigh},
		{v1alpha1.RankingNever, "", v1alpha1.RankingHigh, v1alpha1.RankingHigh},
	} {
		cluster, namespace, p := &v1alpha1.AttuneDefaults{}, &v1alpha1.AttuneNamespaceDefaults{}, &v1alpha1.AttunePolicy{}
		cluster.Name, namespace.Name = v1alpha1.DefaultsName, v1alpha1.DefaultsName
		p.Spec.TargetRef.Kind = v1alpha1.KindDeployment
		if tc.cluster != "" {
			cluster.Spec.Node = ranked(tc.cluster)
		}
		if tc.namespace != "" {
			namespace.Spec.Node = ranked(tc.namespace)
		}
		if tc.policy != "" {
			p.Spec.Node = ranked(tc.policy)
		}
		s, err := policy.Resolve(cluster, namespace, p)
		require.NoError(t, err)
		assert.Equal(t, tc.want, s.EvictionRanking, "%+v", tc)
	}
}
