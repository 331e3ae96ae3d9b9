package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/internal/policy"
)

func digestOf(t *testing.T, spec string) string {
	t.Helper()
	s, err := policy.Resolve(nil, nil, aPolicy(t, spec))
	require.NoError(t, err, spec)
	return s.Digest()
}

func TestDigestChangesWithWhatTargetsDependOn(t *testing.T) {
	seen := map[string]string{digestOf(t, `{weight: 1}`): "built-in"}
	for _, spec := range []string{
		`cpu: {percentile: 50}`, `memory: {percentile: 50}`,
		`cpu: {overhead: "21"}`, `cpu: {minAllowed: 1m}`, `cpu: {maxAllowed: 9}`, `memory: {maxAllowed: 9Mi}`,
		`cpu: {controlledValues: RequestsOnly}`, `cpu: {maxChangePercent: 51}`, `cpu: {burstSensitivity: "0"}`,
		`memory: {allowDecrease: true}`,
		`metricsSource: {historyWindow: 24h}`, `metricsSource: {queryStep: 1m}`, `metricsSource: {rateWindow: 1m}`, `metricsSource: {minimumDataPoints: 47}`,
		`metricsSource: {prometheus: {address: "http://a"}}`, `metricsSource: {prometheus: {address: "http://a", headers: {A: b}}}`,
		`strategy: Node`, `adaptive: {risk: High}`,
		`excludedContainers: [a]`, `excludedContainers: [b]`,
	} {
		digest := digestOf(t, spec)
		assert.Empty(t, seen[digest], "%s has the digest of %s", spec, seen[digest])
		seen[digest] = spec
	}
}

func TestDigestStaysOtherwise(t *testing.T) {
	same := digestOf(t, `excludedContainers: [a, b]`)
	for _, spec := range []string{
		`excludedContainers: [b, a]`,
		`{excludedContainers: [a, b], weight: 7, paused: true, admission: Disabled}`,
		`{excludedContainers: [a, b], updateStrategy: {type: Auto, cooldown: 2h, autoRevert: false, canary: {percentage: 50}, schedule: {timezone: Asia/Tokyo}}}`,
		`{excludedContainers: [a, b], node: {eviction: Enabled}, sloGuardrails: [{name: a, query: up, threshold: "1", comparison: "<"}]}`,
		`{excludedContainers: [a, b], cpu: {percentile: 95, overhead: "20.0"}}`,
	} {
		assert.Equal(t, same, digestOf(t, spec), spec)
	}
	s, err := policy.Resolve(clusterDefaults(t, `excludedContainers: [a, b]`), nil, aPolicy(t, `{weight: 1}`))
	require.NoError(t, err)
	assert.Equal(t, same, s.Digest(), "the level that sets a field does not matter")
	assert.Len(t, same, 16)
}
