package policy_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
)

// Settings that are valid and probably not meant are named: fields without effect, and a minimum that few nodes have.
func TestRemarks(t *testing.T) {
	for name, c := range map[string]struct {
		cluster, policy string
		want            []string
	}{
		"nothing": {policy: `{cpu: {percentile: 90, minAllowed: 250m}, updateStrategy: {type: Canary, canary: {autoPromote: false}}}`},
		"a minimum without its unit": {policy: `cpu: {minAllowed: "250"}`,
			want: []string{"cpu.minAllowed 250 is more CPU than most nodes have. Write millicores with their unit, e.g. 250m"}},
		"memory without its unit": {cluster: `memory: {minAllowed: 512Ki}`, policy: `memory: {maxAllowed: 512}`,
			want: []string{"memory.minAllowed 512Ki (from the AttuneDefaults) is less than 1Mi. Add the unit, e.g. 512Mi. Until then attune requests at least 4Mi",
				"memory.maxAllowed 512 is less than 1Mi. Add the unit, e.g. 512Mi. Until then attune requests at least 4Mi"}},
		"a maximum may be large": {policy: `cpu: {maxAllowed: "250"}`},
		"a maximum that no node has": {policy: `{cpu: {maxAllowed: "1000"}, containerPolicies: [{containerName: app, cpu: {percentile: 90}}, {containerName: web, cpu: {maxAllowed: "2000"}}]}`,
			want: []string{"cpu.maxAllowed 1000 is more CPU than nodes have, so it limits nothing. Write millicores with their unit, e.g. 500m",
				"containerPolicies[web].cpu.maxAllowed 2000 is more CPU than nodes have, so it limits nothing. Write millicores with their unit, e.g. 500m"}},
		"limits that OneShot does not remove": {policy: `{cpu: {limits: Remove}, updateStrategy: {type: OneShot}, containerPolicies: [{containerName: app, cpu: {limits: {ratio: "2"}}}]}`,
			want: []string{"cpu.limits Remove: no limit is removed with updateStrategy.type OneShot, because only new pods can have none. Running pods keep theirs"}},
		"limits that stay without admission": {policy: `{admission: Disabled, updateStrategy: {type: Auto}, containerPolicies: [{containerName: app, cpu: {limits: Remove}}]}`,
			want: []string{"containerPolicies[app].cpu.limits Remove: no limit is removed with admission Disabled, because only new pods can have none. Running pods keep theirs"}},
		"limits that a later mode removes": {policy: `{cpu: {limits: Remove}, updateStrategy: {type: Recommend}}`},
		"Node": {policy: `{strategy: Node, cpu: {percentile: 90}, memory: {overhead: "10"}, adaptive: {risk: High}, node: {group: shop}}`,
			want: []string{"cpu.percentile, memory.overhead: no effect with strategy Node. Remove the fields from the policy",
				"adaptive.risk: no effect with strategy Node. Remove the fields from the policy"}},
		"Adaptive": {policy: `{strategy: Adaptive, memory: {burstSensitivity: "0"}, node: {eviction: Enabled}, adaptive: {risk: High}}`,
			want: []string{"memory.burstSensitivity, node.eviction: no effect with strategy Adaptive. Remove the fields from the policy"}},
		"Workload": {policy: `node: {evictionRanking: Never}`,
			want: []string{"node.evictionRanking: no effect with strategy Workload. Remove the fields from the policy"}},
		"Auto of the defaults": {cluster: `updateStrategy: {type: Auto}`, policy: `updateStrategy: {canary: {percentage: 20, autoPromote: false}}`,
			want: []string{"updateStrategy.canary.autoPromote: no effect with updateStrategy.type Auto. Remove the fields from the policy"}},
		"promotion of the defaults": {cluster: `updateStrategy: {canary: {autoPromote: false}}`, policy: `updateStrategy: {type: Auto}`},
		"OneShot": {policy: `{updateStrategy: {type: OneShot}, cpu: {startupBoost: {multiplier: "2", duration: 1m}}}`,
			want: []string{"cpu.startupBoost: no effect with updateStrategy.type OneShot. Remove the fields from the policy"}},
		"Initial": {policy: `updateStrategy: {type: Initial, cooldown: 2h, resizeMethod: InPlaceOrRecreate}`,
			want: []string{"updateStrategy.cooldown, updateStrategy.resizeMethod: no effect with updateStrategy.type Initial. Remove the fields from the policy"}},
		"OneShot raises no memory before a kill": {policy: `{updateStrategy: {type: OneShot}, memory: {raiseBeforeKill: Auto}}`,
			want: []string{"memory.raiseBeforeKill: no effect with updateStrategy.type OneShot. Remove the fields from the policy"}},
		"Initial has no days": {policy: `updateStrategy: {type: Initial, schedule: {daysOfWeek: [Saturday], timezone: Europe/Berlin}}`,
			want: []string{"updateStrategy.schedule.daysOfWeek, updateStrategy.schedule.timezone: no effect with updateStrategy.type Initial. Remove the fields from the policy"}},
		"Initial watches no resize": {policy: `{updateStrategy: {type: Initial}, sloGuardrails: [{name: up, query: up, threshold: "1", comparison: "<"}]}`,
			want: []string{"sloGuardrails: no effect with updateStrategy.type Initial. Remove the fields from the policy"}},
		"Initial without admission": {policy: `{updateStrategy: {type: Initial}, admission: Disabled}`,
			want: []string{"attune changes no pods: updateStrategy.type Initial sizes only new pods, and the setting admission is Disabled. Use Auto to resize running pods, or set admission: Enabled"}},
		"Initial without admission, by the defaults": {cluster: `admission: Disabled`, policy: `updateStrategy: {type: Initial}`,
			want: []string{"attune changes no pods: updateStrategy.type Initial sizes only new pods, and the setting admission is Disabled. Use Auto to resize running pods, or set admission: Enabled"}},
		"Auto without admission": {policy: `{updateStrategy: {type: Auto}, admission: Disabled}`},
		"a boost without admission": {policy: `{updateStrategy: {type: Auto}, admission: Disabled, cpu: {startupBoost: {multiplier: "2", duration: 1m}}}`,
			want: []string{"cpu.startupBoost: no effect with admission Disabled. Remove the fields from the policy"}},
		"admission in a mode that only shows": {policy: `{updateStrategy: {type: Recommend}, admission: Enabled}`,
			want: []string{"admission: no effect with updateStrategy.type Recommend. Remove the fields from the policy"}},
		"a time zone alone": {policy: `updateStrategy: {schedule: {timezone: Europe/Berlin}}`,
			want: []string{"updateStrategy.schedule.timezone: no effect with updateStrategy.schedule without windows and daysOfWeek. Remove the fields from the policy"}},
		"a time zone of days":       {policy: `updateStrategy: {schedule: {timezone: Europe/Berlin, daysOfWeek: [Saturday]}}`},
		"less than most nodes have": {policy: `cpu: {minAllowed: "99"}`},
		"a minimum of the defaults": {cluster: `cpu: {minAllowed: "500"}`,
			want: []string{"cpu.minAllowed 500 is more CPU than most nodes have. Write millicores with their unit, e.g. 250m"}},
		"lower levels are for other policies too": {cluster: `{cpu: {percentile: 90}, node: {eviction: Enabled}}`, policy: `strategy: Node`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := policy.Resolve(clusterDefaults(t, c.cluster), nil, aPolicy(t, c.policy))
			require.NoError(t, err)
			assert.Equal(t, c.want, s.Remarks())
		})
	}
}

