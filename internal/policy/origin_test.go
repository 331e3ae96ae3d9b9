package policy_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
)

// Fields returns every field with its value and level, and no other fields.
func TestFields(t *testing.T) {
	defaults := &v1alpha1.AttuneDefaults{}
	defaults.Name = v1alpha1.DefaultsName
	defaults.Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{Percentile: ptr.To(int32(90))}}
	defaults.Spec.MetricsSource = &v1alpha1.MetricsSource{Prometheus: &v1alpha1.PrometheusSource{Address: "http://prometheus:9090", Headers: map[string]string{"X-Token": "secret"}}}
	p := &v1alpha1.AttunePolicy{}
	p.Spec.CPU = &v1alpha1.CPUSettings{ResourceSettings: v1alpha1.ResourceSettings{MaxAllowed: ptr.To(resource.MustParse("4"))}}
	for i := range 60 {
		p.Spec.ExcludedContainers = append(p.Spec.ExcludedContainers, v1alpha1.ContainerName(fmt.Sprint("container-", i)))
	}
	p.Spec.TargetRef = v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Name: "web"}
	fields := policy.Fields(defaults, nil, p, policy.Operator{})
	by := map[string]policy.Field{}
	for _, f := range fields {
		by[f.Path] = f
		assert.NotContains(t, f.Value, "secret")
		assert.LessOrEqual(t, len(f.Value), 203)
	}
	assert.Equal(t, policy.Field{Path: "cpu.percentile", Value: "90", Level: policy.Cluster}, by["cpu.percentile"])
	assert.Equal(t, policy.Field{Path: "cpu.maxAllowed", Value: "4", Level: policy.Policy}, by["cpu.maxAllowed"])
	assert.Equal(t, policy.Field{Path: "updateStrategy.cooldown", Value: "1h0m0s", Level: policy.BuiltIn}, by["updateStrategy.cooldown"])
	assert.Equal(t, policy.Field{Path: "metricsSource.prometheus.headers", Value: "(not shown)", Level: policy.Cluster}, by["metricsSource.prometheus.headers"])
	settings, err := policy.ResolveAllowed(defaults, nil, p, policy.Operator{})
	require.NoError(t, err)
	for path := range by {
		assert.Equal(t, settings.Origin[path], by[path].Level, path)
	}
	assert.Greater(t, len(fields), 30)
}
