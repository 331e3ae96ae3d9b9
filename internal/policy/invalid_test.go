package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
)

func problems(t *testing.T, err error) []policy.Problem {
	t.Helper()
	var invalid *policy.InvalidConfig
	require.ErrorAs(t, err, &invalid)
	return invalid.Problems
}

// TestOneField covers the checks of single fields: settings may come from files that no API server has checked.
func TestOneField(t *testing.T) {
	for name, c := range map[string]struct{ spec, want string }{
		"kind":          {`targetRef: {kind: Pod}`, `targetRef.kind "Pod" is not one of Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob or Rollout, nor KIND.GROUP of another kind, such as CloneSet.apps.kruise.io`},
		"kind.group":    {`targetRef: {kind: Deployment.apps}`, `targetRef.kind "Deployment.apps" is not one of Deployment, StatefulSet, DaemonSet, ReplicaSet, Job, CronJob or Rollout, nor KIND.GROUP of another kind, such as CloneSet.apps.kruise.io`},
		"name+selector": {`targetRef: {kind: Job, name: a, selector: {matchLabels: {a: b}}}`, `targetRef must not have both name and selector: remove one of them`},
		"selector {}":   {`targetRef: {kind: Job, selector: {}}`, `targetRef.selector {} is empty: leave it out to target every workload of the kind, or set matchLabels, e.g. {tier: api}`},
		"selector":      {`targetRef: {kind: Job, selector: {matchExpressions: [{key: a, operator: Is}]}}`, `targetRef.selector is invalid ("Is" is not a valid label selector operator): use matchLabels, e.g. {tier: api}`},
		"percentile":    {`cpu: {percentile: 101}`, `cpu.percentile 101 must be between 1 and 100, e.g. 95`},
		"overhead":      {`memory: {overhead: "30%"}`, `memory.overhead 30% must be a decimal number between 0 and 1000, e.g. "30"`},
		"overhead max":  {`cpu: {overhead: "1000.1"}`, `cpu.overhead 1000.1 must be a decimal number between 0 and 1000, e.g. "20"`},
		"overhead inf":  {`cpu: {overhead: "Inf"}`, `cpu.overhead Inf must be a decimal number between 0 and 1000, e.g. "20"`},
		"overhead NaN":  {`cpu: {overhead: "NaN"}`, `cpu.overhead NaN must be a decimal number between 0 and 1000, e.g. "20"`},
		"overhead exp":  {`cpu: {overhead: "2e1"}`, `cpu.overhead 2e1 must be a decimal number between 0 and 1000, e.g. "20"`},
		"overhead none": {`cpu: {overhead: ""}`, `cpu.overhead "" must be a decimal number between 0 and 1000, e.g. "20"`},
		"burst":         {`cpu: {burstSensitivity: "-1"}`, `cpu.burstSensitivity -1 must be a decimal number between 0 and 10, e.g. "0.1"`},
		"zero":          {`cpu: {minAllowed: 0}`, `cpu.minAllowed 0 must be greater than 0 and at most 1M, e.g. 50m`},
		"negative":      {`memory: {maxAllowed: -1Gi}`, `memory.maxAllowed -1Gi must be greater than 0 and at most 1Ei, e.g. 8Gi`},
		"cpu as memory": {`cpu: {maxAllowed: 8Gi}`, `cpu.maxAllowed 8Gi must be greater than 0 and at most 1M, e.g. 4`},
		"overflow":      {`memory: {maxAllowed: 1e30}`, `memory.maxAllowed 1e+30 must be greater than 0 and at most 1Ei, e.g. 8Gi`},
		"step":          {`cpu: {maxChangePercent: 0}`, `cpu.maxChangePercent 0 must be between 1 and 1000, e.g. 50`},
		"values":        {`cpu: {controlledValues: Limits}`, `cpu.controlledValues Limits is not one of RequestsOnly or RequestsAndLimits`},
		"boost":         {`cpu: {startupBoost: {multiplier: "0.5", duration: 1m}}`, `cpu.startupBoost.multiplier 0.5 must be a decimal number between 1 and 100, e.g. "2"`},
		"boost time":    {`cpu: {startupBoost: {multiplier: "2", duration: 2h}}`, `cpu.startupBoost.duration 2h must be between 1s and 1h, e.g. 2m`},
		"window":        {`metricsSource: {historyWindow: 721h}`, `metricsSource.historyWindow 721h must be between 1h and 720h, e.g. 168h`},
		"points":        {`metricsSource: {minimumDataPoints: 0}`, `metricsSource.minimumDataPoints 0 must be between 1 and 100000, e.g. 48`},
		"step length":   {`metricsSource: {queryStep: 5s}`, `metricsSource.queryStep 5s must be between 10s and 1h, e.g. 5m`},
		"rate window":   {`metricsSource: {rateWindow: 10s}`, `metricsSource.rateWindow 10s must be between 30s and 720h, e.g. 5m`},
		"type":          {`updateStrategy: {type: auto}`, `updateStrategy.type auto is not one of Observe, Recommend, Initial, OneShot, Canary or Auto`},
		"method":        {`updateStrategy: {resizeMethod: Recreate}`, `updateStrategy.resizeMethod Recreate is not one of InPlaceOnly or InPlaceOrRecreate`},
		"cooldown":      {`updateStrategy: {cooldown: 30s}`, `updateStrategy.cooldown 30s must be between 1m and 720h, e.g. 1h`},
		"watch":         {`updateStrategy: {safetyObservationPeriod: 59s}`, `updateStrategy.safetyObservationPeriod 59s must be between 1m and 24h, e.g. 5m`},
		"canary watch":  {`updateStrategy: {canary: {observationPeriod: 0s}}`, `updateStrategy.canary.observationPeriod 0s must be between 1m and 24h, e.g. 5m`},
		"percentage":    {`updateStrategy: {type: Canary, canary: {percentage: 0}}`, `updateStrategy.canary.percentage 0 must be between 1 and 100, e.g. 10`},
		"concurrent 0":  {`updateStrategy: {maxConcurrentResizes: 0}`, `updateStrategy.maxConcurrentResizes 0 must be a number of at least 1 or a percentage from 1% to 100%, e.g. 10%`},
		"concurrent %":  {`updateStrategy: {maxConcurrentResizes: "101%"}`, `updateStrategy.maxConcurrentResizes 101% must be a number of at least 1 or a percentage from 1% to 100%, e.g. 10%`},
		"concurrent":    {`updateStrategy: {maxConcurrentResizes: "5"}`, `updateStrategy.maxConcurrentResizes 5 must be a number of at least 1 or a percentage from 1% to 100%, e.g. 10%`},
		"time zone":     {`updateStrategy: {schedule: {timezone: Europe/Munich}}`, `updateStrategy.schedule.timezone Europe/Munich is not a known time zone: use an IANA name, e.g. Europe/Berlin or UTC`},
		"local":         {`updateStrategy: {schedule: {timezone: Local}}`, `updateStrategy.schedule.timezone Local is not a known time zone: use an IANA name, e.g. Europe/Berlin or UTC`},
		"path as zone":  {`updateStrategy: {schedule: {timezone: ../../etc/passwd}}`, `updateStrategy.schedule.timezone ../../etc/passwd is not a known time zone: use an IANA name, e.g. Europe/Berlin or UTC`},
		"hours":         {`updateStrategy: {schedule: {windows: [{start: "24:00", end: "06:00"}]}}`, `updateStrategy.schedule.windows holds 24:00-06:00: start and end must be times of day as HH:MM, e.g. 22:00 and 06:00`},
		"empty window":  {`updateStrategy: {schedule: {windows: [{start: "06:00", end: "06:00"}]}}`, `updateStrategy.schedule.windows holds 06:00-06:00, which is empty: start and end must differ, e.g. 22:00 and 06:00; leave windows out for the whole day`},
		"day":           {`updateStrategy: {schedule: {daysOfWeek: [Mo]}}`, `updateStrategy.schedule.daysOfWeek holds Mo, which is not a day of the week: use Monday, Tuesday, Wednesday, Thursday, Friday, Saturday or Sunday`},
		"strategy":      {`strategy: Fleet`, `strategy Fleet is not one of Workload, Node or Adaptive`},
		"risk":          {`adaptive: {risk: None}`, `adaptive.risk None is not one of Low, Medium or High`},
		"admission":     {`admission: "Off"`, `admission Off is not one of Enabled or Disabled`},
		"eviction":      {`node: {eviction: "true"}`, `node.eviction true is not one of Enabled or Disabled`},
		"ranking":       {`node: {evictionRanking: First}`, `node.evictionRanking First is not one of Low, Medium, High or Never`},
		"group":         {`node: {group: Web}`, `node.group Web must be at most 63 lower-case letters, digits and hyphens, e.g. checkout`},
		"group's name":  {`node: {group: a/b}`, `node.group a/b must be at most 63 lower-case letters, digits and hyphens, e.g. checkout`},
		"no group":      {`node: {group: ""}`, `node.group "" must be at most 63 lower-case letters, digits and hyphens, e.g. checkout`},
		"weight":        {`weight: 1001`, `weight 1001 must be between 1 and 1000, e.g. 100`},
		"query":         {`sloGuardrails: [{name: up, query: "sum(up", threshold: "1", comparison: "<"}]`, `sloGuardrails[up].query sum(up is not PromQL: 1:7: parse error: unclosed left parenthesis; an example is sum(rate(http_requests_total{code=~"5.."}[5m]))`},
		"threshold":     {`sloGuardrails: [{name: up, query: up, threshold: 99%, comparison: "<"}]`, `sloGuardrails[up].threshold 99% must be a decimal number, e.g. "99.9"`},
		"comparison":    {`sloGuardrails: [{name: up, query: up, threshold: "1", comparison: "=="}]`, `sloGuardrails[up].comparison == is not one of <, <=, > or >=`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := policy.Resolve(nil, nil, aPolicy(t, c.spec))
			found := problems(t, err)
			require.Len(t, found, 1)
			assert.Equal(t, c.want, found[0].Sentence)
			assert.Equal(t, c.want, err.Error())
			assert.Contains(t, found[0].Levels, policy.Policy)

			if got := s.Resize.Schedule.Location; assert.NotNil(t, got) {
				assert.Empty(t, diff(builtIn(), withBuiltIns(s, name)), "what was wrong is built in")
			}
		})
	}
}