// The labels select series of a server; kubelets have none.
func TestLabelsOfKubelets(t *testing.T) {
	for _, c := range []struct {
		policy   string
		operator policy.Operator
		want     []string
	}{
		{`metricsSource: {labels: {cluster: eu-1}}`, policy.Operator{Embedded: true}, []string{"metricsSource.labels: no effect with usage.source embedded. Remove the fields from the policy"}},
		{`metricsSource: {labels: {cluster: eu-1}}`, policy.Operator{}, nil},
		{`metricsSource: {labels: {cluster: eu-1}, prometheus: {address: "http://prometheus:9090"}}`, policy.Operator{Embedded: true, SourceNamespaces: []string{"*"}}, nil},
	} {
		s, err := policy.ResolveAllowed(nil, nil, aPolicy(t, c.policy), c.operator)
		require.NoError(t, err)
		assert.Equal(t, c.want, s.Remarks(), c.policy)
	}
}

// Earlier releases accepted bounds of memory below 1Mi. A new object with one is rejected. Stored ones are valid, and their
// containers get the least size.
func TestMemoryBoundsThatCannotBeMeant(t *testing.T) {
	for _, c := range []struct {
		bounds, want string
		least, most  recommender.Amount
	}{
		{`{maxAllowed: 512}`, "memory.maxAllowed 512 is less than 1Mi. Add the unit, e.g. 512Mi", 0, 4 << 20},
		{`{minAllowed: 100m}`, "memory.minAllowed 100m is less than 1Mi. Add the unit, e.g. 512Mi", 1, 0},
		{`{minAllowed: 512Ki, maxAllowed: 2Mi}`, "memory.minAllowed 512Ki is less than 1Mi. Add the unit, e.g. 512Mi", 512 << 10, 2 << 20},
		{`{minAllowed: 1Mi, maxAllowed: 1Mi}`, "", 1 << 20, 1 << 20},
	} {
		p := aPolicy(t, "memory: "+c.bounds)
		s, err := policy.Resolve(nil, nil, p)
		require.NoError(t, err)
		assert.Equal(t, [2]recommender.Amount{c.least, c.most}, [2]recommender.Amount{s.Recommender.Of[recommender.Memory].MinAllowed, s.Recommender.Of[recommender.Memory].MaxAllowed}, c.bounds)
		if _, err = policy.ResolveNew(nil, nil, p, policy.Operator{}); c.want == "" {
			assert.NoError(t, err)
		} else {
			assert.EqualError(t, err, c.want)
		}
	}
	p := aPolicy(t, "{memory: {minAllowed: 512}, cpu: {percentile: 101}}")
	_, err := policy.ResolveNew(nil, nil, p, policy.Operator{})
	assert.EqualError(t, err, "cpu.percentile 101 must be between 1 and 100, e.g. 95; memory.minAllowed 512 is less than 1Mi. Add the unit, e.g. 512Mi")
}
