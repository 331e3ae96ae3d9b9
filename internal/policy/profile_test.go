package policy_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
)

// A field that any level sets takes precedence over each profile, the profile of a higher level over that of a lower one,
// and an entry of containerPolicies over all. kubectl attune explain names the profile as the level of its values.
func TestProfileIsBelowAllLevels(t *testing.T) {
	name := metav1.ObjectMeta{Name: v1alpha1.DefaultsName}
	cluster, namespace := &v1alpha1.AttuneDefaults{ObjectMeta: name}, &v1alpha1.AttuneNamespaceDefaults{ObjectMeta: name}
	cost, reliability := v1alpha1.ProfileCost, v1alpha1.ProfileReliability
	p := aPolicy(t, `containerPolicies: [{containerName: app, memory: {allowDecrease: false}, cpu: {percentile: 40}}]`)
	type want struct {
		percentile int
		decrease   bool
		levels     []policy.Level // of cpu.percentile and memory.allowDecrease
	}
	for _, step := range []struct {
		set  func()
		want want
	}{
		{func() {}, want{95, false, []policy.Level{policy.BuiltIn, policy.BuiltIn}}},
		{func() { cluster.Spec.Profile = &reliability }, want{99, false, []policy.Level{"profile Reliability", "profile Reliability"}}},
		{func() { namespace.Spec.Memory = &v1alpha1.MemorySettings{AllowDecrease: new(true)} }, want{99, true, []policy.Level{"profile Reliability", policy.Namespace}}},
		{func() { p.Spec.Profile = &cost }, want{90, true, []policy.Level{"profile Cost", policy.Namespace}}},
		{func() {
			cluster.Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{Percentile: new(int32(70))}}
		}, want{70, true, []policy.Level{policy.Cluster, policy.Namespace}}},
	} {
		step.set()
		s, err := policy.Resolve(cluster, namespace, p)
		require.NoError(t, err)
		of := s.For("side").Of
		assert.Equal(t, step.want.percentile, of[recommender.CPU].Percentile)
		assert.Equal(t, step.want.decrease, of[recommender.Memory].AllowDecrease)
		app := s.For("app").Of
		assert.Equal(t, 40, app[recommender.CPU].Percentile)
		assert.False(t, app[recommender.Memory].AllowDecrease)
		fields := policy.Fields(cluster, namespace, p, policy.Operator{SourceNamespaces: []string{"*"}})
		for i, path := range []string{"cpu.percentile", "memory.allowDecrease"} {
			at := slices.IndexFunc(fields, func(f policy.Field) bool { return f.Path == path })
			require.GreaterOrEqual(t, at, 0, path)
			assert.Equal(t, step.want.levels[i], fields[at].Level, path)
		}
	}
}
