package input

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
)

const policyHead = "apiVersion: attune.io/v1alpha1\nkind: AttunePolicy\nmetadata: {name: web}\n"

func TestParseReadsPolicyAndDefaults(t *testing.T) {
	documents, err := ParsePolicy([]byte(`---
# the policy
apiVersion: attune.io/v1alpha1
kind: AttunePolicy
metadata: {name: web, namespace: shop, creationTimestamp: "2026-01-15T10:00:00Z"}
spec:
  targetRef: {kind: Deployment, selector: {matchLabels: {tier: api}}}
  metricsSource: {queryStep: 4m}
  cpu: {percentile: 95, overhead: "20", minAllowed: 1m, maxAllowed: 4, startupBoost: {multiplier: "2", duration: 30s}}
  updateStrategy: {maxConcurrentResizes: 10%, schedule: {daysOfWeek: [Monday]}}
---
apiVersion: attune.io/v1alpha1
kind: AttuneDefaults
metadata: {name: default}
spec: {costPricing: {cpuPerCoreHour: "0.03"}}
---
# nothing here
---
apiVersion: attune.io/v1alpha1
kind: AttuneNamespaceDefaults
metadata: {name: default}
spec: {paused: true}
`))
	require.NoError(t, err)
	spec := documents.Policy.Spec
	assert.Equal(t, "shop", documents.Policy.Namespace)
	assert.Equal(t, v1alpha1.KindDeployment, spec.TargetRef.Kind)
	assert.Equal(t, map[string]string{"tier": "api"}, spec.TargetRef.Selector.MatchLabels)
	assert.Equal(t, 4*time.Minute, spec.MetricsSource.QueryStep.Duration.Duration)
	assert.Equal(t, int32(95), *spec.CPU.Percentile)
	assert.Equal(t, v1alpha1.Percent("20"), *spec.CPU.Overhead)
	assert.Equal(t, int64(1), spec.CPU.MinAllowed.MilliValue())
	assert.Equal(t, int64(4), spec.CPU.MaxAllowed.Value())
	assert.Equal(t, 30*time.Second, spec.CPU.StartupBoost.Duration.Duration.Duration)
	assert.Equal(t, "10%", spec.UpdateStrategy.MaxConcurrentResizes.String())
	assert.Equal(t, v1alpha1.Decimal("0.03"), *documents.Cluster.Spec.CostPricing.CPUPerCoreHour)
	assert.True(t, *documents.Namespace.Spec.Paused)
}

func TestParseAcceptsOnlyAPolicy(t *testing.T) {
	documents, err := ParsePolicy([]byte(policyHead + "spec: {targetRef: {kind: Job}}\n"))
	require.NoError(t, err)
	assert.Equal(t, v1alpha1.KindJob, documents.Policy.Spec.TargetRef.Kind)
	assert.Nil(t, documents.Namespace)
	assert.Nil(t, documents.Cluster)
}