// withBuiltIns resets the fields that a case of TestOneField changes in addition to its error.
func withBuiltIns(s policy.Settings, name string) policy.Settings {
	if name == "percentage" {
		s.Resize.Mode = builtIn().Resize.Mode
	}
	if name == "canary watch" {
		s.Resize.Observation = builtIn().Resize.Observation
	}
	return s
}

// The two fields of a rule may come from different levels, and the message says so.
func TestFieldsTogether(t *testing.T) {
	for name, c := range map[string]struct {
		cluster, namespace, policy string
		want                       string
		levels                     []policy.Level
	}{
		"min over max in one object": {``, ``, `cpu: {minAllowed: 2, maxAllowed: 900m}`,
			`cpu.minAllowed 2 must be less than or equal to cpu.maxAllowed 900m: set cpu.minAllowed to 900m or less`,
			[]policy.Level{policy.Policy, policy.Policy}},
		"min over max across levels": {`memory: {minAllowed: 1Gi}`, ``, `memory: {maxAllowed: 512Mi}`,
			`memory.minAllowed 1Gi (from the AttuneDefaults) must be less than or equal to memory.maxAllowed 512Mi: set memory.minAllowed to 512Mi or less`,
			[]policy.Level{policy.Cluster, policy.Policy}},
		"rate window": {``, `metricsSource: {historyWindow: 1h}`, `metricsSource: {rateWindow: 2h}`,
			`metricsSource.rateWindow 2h must be less than or equal to metricsSource.historyWindow 1h (from the AttuneNamespaceDefaults): set metricsSource.rateWindow to 5m`,
			[]policy.Level{policy.Policy, policy.Namespace}},
		"data points": {``, `metricsSource: {queryStep: 1h}`, `metricsSource: {minimumDataPoints: 169}`,
			`metricsSource.minimumDataPoints 169 can never be reached: metricsSource.historyWindow 168h (built-in) has only 168 samples with metricsSource.queryStep 1h (from the AttuneNamespaceDefaults); set metricsSource.minimumDataPoints to 168 or less`,
			[]policy.Level{policy.Policy, policy.BuiltIn, policy.Namespace}},
		"node and canary": {`strategy: Node`, ``, `updateStrategy: {type: Canary}`,
			`updateStrategy.type Canary is not supported with strategy Node (from the AttuneDefaults): use Observe, Recommend, Initial or Auto, or strategy Workload`,
			[]policy.Level{policy.Policy, policy.Cluster}},
		"node and one shot": {``, ``, `{strategy: Node, updateStrategy: {type: OneShot}}`,
			`updateStrategy.type OneShot is not supported with strategy Node: use Observe, Recommend, Initial or Auto, or strategy Workload`,
			[]policy.Level{policy.Policy, policy.Policy}},
		"promotion": {``, ``, `updateStrategy: {type: Auto, canary: {autoPromote: false}}`,
			`updateStrategy.canary.autoPromote false has no effect with updateStrategy.type Auto, which continues after the first wave by itself: use Canary and kubectl attune promote, or remove canary.autoPromote`,
			[]policy.Level{policy.Policy, policy.Policy}},
		"promotion in the defaults": {`updateStrategy: {type: Auto, canary: {autoPromote: false}}`, ``, `weight: 1`,
			`updateStrategy.canary.autoPromote false (from the AttuneDefaults) has no effect with updateStrategy.type Auto (from the AttuneDefaults), which continues after the first wave by itself: use Canary and kubectl attune promote, or remove canary.autoPromote`,
			[]policy.Level{policy.Cluster, policy.Cluster}},
		"boost that stays": {`cpu: {startupBoost: {multiplier: "2", duration: 1m}}`, ``, `updateStrategy: {type: Initial}`,
			`cpu.startupBoost 2 times for 1m (from the AttuneDefaults) cannot be removed with updateStrategy.type Initial, which never changes a running pod: use Canary or Auto, or set cpu.startupBoost.multiplier to "1"`,
			[]policy.Level{policy.Cluster, policy.Policy}},
		"boost on a node": {``, `cpu: {startupBoost: {multiplier: "2", duration: 1m}}`, `strategy: Node`,
			`cpu.startupBoost 2 times for 1m (from the AttuneNamespaceDefaults) is not supported with strategy Node, which gives a new pod its peak usage and later its share: set cpu.startupBoost.multiplier to "1", or use strategy Workload`,
			[]policy.Level{policy.Namespace, policy.Policy}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Resolve(clusterDefaults(t, c.cluster), namespaceDefaults(t, c.namespace), aPolicy(t, c.policy))
			found := problems(t, err)
			require.Len(t, found, 1)
			assert.Equal(t, c.want, found[0].Sentence)
			assert.Equal(t, c.levels, found[0].Levels)
		})
	}
}

