package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
)

// aClusterPolicy decodes a spec from YAML. Its creation time is the epoch.
func aClusterPolicy(t testing.TB, name, spec string) *v1alpha1.AttuneClusterPolicy {
	t.Helper()
	p := &v1alpha1.AttuneClusterPolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "uid", Generation: 3, CreationTimestamp: metav1.NewTime(epoch)}}
	read(t, spec, &p.Spec)
	return p
}

func TestScope(t *testing.T) {
	prod := map[string]string{"stage": "production"}
	for _, c := range []struct {
		spec, namespace string
		labels          map[string]string
		want            bool
	}{
		{`{}`, "shop", nil, true},
		{`{}`, "kube-system", nil, false},
		{`{}`, "kube-public", nil, false},
		{`{}`, "kube-node-lease", nil, false},
		{`{}`, "attune-system", nil, false},
		{`{}`, "default", nil, true},
		{`namespaces: [kube-system]`, "kube-system", nil, true},
		{`namespaces: [kube-system]`, "shop", nil, false},
		{`namespaces: [attune-system]`, "attune-system", nil, true},
		{`namespaceSelector: {matchLabels: {stage: production}}`, "shop", prod, true},
		{`namespaceSelector: {matchLabels: {stage: production}}`, "shop", nil, false},
		{`namespaceSelector: {matchLabels: {stage: production}}`, "kube-system", prod, false},
		{`namespaceSelector: {matchExpressions: [{key: stage, operator: DoesNotExist}]}`, "shop", nil, true},
		// A namespace without its labels is selected only by name.
		{`namespaceSelector: {matchExpressions: [{key: stage, operator: DoesNotExist}]}`, "shop", map[string]string{clip.LabelsLeftOut: ""}, false},
		{`{}`, "shop", map[string]string{clip.LabelsLeftOut: ""}, true},
		// Name and selector must both match.
		{`{namespaces: [shop], namespaceSelector: {matchLabels: {stage: production}}}`, "shop", prod, true},
		{`{namespaces: [shop], namespaceSelector: {matchLabels: {stage: production}}}`, "shop", nil, false},
		{`{namespaces: [shop], namespaceSelector: {matchLabels: {stage: production}}}`, "bank", prod, false},
		{`{namespaces: [kube-system], namespaceSelector: {matchLabels: {stage: production}}}`, "kube-system", prod, true},
		// An invalid selector selects nothing.
		{`namespaceSelector: {}`, "shop", nil, false},
		{`namespaceSelector: {matchExpressions: [{key: stage, operator: Like}]}`, "shop", nil, false},
	} {
		scope, err := policy.ScopeOf(aClusterPolicy(t, "base", c.spec), "attune-system")
		assert.Equal(t, strings.Contains(c.spec, "Selector: {}") || strings.Contains(c.spec, "Like"), err != nil, c.spec)
		assert.Equal(t, c.want, scope.Selects(c.namespace, c.labels), "%s selects %s %v", c.spec, c.namespace, c.labels)
	}
	great := aClusterPolicy(t, "base", `{}`)
	great.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": strings.Repeat("x", 17<<10)}}
	scope, err := policy.ScopeOf(great, "")
	assert.ErrorContains(t, err, "16 KiB")
	assert.False(t, scope.Selects("shop", nil))
	assert.False(t, policy.Scope{}.Selects("shop", nil))
}

// An instance never has the name of an AttunePolicy.
func TestInstancesHaveNamesThatNoObjectHas(t *testing.T) {
	p := policy.Instance(aClusterPolicy(t, "base", `{weight: 7}`), "shop", true)
	assert.Equal(t, "AttuneClusterPolicy/base", p.Name)
	assert.True(t, policy.OfCluster(p))
	assert.Nil(t, p.DeletionTimestamp)
	ref := policy.RefOf(p)
	assert.Equal(t, v1alpha1.PolicyRef{Kind: "AttuneClusterPolicy", Name: "base", UID: "uid", Generation: 3}, ref)
	assert.Equal(t, p.Name, policy.NameOf(ref))

	own := named(t, "base", `targetRef: {kind: Deployment}`)
	assert.False(t, policy.OfCluster(&own))
	assert.Equal(t, "base", policy.NameOf(policy.RefOf(&own)))
	assert.Empty(t, policy.RefOf(&own).Kind)

	assert.NotNil(t, policy.Instance(aClusterPolicy(t, "base", `{}`), "bank", false).DeletionTimestamp, "where it is not selected, it ends")
}