func TestParseNamesEveryMistake(t *testing.T) {
	const defaults = "---\napiVersion: attune.io/v1alpha1\nkind: AttuneDefaults\n"
	cases := map[string]struct{ text, want string }{
		"unknown field": {
			policyHead + "spec: {cpu: {percentil: 95}}",
			"unknown field spec.cpu.percentil: spec.cpu has the fields burstSensitivity, controlledValues, hpa, limits, maxAllowed, maxChangePercent, minAllowed, overhead, percentile, startupBoost",
		},
		"field in the wrong case": {
			policyHead + "Spec: {}",
			"unknown field Spec: the document has the fields apiVersion, kind, metadata, spec, status",
		},
		"several mistakes": {
			policyHead + "spec: {cpu: {overhead: 20}, memory: {minAllowed: lots}}",
			`spec.cpu.overhead 20 must be a string: write "20"; spec.memory.minAllowed "lots" must be a Kubernetes quantity, e.g. 500m or 64Mi`,
		},
		"duration": {
			policyHead + "spec: {metricsSource: {historyWindow: 7 days}}",
			`spec.metricsSource.historyWindow "7 days" must be a duration, e.g. "5m" or "168h"`,
		},
		"duration without unit": {
			policyHead + "spec: {metricsSource: {historyWindow: 168}}",
			`spec.metricsSource.historyWindow 168 must be a duration, e.g. "5m" or "168h"`,
		},
		"whole number": {
			policyHead + `spec: {cpu: {percentile: "95"}}`,
			`spec.cpu.percentile "95" must be a whole number without quotes, e.g. 95`,
		},
		"fraction": {
			policyHead + `spec: {cpu: {percentile: 99.5}}`,
			`spec.cpu.percentile 99.5 must be a whole number without quotes, e.g. 95`,
		},
		"switch": {
			policyHead + `spec: {paused: "yes"}`,
			`spec.paused "yes" must be true or false`,
		},
		"number or percentage": {
			policyHead + `spec: {updateStrategy: {maxConcurrentResizes: true}}`,
			`spec.updateStrategy.maxConcurrentResizes true must be a number or a percentage, e.g. 2 or 10%`,
		},
		"list": {
			policyHead + `spec: {excludedContainers: proxy}`,
			`spec.excludedContainers "proxy" must be a list, e.g. ["proxy"]`,
		},
		"in a list": {
			policyHead + `spec: {sloGuardrails: [{name: p99, threshold: 1}]}`,
			`spec.sloGuardrails[0].threshold 1 must be a string: write "1"`,
		},
		"in a map": {
			policyHead + `spec: {metricsSource: {prometheus: {queryParameters: {dedup: true}}}}`,
			`spec.metricsSource.prometheus.queryParameters.dedup true must be a string: write "true"`,
		},
		"object": {
			policyHead + `spec: {cpu: 500m}`,
			`spec.cpu "500m" must be an object: write its fields under it`,
		},
		"no object at all":  {"just a word", "not a Kubernetes object: start it with apiVersion attune.io/v1alpha1 and kind AttunePolicy"},
		"empty":             {"", "the file has no AttunePolicy: add a document with apiVersion attune.io/v1alpha1 and kind AttunePolicy"},
		"defaults alone":    {defaults + "metadata: {name: default}", "the file has no AttunePolicy: add a document with apiVersion attune.io/v1alpha1 and kind AttunePolicy"},
		"another group":     {"apiVersion: v1\nkind: ConfigMap", `apiVersion "v1" is not valid for attune: write attune.io/v1alpha1`},
		"another kind":      {"apiVersion: attune.io/v1alpha1\nkind: AttuneRecommendation", `kind "AttuneRecommendation" is not supported here: use AttunePolicy or AttuneClusterPolicy, and optionally AttuneNamespaceDefaults and AttuneDefaults`},
		"two policies":      {policyHead + "---\n" + policyHead, "document 2: the file has a second AttunePolicy: keep one of them"},
		"defaults' name":    {policyHead + defaults + "metadata: {name: mine}", `document 2: AttuneDefaults metadata.name "mine" is not used: write default`},
		"defaults' mistake": {policyHead + defaults + "metadata: {name: default}\nspec: {weight: 1}", "document 2: unknown field spec.weight: spec has the fields adaptive, admission, containerPolicies, costPricing, cpu, excludedContainers, memory, metricsSource, node, paused, profile, sloGuardrails, strategy, updateStrategy"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := ParsePolicy([]byte(c.text))
			assert.EqualError(t, err, c.want)
		})
	}
}

func TestParseSaysWhereYAMLBreaks(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"syntax":    {policyHead + "spec: {cpu", "invalid YAML: "},
		"duplicate": {policyHead + "spec: {paused: true, paused: false}", `key "paused" already set`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParsePolicy([]byte(c.text))
			assert.ErrorContains(t, err, c.want)
		})
	}
}

// kubectl get prints several objects as a list, with fields that the API server sets.
// As kubectl get --raw prints them.
func TestPoliciesInAnAttunePolicyList(t *testing.T) {
	got, err := ParsePolicy([]byte(`{apiVersion: attune.io/v1alpha1, kind: AttunePolicyList, items: [{apiVersion: attune.io/v1alpha1, kind: AttunePolicy, metadata: {name: web}, spec: {targetRef: {kind: Deployment}}}]}`))
	require.NoError(t, err)
	assert.Equal(t, "web", got.Policy.Name)
}

func TestPoliciesInAList(t *testing.T) {
	got, err := ParsePolicy([]byte(`apiVersion: v1
kind: List
metadata: {resourceVersion: ""}
items:
- apiVersion: attune.io/v1alpha1
  kind: AttuneDefaults
  metadata: {name: default}
  spec: {}
- apiVersion: attune.io/v1alpha1
  kind: AttunePolicy
  metadata:
    name: web
    namespace: shop
    creationTimestamp: "2026-03-01T12:00:00Z"
    generation: 2
    uid: 0e1f
    managedFields: [{manager: kubectl, operation: Apply, fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}}]
  spec: {targetRef: {kind: Deployment}}
  status: {conditions: [{type: Ready, status: "True", reason: Monitoring, message: "", lastTransitionTime: "2026-03-01T12:00:00Z"}]}
`))
	require.NoError(t, err)
	assert.Equal(t, "web", got.Policy.Name)
	assert.NotNil(t, got.Cluster)
}

// slowQuantities would take minutes to parse, or are refused by the same rule.
var slowQuantities = []string{"1e-300", "1e-90000000", "1e90000000"}

func TestSlowQuantitiesInAPolicy(t *testing.T) {
	for _, text := range slowQuantities {
		_, err := ParsePolicy([]byte(policyHead + `spec: {targetRef: {kind: Job}, cpu: {minAllowed: "` + text + `"}}`))
		require.ErrorContains(t, err, "spec.cpu.minAllowed", text)
	}
}

// A file that grows when its aliases are resolved is refused.
func TestYAMLBomb(t *testing.T) {
	bomb := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for name := 'b'; name < 'k'; name++ {
		bomb += string(name) + ": &" + string(name) + " [" + strings.TrimSuffix(strings.Repeat("*"+string(name-1)+", ", 10), ", ") + "]\n"
	}
	_, err := ParsePolicy([]byte(bomb))
	assert.ErrorContains(t, err, "invalid YAML")
}