// Valid combinations pass the rules about two fields.
func TestHoldsTogether(t *testing.T) {
	for name, c := range map[string]struct{ cluster, policy string }{
		"900m under 2":                   {``, `cpu: {minAllowed: 900m, maxAllowed: 2}`},
		"equal bounds":                   {``, `cpu: {minAllowed: 1000m, maxAllowed: 1}`},
		"a policy mends a level below":   {`memory: {minAllowed: 1Gi, maxAllowed: 2Gi}`, `memory: {minAllowed: 3Gi, maxAllowed: 4Gi}`},
		"only a minimum":                 {``, `cpu: {minAllowed: 100}`},
		"rate window as long as history": {``, `metricsSource: {historyWindow: 1h, rateWindow: 1h}`},
		"points that just fit":           {``, `metricsSource: {historyWindow: 1h, minimumDataPoints: 12}`},
		"Canary without canary":          {``, `updateStrategy: {type: Canary}`},
		"Node with Auto":                 {`strategy: Node`, `updateStrategy: {type: Auto}`},
		"Node with the built-in mode":    {``, `strategy: Node`},
		"Workload over a Node default":   {`strategy: Node`, `{strategy: Workload, updateStrategy: {type: Canary}}`},
		"Initial without the boost":      {`cpu: {startupBoost: {multiplier: "2", duration: 1m}}`, `{cpu: {startupBoost: {multiplier: "1", duration: 1m}}, updateStrategy: {type: Initial}}`},
		"Node without the boost":         {`cpu: {startupBoost: {multiplier: "2", duration: 1m}}`, `{cpu: {startupBoost: {multiplier: "1", duration: 1m}}, strategy: Node}`},
		"every upper end":                {``, `{weight: 1000, cpu: {overhead: "1000", minAllowed: 1M, maxAllowed: 1M}, memory: {maxAllowed: 1Ei}, metricsSource: {historyWindow: 720h, queryStep: 1h}, updateStrategy: {canary: {percentage: 100}, maxConcurrentResizes: "100%"}}`},
		"every lower end":                {``, `{weight: 1, cpu: {overhead: "0", maxChangePercent: 1}, metricsSource: {historyWindow: 1h, queryStep: 10s, minimumDataPoints: 1}, updateStrategy: {cooldown: 1m, safetyObservationPeriod: 1m, canary: {percentage: 1}, maxConcurrentResizes: 1}}`},
		"over midnight":                  {``, `updateStrategy: {schedule: {windows: [{start: "23:59", end: "00:00"}]}}`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := policy.Resolve(clusterDefaults(t, c.cluster), nil, aPolicy(t, c.policy))
			require.NoError(t, err)
		})
	}
}

