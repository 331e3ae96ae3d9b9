package policy_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
)

func TestCPULimits(t *testing.T) {
	const form = `must be Keep, Remove, or an object with ratio, min or max, e.g. {ratio: "3", max: "4"}`
	for value, want := range map[string]recommender.LimitRule{
		`Keep`:                              {},
		`Remove`:                            {Remove: true},
		`{ratio: 3}`:                        {Thousandths: 3000},
		`{ratio: "1.5"}`:                    {Thousandths: 1500},
		`{ratio: "3", min: 500m, max: "4"}`: {Thousandths: 3000, Min: 500, Max: 4000},
		`{max: 4}`:                          {Max: 4000},
		`{min: 0.25, max: 250m}`:            {Min: 250, Max: 250},
		`{ratio: "1", min: "1000000"}`:      {Thousandths: 1000, Min: 1_000_000_000},
	} {
		s, err := policy.Resolve(nil, nil, aPolicy(t, "cpu: {limits: "+value+"}"))
		require.NoError(t, err, value)
		assert.Equal(t, want, s.Recommender.Of[recommender.CPU].Limits, value)
		assert.Equal(t, policy.Policy, s.Origin["cpu.limits"])
	}
	for value, want := range map[string]string{
		`keep`:                  `cpu.limits keep ` + form,
		`""`:                    `cpu.limits "" ` + form,
		`{}`:                    `cpu.limits {} ` + form,
		`3`:                     `cpu.limits 3 ` + form,
		`true`:                  `cpu.limits true ` + form,
		`[Remove]`:              `cpu.limits ["Remove"] ` + form,
		`{rato: "3"}`:           `cpu.limits {"rato":"3"} ` + form,
		`{ratio: {a: b}}`:       `cpu.limits {"ratio":{"a":"b"}} ` + form,
		`{ratio: true}`:         `cpu.limits {"ratio":true} ` + form,
		`{ratio: "0.5"}`:        `cpu.limits {"ratio":"0.5"} must have a ratio from 1 to 1000, e.g. {ratio: "3"}`,
		`{ratio: "1e3"}`:        `cpu.limits {"ratio":"1e3"} must have a ratio from 1 to 1000, e.g. {ratio: "3"}`,
		`{ratio: "NaN"}`:        `cpu.limits {"ratio":"NaN"} must have a ratio from 1 to 1000, e.g. {ratio: "3"}`,
		`{min: "0"}`:            `cpu.limits {"min":"0"} must have a min greater than 0 and at most 1M, e.g. {min: 500m}`,
		`{max: lots}`:           `cpu.limits {"max":"lots"} must have a max greater than 0 and at most 1M, e.g. {max: "4"}`,
		`{max: "1e-90000000"}`:  `cpu.limits {"max":"1e-90000000"} must have a max greater than 0 and at most 1M, e.g. {max: "4"}`,
		`{min: "2", max: 500m}`: `cpu.limits {"max":"500m","min":"2"} must have a min that is less than or equal to max, e.g. {min: 500m, max: "4"}`,
	} {
		s, err := policy.Resolve(nil, nil, aPolicy(t, "cpu: {limits: "+value+"}"))
		assert.EqualError(t, err, want)
		assert.Zero(t, s.Recommender.Of[recommender.CPU].Limits, value)
	}
}

// A rule and RequestsOnly contradict each other, whichever level sets them. Keep goes with both.
func TestCPULimitsNeedLimitsThatFollow(t *testing.T) {
	_, err := policy.Resolve(nil, nil, aPolicy(t, "cpu: {controlledValues: RequestsOnly, limits: Remove}"))
	assert.EqualError(t, err, `cpu.limits Remove does not work with cpu.controlledValues RequestsOnly, which leaves limits unchanged: set cpu.limits to Keep, or cpu.controlledValues to RequestsAndLimits`)
	_, err = policy.Resolve(clusterDefaults(t, `cpu: {limits: {max: "4"}}`), nil, aPolicy(t, "cpu: {controlledValues: RequestsOnly}"))
	assert.EqualError(t, err, `cpu.limits {"max":"4"} (from the AttuneDefaults) does not work with cpu.controlledValues RequestsOnly, which leaves limits unchanged: set cpu.limits to Keep, or cpu.controlledValues to RequestsAndLimits`)
	_, err = policy.Resolve(clusterDefaults(t, `cpu: {limits: Remove}`), nil, aPolicy(t, "cpu: {controlledValues: RequestsOnly, limits: Keep}"))
	assert.NoError(t, err)
}

func TestCPULimitsOfStrategyNode(t *testing.T) {
	s, err := policy.Resolve(nil, nil, aPolicy(t, "{strategy: Node, cpu: {limits: Remove}}"))
	require.NoError(t, err)
	assert.Zero(t, s.Recommender.Of[recommender.CPU].Limits)
	assert.Contains(t, s.Remarks(), "cpu.limits: no effect with strategy Node. Remove the fields from the policy")
}

// Keep changes no digest, so targets are not computed again after an upgrade.
func TestKeepIsTheBuiltInValue(t *testing.T) {
	with, err := policy.Resolve(nil, nil, aPolicy(t, "cpu: {limits: Keep}"))
	require.NoError(t, err)
	without, err := policy.Resolve(nil, nil, aPolicy(t, "weight: 100"))
	require.NoError(t, err)
	assert.Equal(t, without.Digest(), with.Digest())
	removed, err := policy.Resolve(nil, nil, aPolicy(t, "cpu: {limits: Remove}"))
	require.NoError(t, err)
	assert.NotEqual(t, without.Digest(), removed.Digest())
}

// FuzzCPULimits decodes any JSON value: one stored object must not keep the others from being read. What is written
// decodes to the same value.
func FuzzCPULimits(f *testing.F) {
	for _, text := range []string{`"Keep"`, `"Remove"`, `{"ratio":"3"}`, `{"ratio":1e999}`, `[[[]]]`, `null`, `"` + strings.Repeat("é", 2000) + `"`, `{"max":"1e-90000000"}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) {
			return
		}
		var cpu v1alpha1.CPUSettings
		require.NoError(t, json.Unmarshal([]byte(`{"limits":`+string(text)+`}`), &cpu))
		if cpu.Limits == nil {
			return
		}
		assert.LessOrEqual(t, len(cpu.Limits.JSON), v1alpha1.MaxCPULimits)
		written, err := json.Marshal(cpu)
		require.NoError(t, err)
		var again v1alpha1.CPUSettings
		require.NoError(t, json.Unmarshal(written, &again))
		rule, why := policy.LimitRuleOf(*cpu.Limits)
		same, _ := policy.LimitRuleOf(*again.Limits)
		assert.Equal(t, rule, same)
		if why != "" {
			assert.Zero(t, rule)
			return
		}
		assert.False(t, rule.Max > 0 && rule.Min > rule.Max)
		assert.True(t, rule.Thousandths == 0 || rule.Thousandths >= 1000 && rule.Thousandths <= 1_000_000)
	})
}
