package output

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/internal/answers"
	"attune.io/attune/recommender"
)

// size returns a size from millicores and MiB.
func size(cpu, cpuLimit, memory, memoryLimit int64) recommender.Size {
	return recommender.Size{
		recommender.CPU:    {Request: recommender.Amount(cpu), Limit: recommender.Amount(cpuLimit)},
		recommender.Memory: {Request: recommender.Amount(memory << 20), Limit: recommender.Amount(memoryLimit << 20)},
	}
}

func pointer(s recommender.Size) *recommender.Size { return &s }

// scanned returns the only scan of the answer for one container, as a script reads it.
func scanned(t *testing.T, c KRRContainer) (of struct {
	Object struct {
		Cluster     *string
		Allocations struct{ Requests, Limits map[string]any }
	}
	Recommended struct {
		Requests, Limits map[string]struct {
			Value    any
			Severity string
		}
		Info map[string]*string
	}
	Severity string
}) {
	t.Helper()
	text, err := json.Marshal(NewKRR("", []KRRContainer{c}))
	require.NoError(t, err)
	var result struct{ Scans []json.RawMessage }
	require.NoError(t, json.Unmarshal(text, &result))
	require.Len(t, result.Scans, 1)
	require.NoError(t, json.Unmarshal(result.Scans[0], &of))
	return of
}

// Severities are KRR's: by the distance in cores and in MiB.
func TestSeverities(t *testing.T) {
	for _, test := range []struct {
		current, target recommender.Size
		cpu, memory     string
		all             string
	}{
		{size(100, 0, 100, 0), size(199, 0, 199, 0), "GOOD", "GOOD", "GOOD"},
		{size(100, 0, 100, 0), size(200, 0, 200, 0), "OK", "OK", "OK"},
		{size(500, 0, 500, 0), size(250, 0, 250, 0), "WARNING", "WARNING", "WARNING"},
		{size(100, 0, 100, 0), size(600, 0, 100, 0), "CRITICAL", "GOOD", "CRITICAL"},
		{size(100, 0, 600, 0), size(100, 0, 100, 0), "GOOD", "CRITICAL", "CRITICAL"},
		{size(0, 0, 100, 0), size(100, 0, 100, 0), "WARNING", "GOOD", "WARNING"},
		{size(100, 0, 100, 0), size(100, 0, 0, 0), "GOOD", "UNKNOWN", "GOOD"},
	} {
		of := scanned(t, KRRContainer{Current: &test.current, Target: test.target})
		assert.Equal(t, test.cpu, of.Recommended.Requests["cpu"].Severity, test)
		assert.Equal(t, test.memory, of.Recommended.Requests["memory"].Severity, test)
		assert.Equal(t, test.all, of.Severity, test)
	}
}

// Amounts are in cores and bytes; "?" means not known, null not set.
func TestAmounts(t *testing.T) {
	of := scanned(t, KRRContainer{Current: pointer(size(500, 1000, 1024, 0)), Target: size(200, 400, 768, 0)})
	assert.Equal(t, map[string]any{"cpu": 0.5, "memory": 1024. * 1048576}, of.Object.Allocations.Requests)
	assert.Equal(t, map[string]any{"cpu": 1., "memory": nil}, of.Object.Allocations.Limits)
	assert.Equal(t, 0.2, of.Recommended.Requests["cpu"].Value)
	assert.Equal(t, 0.4, of.Recommended.Limits["cpu"].Value)
	assert.Equal(t, 768.*1048576, of.Recommended.Requests["memory"].Value)
	assert.Nil(t, of.Recommended.Limits["memory"].Value)
	assert.Nil(t, of.Object.Cluster)

	// A limit without a target does not change.
	assert.Equal(t, 1., scanned(t, KRRContainer{Current: pointer(size(500, 1000, 1, 0)), Target: size(200, 0, 1, 0)}).Recommended.Limits["cpu"].Value)

	// A template that cannot be read.
	of = scanned(t, KRRContainer{Target: size(200, 0, 768, 0)})
	assert.Equal(t, map[string]any{"cpu": "?", "memory": "?"}, of.Object.Allocations.Requests)
	assert.Equal(t, 0.2, of.Recommended.Requests["cpu"].Value)
	assert.Equal(t, "UNKNOWN", of.Severity)
}