// The message has every problem, and the other settings still apply: in-flight resizes continue with them.
func TestEveryProblemIsReported(t *testing.T) {
	s, err := policy.Resolve(nil, nil, aPolicy(t, `
targetRef: {kind: Deployment, selector: {}}
cpu: {percentile: 101}
updateStrategy: {type: Auto, safetyObservationPeriod: 7m, schedule: {timezone: Nowhere}}
`))
	require.Len(t, problems(t, err), 3)
	assert.ErrorContains(t, err, "targetRef.selector {} is empty")
	assert.ErrorContains(t, err, "; cpu.percentile 101 must be between")
	assert.ErrorContains(t, err, "; updateStrategy.schedule.timezone Nowhere")
	assert.Equal(t, 7*time.Minute, s.Resize.Observation)
	assert.True(t, s.Resize.AutoRevert)
	assert.Equal(t, 95, s.Recommender.Of[recommender.CPU].Percentile)
}

func TestTheLevelToBlame(t *testing.T) {
	_, err := policy.Resolve(clusterDefaults(t, `cpu: {overhead: lots}`), nil, aPolicy(t, `{weight: 1}`))
	found := problems(t, err)
	require.Len(t, found, 1)
	assert.Equal(t, []policy.Level{policy.Cluster}, found[0].Levels)
	assert.Equal(t, []string{"cpu.overhead"}, found[0].Fields)
	assert.Equal(t, `cpu.overhead lots (from the AttuneDefaults) must be a decimal number between 0 and 1000, e.g. "20"`, found[0].Sentence)
}

func TestPrices(t *testing.T) {
	_, err := policy.Resolve(clusterDefaults(t, `costPricing: {cpuPerCoreHour: free}`), nil, nil)
	assert.EqualError(t, err, `costPricing.cpuPerCoreHour free (from the AttuneDefaults) must be a decimal number between 0 and 1000000, e.g. "0"`)
}
