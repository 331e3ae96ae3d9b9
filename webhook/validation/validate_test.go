package validation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/webhook/validation"
)

func aPolicy(t *testing.T, spec string) *v1alpha1.AttunePolicy {
	t.Helper()
	p := &v1alpha1.AttunePolicy{ObjectMeta: metav1.ObjectMeta{Name: "api", Namespace: "shop"}}
	p.Spec.TargetRef.Kind = v1alpha1.KindDeployment
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &p.Spec))
	return p
}

func clusterDefaults(t *testing.T, spec string) *v1alpha1.AttuneDefaults {
	t.Helper()
	d := &v1alpha1.AttuneDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName}}
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &d.Spec))
	return d
}

func namespaceDefaults(t *testing.T, spec string) *v1alpha1.AttuneNamespaceDefaults {
	t.Helper()
	d := &v1alpha1.AttuneNamespaceDefaults{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultsName, Namespace: "shop"}}
	require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &d.Spec))
	return d
}

func sentences(problems []policy.Problem) []string {
	var all []string
	for _, p := range problems {
		all = append(all, p.Sentence)
	}
	return all
}

const ownServer = `metricsSource: {prometheus: {address: "http://mine:9090"}}`

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		object           runtime.Object
		env              validation.Env
		denied, warnings []string
	}{
		"a good policy":     {object: aPolicy(t, `updateStrategy: {type: Auto}`)},
		"any other object":  {object: &v1alpha1.AttuneRecommendation{}},
		"good defaults":     {object: clusterDefaults(t, ownServer)},
		"a bad policy":      {object: aPolicy(t, `updateStrategy: {schedule: {timezone: Mars}}`), denied: []string{"updateStrategy.schedule.timezone Mars is not a known time zone: use an IANA name, e.g. Europe/Berlin or UTC"}},
		"bad with defaults": {object: aPolicy(t, `memory: {maxAllowed: 1Gi}`), env: validation.Env{Cluster: clusterDefaults(t, `memory: {minAllowed: 2Gi}`)}, denied: []string{"memory.minAllowed 2Gi (from the AttuneDefaults) must be less than or equal to memory.maxAllowed 1Gi: set memory.minAllowed to 1Gi or less"}},
		"bad with the namespace's": {object: aPolicy(t, `updateStrategy: {type: OneShot}`), env: validation.Env{Namespace: namespaceDefaults(t, `strategy: Node`)},
			denied: []string{"updateStrategy.type OneShot is not supported with strategy Node (from the AttuneNamespaceDefaults): use Observe, Recommend, Initial or Auto, or strategy Workload"}},
		"others' mistakes are warned of": {object: aPolicy(t, `{weight: 1}`), env: validation.Env{Cluster: clusterDefaults(t, `cpu: {overhead: lots}`)},
			warnings: []string{`cpu.overhead lots (from the AttuneDefaults) must be a decimal number between 0 and 1000, e.g. "20"`}},
		"namespace defaults on bad cluster's": {object: namespaceDefaults(t, `cpu: {percentile: 101}`), env: validation.Env{Cluster: clusterDefaults(t, `cpu: {overhead: lots}`)},
			denied:   []string{"cpu.percentile 101 (from the AttuneNamespaceDefaults) must be between 1 and 100, e.g. 95"},
			warnings: []string{`cpu.overhead lots (from the AttuneDefaults) must be a decimal number between 0 and 1000, e.g. "20"`}},
		"bad cluster defaults": {object: clusterDefaults(t, `costPricing: {cpuPerCoreHour: "-1"}`), denied: []string{`costPricing.cpuPerCoreHour -1 (from the AttuneDefaults) must be a decimal number between 0 and 1000000, e.g. "0"`}},
		"own server, not allowed": {object: aPolicy(t, ownServer), env: validation.Env{Operator: policy.Operator{SourceNamespaces: []string{"bank"}}},
			denied: []string{"metricsSource.prometheus http://mine:9090 is not allowed in namespace shop: leave it out to use the operator's source, or have an administrator add shop to usage.policySources.namespaces"}},
		"own server, allowed":                  {object: aPolicy(t, ownServer), env: validation.Env{Operator: policy.Operator{SourceNamespaces: []string{"shop"}}}},
		"own server in namespace defaults":     {object: namespaceDefaults(t, ownServer), env: validation.Env{}, denied: []string{"metricsSource.prometheus http://mine:9090 is not allowed in namespace shop: leave it out to use the operator's source, or have an administrator add shop to usage.policySources.namespaces"}},
		"cluster defaults need no permission":  {object: clusterDefaults(t, ownServer+"\nsloGuardrails: [{name: a, query: up, threshold: \"1\", comparison: \"<\"}]")},
		"the cluster's own server is no fault": {object: aPolicy(t, `{weight: 1}`), env: validation.Env{Cluster: clusterDefaults(t, ownServer)}},
	} {
		t.Run(name, func(t *testing.T) {
			v := validation.Validate(c.object, c.env)
			assert.Equal(t, c.denied, sentences(v.Denied))
			assert.Equal(t, c.warnings, sentences(v.Warnings))
		})
	}
}

// A cluster policy is validated only over the AttuneDefaults.
func TestValidateClusterPolicies(t *testing.T) {
	judge := func(spec string, cluster *v1alpha1.AttuneDefaults) validation.Verdict {
		p := &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
		require.NoError(t, yaml.UnmarshalStrict([]byte(spec), &p.Spec))
		return validation.Validate(p, validation.Env{Cluster: cluster, Operator: policy.Operator{SourceNamespaces: []string{"*"}}})
	}
	for spec, want := range map[string][]string{
		`memory: {maxAllowed: 3Mi}`: nil,
		`{targetRef: {kind: CronJob}, updateStrategy: {type: Auto}, sloGuardrails: [{name: a, query: up, threshold: "1", comparison: "<"}]}`: nil,
		ownServer:                   {"metricsSource.prometheus must not be set in an AttuneClusterPolicy, which has no namespace for Secrets: set it in the AttuneDefaults"},
		`namespaceSelector: {}`:     {"namespaceSelector {} is empty: leave it out to select every namespace, or set matchLabels, e.g. {stage: production}"},
		`memory: {maxAllowed: 1Mi}`: {"memory.minAllowed 2Mi (from the AttuneDefaults) must be less than or equal to memory.maxAllowed 1Mi: set memory.minAllowed to 1Mi or less"},
	} {
		assert.Equal(t, want, sentences(judge(spec, clusterDefaults(t, `memory: {minAllowed: 2Mi}`)).Denied), spec)
	}
	v := judge(`{}`, clusterDefaults(t, `{cpu: {minAllowed: 2, maxAllowed: 1}}`))
	assert.Empty(t, v.Denied)
	assert.Len(t, v.Warnings, 1)
}