func TestPrecedenceOfClusterPolicies(t *testing.T) {
	later := metav1.NewTime(epoch.Add(time.Hour))
	instance := func(name, spec string, change ...func(*v1alpha1.AttuneClusterPolicy)) v1alpha1.AttunePolicy {
		p := aClusterPolicy(t, name, spec)
		for _, f := range change {
			f(p)
		}
		return *policy.Instance(p, "shop", true)
	}
	young := func(p *v1alpha1.AttuneClusterPolicy) { p.CreationTimestamp = later }
	own := named(t, "own", `{targetRef: {kind: Deployment}, weight: 1}`)
	for name, c := range map[string]struct {
		policies []v1alpha1.AttunePolicy
		winner   string
		reason   string
	}{
		"the namespace's own wins, whatever the weights": {[]v1alpha1.AttunePolicy{instance("base", `{weight: 1000}`), own}, "own", "an AttunePolicy takes precedence over an AttuneClusterPolicy"},
		"weight":                        {[]v1alpha1.AttunePolicy{instance("a", `{}`), instance("b", `{weight: 101}`, young)}, "AttuneClusterPolicy/b", "weight 101 over 100"},
		"then age":                      {[]v1alpha1.AttunePolicy{instance("a", `{}`, young), instance("b", `{}`)}, "AttuneClusterPolicy/b", "before"},
		"then name":                     {[]v1alpha1.AttunePolicy{instance("b", `{}`), instance("a", `{}`)}, "AttuneClusterPolicy/a", "name AttuneClusterPolicy/a before AttuneClusterPolicy/b"},
		"all kinds where it names none": {[]v1alpha1.AttunePolicy{instance("a", `{}`)}, "AttuneClusterPolicy/a", ""},
		"its kind":                      {[]v1alpha1.AttunePolicy{instance("a", `targetRef: {kind: Deployment}`)}, "AttuneClusterPolicy/a", ""},
		"another kind":                  {[]v1alpha1.AttunePolicy{instance("a", `targetRef: {kind: StatefulSet}`)}, "", ""},
		"labels of any kind":            {[]v1alpha1.AttunePolicy{instance("a", `targetRef: {selector: {matchLabels: {tier: api}}}`)}, "AttuneClusterPolicy/a", ""},
		"other labels":                  {[]v1alpha1.AttunePolicy{instance("a", `targetRef: {selector: {matchLabels: {tier: web}}}`)}, "", ""},
		"an own one that selects another workload": {[]v1alpha1.AttunePolicy{instance("a", `{}`), named(t, "own", `targetRef: {kind: Deployment, name: web}`)}, "AttuneClusterPolicy/a", ""},
	} {
		t.Run(name, func(t *testing.T) {
			winner, losers := policy.NewMatcher(c.policies).Match(api())
			if c.winner == "" {
				assert.Nil(t, winner)
				return
			}
			require.NotNil(t, winner)
			assert.Equal(t, c.winner, winner.Name)
			if c.reason == "" {
				assert.Empty(t, losers)
			} else if assert.Len(t, losers, 1) {
				assert.Contains(t, losers[0].Reason(), c.reason)
			}
		})
	}
	_, losers := policy.NewMatcher([]v1alpha1.AttunePolicy{*policy.Instance(aClusterPolicy(t, "a", `{}`), "shop", false)}).Match(api())
	assert.Empty(t, losers)
	for _, kind := range workload.Kinds {
		winner, _ := policy.NewMatcher([]v1alpha1.AttunePolicy{instance("a", `{}`)}).Match(api(func(w *workload.Workload) { w.Kind = kind }))
		assert.NotNil(t, winner, kind)
	}
}