// A script must not apply values of blocked resources.
func TestBlockedResourceHasNoAmount(t *testing.T) {
	held := func(reason recommender.Reason) KRRContainer {
		return KRRContainer{
			Current: pointer(size(500, 0, 1024, 0)), Target: size(200, 0, 768, 0),
			Holds: []answers.Hold{{Resource: "cpu", Reason: string(reason), Message: "a sentence"}, {Resource: "cpu", Reason: "Other"}},
		}
	}
	of := scanned(t, held("HPAConflict"))
	assert.Equal(t, "?", of.Recommended.Requests["cpu"].Value)
	assert.Equal(t, "?", of.Recommended.Limits["cpu"].Value)
	assert.Equal(t, "UNKNOWN", of.Recommended.Requests["cpu"].Severity)
	assert.Equal(t, "HPAConflict: a sentence; Other", *of.Recommended.Info["cpu"])
	assert.Nil(t, of.Recommended.Info["memory"])
	assert.Equal(t, 768.*1048576, of.Recommended.Requests["memory"].Value)

	small := held(recommender.SmallChange)
	small.Holds = small.Holds[:1]
	of = scanned(t, small)
	assert.Equal(t, 0.2, of.Recommended.Requests["cpu"].Value)
	assert.NotNil(t, of.Recommended.Info["cpu"])
}

// The score is the share of good containers. A warning costs seven tenths.
func TestScore(t *testing.T) {
	good := KRRContainer{Current: pointer(size(100, 0, 100, 0)), Target: size(100, 0, 100, 0)}
	warned := KRRContainer{Current: pointer(size(400, 0, 100, 0)), Target: size(100, 0, 100, 0)}
	bad := KRRContainer{Current: pointer(size(900, 0, 100, 0)), Target: size(100, 0, 100, 0)}
	assert.Equal(t, 0, NewKRR("", nil).Score)
	assert.Equal(t, 100, NewKRR("", []KRRContainer{good, good}).Score)
	assert.Equal(t, 43, NewKRR("", []KRRContainer{good, warned, bad}).Score)
}

// Every key of KRR is always present, because scripts index them without a check.
func TestEveryKeyIsThere(t *testing.T) {
	text, err := json.Marshal(NewKRR("here", []KRRContainer{{Name: "app", Pods: []string{"web-1"}}}))
	require.NoError(t, err)
	var result map[string]any
	require.NoError(t, json.Unmarshal(text, &result))
	keys := func(of any) (names []string) {
		for name := range of.(map[string]any) {
			names = append(names, name)
		}
		return names
	}
	assert.ElementsMatch(t, []string{"scans", "score", "resources", "description", "strategy", "errors", "clusterSummary", "config"}, keys(result))
	scan := result["scans"].([]any)[0].(map[string]any)
	assert.ElementsMatch(t, []string{"object", "recommended", "severity", "metrics"}, keys(scan))
	assert.ElementsMatch(t, []string{"cluster", "name", "container", "pods", "hpa", "namespace", "kind", "allocations", "warnings", "labels", "annotations"}, keys(scan["object"]))
	assert.ElementsMatch(t, []string{"requests", "limits", "info"}, keys(scan["object"].(map[string]any)["allocations"]))
	assert.ElementsMatch(t, []string{"requests", "limits", "info"}, keys(scan["recommended"]))
	assert.Equal(t, []any{map[string]any{"name": "web-1", "deleted": false}}, scan["object"].(map[string]any)["pods"])
	assert.Equal(t, map[string]any{"name": "attune", "settings": map[string]any{}}, result["strategy"])
}