func TestSettingsOfAClusterPolicy(t *testing.T) {
	instance := func(spec string) *v1alpha1.AttunePolicy {
		return policy.Instance(aClusterPolicy(t, "base", spec), "shop", true)
	}
	s, err := policy.Resolve(nil, nil, instance(`{}`))
	require.NoError(t, err)
	assert.Equal(t, v1alpha1.UpdateRecommend, s.Resize.Mode, "an empty one recommends")

	defaults := namespaceDefaults(t, `{cpu: {percentile: 90}, memory: {percentile: 90}, paused: true}`)
	s, err = policy.Resolve(clusterDefaults(t, `{cpu: {overhead: "5"}}`), defaults, instance(`{memory: {percentile: 50}}`))
	require.NoError(t, err)
	assert.Equal(t, policy.Level("AttuneClusterPolicy base"), s.Origin["memory.percentile"])
	assert.Equal(t, policy.Namespace, s.Origin["cpu.percentile"])
	assert.Equal(t, policy.Cluster, s.Origin["cpu.overhead"])
	assert.Equal(t, []string{"namespace"}, s.Resize.Paused)

	_, err = policy.Resolve(nil, namespaceDefaults(t, `cpu: {maxAllowed: 1}`), instance(`cpu: {minAllowed: 2}`))
	assert.EqualError(t, err, "cpu.minAllowed 2 must be less than or equal to cpu.maxAllowed 1 (from the AttuneNamespaceDefaults): set cpu.minAllowed to 1 or less")

	// A cluster policy may not name a server. It may have guardrails, like AttuneDefaults.
	_, err = policy.ResolveAllowed(nil, nil, instance(`metricsSource: {prometheus: {address: "http://prometheus.monitoring:9090"}}`), policy.Operator{SourceNamespaces: []string{"*"}})
	assert.ErrorContains(t, err, "metricsSource.prometheus must not be set in an AttuneClusterPolicy")
	s, err = policy.ResolveAllowed(nil, nil, instance(`sloGuardrails: [{name: a, query: up, threshold: "1", comparison: "<"}]`), policy.Operator{})
	require.NoError(t, err)
	assert.Len(t, s.Resize.Guardrails, 1)

	for spec, want := range map[string]string{
		`targetRef: {selector: {}}`: "targetRef.selector {} is empty",
		`targetRef: {kind: Pod}`:    `targetRef.kind "Pod" is not one of`,
	} {
		_, err := policy.Resolve(nil, nil, instance(spec))
		assert.ErrorContains(t, err, want)
	}
	_, err = policy.Resolve(nil, nil, aPolicy(t, `targetRef: {kind: ""}`))
	assert.ErrorContains(t, err, "targetRef.kind", "an AttunePolicy has to name a kind")
}

func TestSpared(t *testing.T) {
	critical := corev1.PodSpec{PriorityClassName: "system-node-critical"}
	great, usual := corev1.PodSpec{Priority: ptr.To[int32](2_000_000_000)}, corev1.PodSpec{Priority: ptr.To[int32](1_999_999_999), PriorityClassName: "high"}
	of := func(namespace string) policy.Spared {
		s, err := policy.ResolveAllowed(nil, nil, policy.Instance(aClusterPolicy(t, "base", `{}`), namespace, true), policy.Operator{Namespace: "attune-system"})
		require.NoError(t, err)
		return s.Spared
	}
	for _, spec := range []corev1.PodSpec{critical, great, {PriorityClassName: "system-cluster-critical"}} {
		assert.True(t, of("kube-system").Spares(&spec), "%+v", spec)
		assert.True(t, of("attune-system").Spares(&spec))
	}
	assert.False(t, of("shop").Spares(&usual))
	assert.True(t, of("attune-system").Spares(&usual), "the operator never lowers itself")
	own, err := policy.ResolveAllowed(nil, nil, aPolicy(t, `targetRef: {kind: Deployment}`), policy.Operator{Namespace: "shop"})
	require.NoError(t, err)
	assert.False(t, own.Spared.Spares(&critical), "who writes an AttunePolicy there means it")
}

func TestTheOldestClusterPoliciesAreUsed(t *testing.T) {
	var all []v1alpha1.AttuneClusterPolicy
	for i := range policy.MostClusterPolicies + 2 {
		p := aClusterPolicy(t, fmt.Sprintf("p-%02d", i), `{}`)
		p.CreationTimestamp = metav1.NewTime(epoch.Add(-time.Duration(i) * time.Minute))
		all = append(all, *p)
	}
	all[5].DeletionTimestamp = &metav1.Time{Time: epoch}
	used, beyond := policy.UsedClusterPolicies(all)
	assert.Len(t, used, policy.MostClusterPolicies)
	assert.Equal(t, "p-17", used[0].Name)
	require.Len(t, beyond, 2)
	assert.Equal(t, "p-00", beyond[0].Name, "the youngest")
	assert.Equal(t, "p-05", beyond[1].Name, "one that is being deleted takes no place")
}
