package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/usage"
)

// builtIn returns the settings if no level sets a field.
func builtIn() policy.Settings {
	return policy.Settings{
		Recommender: recommender.Settings{
			HistoryWindow: 7 * 24 * time.Hour, QueryStep: 5 * time.Minute, MinimumDataPoints: 48,
			Of: [2]recommender.ResourceSettings{
				recommender.CPU:    {Percentile: 95, OverheadPercent: 20, BurstSensitivity: 0.1, MaxChangePercent: 50, LimitsFollow: true, AllowDecrease: true},
				recommender.Memory: {Percentile: 99, OverheadPercent: 30, BurstSensitivity: 0.1, MaxChangePercent: 30, LimitsFollow: true},
			},
		},
		Resize: resize.Rules{
			Mode: v1alpha1.UpdateRecommend, Method: v1alpha1.ResizeInPlaceOnly,
			Cooldown: time.Hour, Observation: 5 * time.Minute,
			AutoRevert: true, CanaryPercent: 10, AutoPromote: true, MaxConcurrentPercent: 10,
			Schedule:   resize.Schedule{Days: map[time.Weekday]bool{}, Location: time.UTC},
			RateWindow: 5 * time.Minute, Excluded: map[string]bool{}, RaiseBeforeKill: true,
		},
		Source:   usage.SourceSettings{HistoryWindow: 7 * 24 * time.Hour, QueryStep: 5 * time.Minute, RateWindow: 5 * time.Minute},
		Strategy: v1alpha1.StrategyWorkload,
		Risk:     v1alpha1.RiskMedium,
		Weight:   100,
		Pricing:  policy.Pricing{Currency: "$"},
	}
}

// diff ignores origins and compares locations by name.
func diff(want, got policy.Settings) string {
	got.Origin = nil
	return cmp.Diff(want, got, cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() }))
}

func TestNothingSetIsBuiltIn(t *testing.T) {
	s, err := policy.Resolve(nil, nil, aPolicy(t, `targetRef: {kind: Deployment}`))
	require.NoError(t, err)
	assert.Empty(t, diff(builtIn(), s))
	for path, level := range s.Origin {
		if path != "targetRef" {
			assert.Equal(t, policy.BuiltIn, level, path)
		}
	}
}

// everything sets every field of the shared settings to a value that is not built in.
const everything = `
metricsSource:
  prometheus:
    address: http://prometheus.monitoring:9090
    headers: {X-Scope-OrgID: tenant-a}
    queryParameters: {dedup: "true"}
    bearerTokenSecret: {name: prometheus, key: token}
    tls: {serverName: prometheus, caSecret: {name: ca, key: ca.crt}}
  labels: {cluster: eu-1, job: kubelet}
  historyWindow: 336h
  minimumDataPoints: 20
  queryStep: 10m
  rateWindow: 15m
profile: Cost
cpu:
  percentile: 90
  overhead: "12.5"
  minAllowed: 50m
  maxAllowed: 4
  controlledValues: RequestsOnly
  maxChangePercent: 25
  burstSensitivity: "0"
  startupBoost: {multiplier: "2.5", duration: 90s}
memory:
  percentile: 50
  overhead: "0"
  minAllowed: 64Mi
  maxAllowed: 8Gi
  controlledValues: RequestsOnly
  maxChangePercent: 10
  burstSensitivity: "0.5"
  allowDecrease: true
  raiseBeforeKill: "Off"
updateStrategy:
  type: Auto
  resizeMethod: InPlaceOrRecreate
  cooldown: 2h
  safetyObservationPeriod: 3m
  autoRevert: false
  canary: {percentage: 20, observationPeriod: 4m, autoPromote: false}
  schedule:
    windows: [{start: "22:00", end: "06:30"}]
    daysOfWeek: [Saturday, Sunday]
    timezone: Europe/Berlin
  maxConcurrentResizes: 3
strategy: Workload
node: {eviction: Enabled, evictionRanking: High, group: checkout}
adaptive: {risk: Low}
excludedContainers: [istio-proxy]
containerPolicies:
- {containerName: side, controlledResources: [memory], memory: {maxAllowed: 1Gi, raiseBeforeKill: Auto}}
sloGuardrails:
- {name: errors, query: "sum(rate(errors[5m]))", threshold: "-0.5", comparison: "<="}
paused: true
`

func everythingSettings(t *testing.T) policy.Settings {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	s := policy.Settings{
		Recommender: recommender.Settings{
			HistoryWindow: 14 * 24 * time.Hour, QueryStep: 10 * time.Minute, MinimumDataPoints: 20,
			Of: [2]recommender.ResourceSettings{
				recommender.CPU:    {Percentile: 90, OverheadPercent: 12.5, MinAllowed: 50, MaxAllowed: 4000, MaxChangePercent: 25, AllowDecrease: true},
				recommender.Memory: {Percentile: 50, BurstSensitivity: 0.5, MinAllowed: 64 << 20, MaxAllowed: 8 << 30, MaxChangePercent: 10, AllowDecrease: true},
			},
		},
		Resize: resize.Rules{
			Mode: v1alpha1.UpdateAuto, Method: v1alpha1.ResizeInPlaceOrRecreate,
			Cooldown: 2 * time.Hour, Observation: 3 * time.Minute,
			CanaryPercent: 20, MaxConcurrent: 3,
			Schedule: resize.Schedule{
				Windows:  []resize.Window{{Start: 22 * 60, End: 6*60 + 30}},
				Days:     map[time.Weekday]bool{time.Saturday: true, time.Sunday: true},
				Location: berlin,
			},
			RateWindow: 15 * time.Minute, Boost: 90 * time.Second, Excluded: map[string]bool{"istio-proxy": true, "side": false},
			Containers: map[string]resize.ContainerRules{"side": {RaiseBeforeKill: true, Uncontrolled: [2]string{memoryOnly}}, "*": {Boost: 90 * time.Second}},
			Guardrails: []v1alpha1.SLOGuardrail{{Name: "errors", Query: "sum(rate(errors[5m]))", Threshold: "-0.5", Comparison: "<="}},
		},
		Source: usage.SourceSettings{
			Prometheus: &v1alpha1.PrometheusSource{
				Address:           "http://prometheus.monitoring:9090",
				Headers:           map[string]string{"X-Scope-OrgID": "tenant-a"},
				QueryParameters:   map[string]string{"dedup": "true"},
				BearerTokenSecret: &v1alpha1.SecretKey{Name: "prometheus", Key: "token"},
				TLS:               &v1alpha1.SourceTLS{ServerName: "prometheus", CASecret: &v1alpha1.SecretKey{Name: "ca", Key: "ca.crt"}},
			},
			Labels:        map[string]string{"cluster": "eu-1", "job": "kubelet"},
			HistoryWindow: 14 * 24 * time.Hour, QueryStep: 10 * time.Minute, RateWindow: 15 * time.Minute,
		},
		Strategy:        v1alpha1.StrategyWorkload,
		NodeGroup:       "checkout",
		Risk:            v1alpha1.RiskLow,
		NodeEviction:    true,
		EvictionRanking: v1alpha1.RankingHigh,
		StartupBoost:    &policy.Boost{Multiplier: 2.5, Duration: 90 * time.Second},
		Weight:          100,
		Pricing:         policy.Pricing{Currency: "$"},
	}
	side := policy.ContainerSettings{Recommender: s.Recommender}
	side.Recommender.Of[recommender.CPU].Uncontrolled, side.Recommender.Of[recommender.Memory].MaxAllowed = memoryOnly, 1<<30
	s.Containers = map[string]*policy.ContainerSettings{"side": &side}
	return s
}

// memoryOnly is the field of the entry that leaves CPU alone.
const memoryOnly = "containerPolicies[side].controlledResources"

// Every field arrives from every level, with its origin.
func TestEveryFieldAtEveryLevel(t *testing.T) {
	for _, level := range []policy.Level{policy.Cluster, policy.Namespace, policy.Policy} {
		t.Run(string(level), func(t *testing.T) {
			specs := map[policy.Level]string{policy.Policy: "targetRef: {kind: Deployment}"}
			specs[level] = everything
			s, err := policy.Resolve(clusterDefaults(t, specs[policy.Cluster]), namespaceDefaults(t, specs[policy.Namespace]), aPolicy(t, specs[policy.Policy]))
			require.NoError(t, err)

			want := everythingSettings(t)
			want.Resize.Paused = []string{string(level)}
			if level != policy.Cluster { // Secrets of AttuneDefaults are in the operator's namespace
				want.Source.Namespace, want.Source.OfPolicy = "shop", true
			}
			assert.Empty(t, diff(want, s))

			elsewhere := map[string]policy.Level{
				"targetRef": policy.Policy, "weight": policy.BuiltIn,
				"costPricing.cpuPerCoreHour": policy.BuiltIn, "costPricing.memoryPerGiBHour": policy.BuiltIn, "costPricing.currency": policy.BuiltIn,
			}
			for path, origin := range s.Origin {
				want, other := elsewhere[path]
				if !other {
					want = level
				}
				if strings.Contains(path, "[side].") {
					want += ", containerPolicies[side]"
				}
				assert.Equal(t, want, origin, path)
			}
		})
	}
}

// The values of a profile are those of the API's description. A field that any level sets takes precedence.
func TestProfiles(t *testing.T) {
	for profile, want := range map[v1alpha1.Profile]struct {
		percentiles [2]int
		overheads   [2]float64
		risk        v1alpha1.Risk
	}{
		"":                          {[2]int{95, 99}, [2]float64{20, 30}, v1alpha1.RiskMedium},
		v1alpha1.ProfileCost:        {[2]int{90, 99}, [2]float64{10, 15}, v1alpha1.RiskHigh},
		v1alpha1.ProfileBalanced:    {[2]int{95, 99}, [2]float64{15, 20}, v1alpha1.RiskMedium},
		v1alpha1.ProfileReliability: {[2]int{99, 99}, [2]float64{25, 40}, v1alpha1.RiskLow},
	} {
		p := aPolicy(t, `targetRef: {kind: Deployment}`)
		level := policy.BuiltIn
		if profile != "" {
			p.Spec.Profile, level = &profile, policy.Level("profile "+string(profile))
		}
		s, err := policy.Resolve(nil, nil, p)
		require.NoError(t, err)
		for _, r := range recommender.Resources {
			assert.Equal(t, want.percentiles[r], s.Recommender.Of[r].Percentile, "%s %s", profile, r)
			assert.Equal(t, want.overheads[r], s.Recommender.Of[r].OverheadPercent, "%s %s", profile, r)
		}
		assert.Equal(t, want.risk, s.Risk, profile)
		assert.Equal(t, level, s.Origin["cpu.percentile"])
		assert.Equal(t, policy.BuiltIn, s.Origin["cpu.maxChangePercent"], "not of the profile")

		s, err = policy.Resolve(clusterDefaults(t, `cpu: {percentile: 97}`), namespaceDefaults(t, `memory: {allowDecrease: true}`), p)
		require.NoError(t, err)
		assert.Equal(t, 97, s.Recommender.Of[recommender.CPU].Percentile, profile)
		assert.Equal(t, policy.Cluster, s.Origin["cpu.percentile"], profile)
		assert.True(t, s.Recommender.Of[recommender.Memory].AllowDecrease, profile)
		assert.Empty(t, s.Remarks(), "fields of a profile that the strategy ignores are no mistake of a user")
	}
	_, err := policy.Resolve(nil, nil, aPolicy(t, `{targetRef: {kind: Deployment}, profile: Fast}`))
	assert.ErrorContains(t, err, "profile Fast is not one of Cost, Balanced or Reliability")
}

// Levels merge field by field: a field that is not set keeps the value of a lower level.
func TestPerField(t *testing.T) {
	s, err := policy.Resolve(
		clusterDefaults(t, `
cpu: {percentile: 50, overhead: "10", maxAllowed: 2}
updateStrategy: {type: Canary, canary: {percentage: 30}, schedule: {timezone: Asia/Tokyo}}
excludedContainers: [a, b]
costPricing: {cpuPerCoreHour: "0.03", currency: EUR}
`),
		namespaceDefaults(t, `
cpu: {overhead: "15", maxAllowed: 3}
updateStrategy: {canary: {observationPeriod: 10m}, schedule: {daysOfWeek: [Monday]}}
costPricing: {memoryPerGiBHour: "0.004"}
`),
		aPolicy(t, `
cpu: {maxAllowed: 4}
updateStrategy: {schedule: {windows: [{start: "01:00", end: "02:00"}]}}
excludedContainers: [c]
weight: 7
`))
	require.NoError(t, err)

	cpu := s.Recommender.Of[recommender.CPU]
	assert.Equal(t, 50, cpu.Percentile)
	assert.Equal(t, 15.0, cpu.OverheadPercent)
	assert.Equal(t, recommender.Amount(4000), cpu.MaxAllowed)
	assert.Equal(t, v1alpha1.UpdateCanary, s.Resize.Mode)
	assert.Equal(t, 30, s.Resize.CanaryPercent)
	assert.Equal(t, 10*time.Minute, s.Resize.Observation)
	assert.Equal(t, "Asia/Tokyo", s.Resize.Schedule.Location.String())
	assert.Equal(t, map[time.Weekday]bool{time.Monday: true}, s.Resize.Schedule.Days)
	assert.Equal(t, []resize.Window{{Start: 60, End: 120}}, s.Resize.Schedule.Windows)
	assert.Equal(t, map[string]bool{"c": true}, s.Resize.Excluded, "a list replaces")
	assert.Equal(t, int32(7), s.Weight)
	assert.Equal(t, policy.Pricing{CPUPerCoreHour: 0.03, MemoryPerGiBHour: 0.004, Currency: "EUR"}, s.Pricing)

	want := map[string]policy.Level{
		"cpu.percentile": policy.Cluster, "cpu.overhead": policy.Namespace, "cpu.maxAllowed": policy.Policy, "cpu.minAllowed": policy.BuiltIn,
		"updateStrategy.type": policy.Cluster, "updateStrategy.canary.observationPeriod": policy.Namespace,
		"excludedContainers": policy.Policy, "weight": policy.Policy, "costPricing.memoryPerGiBHour": policy.Namespace,
	}
	for path, level := range want {
		assert.Equal(t, level, s.Origin[path], path)
	}
}

func TestAnEmptyListReplacesToo(t *testing.T) {
	s, err := policy.Resolve(clusterDefaults(t, `excludedContainers: [istio-proxy]`), nil, aPolicy(t, `excludedContainers: []`))
	require.NoError(t, err)
	assert.Empty(t, s.Resize.Excluded)
}

func TestPausedIsOred(t *testing.T) {
	for name, c := range map[string]struct {
		cluster, namespace, policy string
		want                       []string
	}{
		"nowhere":              {`paused: false`, ``, `paused: false`, nil},
		"the kill switch wins": {`paused: true`, `paused: false`, `paused: false`, []string{"cluster"}},
		"namespace":            {``, `paused: true`, `{weight: 1}`, []string{"namespace"}},
		"policy":               {``, ``, `paused: true`, []string{"policy"}},
		"all":                  {`paused: true`, `paused: true`, `paused: true`, []string{"cluster", "namespace", "policy"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := policy.Resolve(clusterDefaults(t, c.cluster), namespaceDefaults(t, c.namespace), aPolicy(t, c.policy))
			require.NoError(t, err)
			assert.Equal(t, c.want, s.Resize.Paused)
		})
	}
}

func TestOnlyDefaultsNamedDefaultAreRead(t *testing.T) {
	cluster, namespace := clusterDefaults(t, `cpu: {percentile: 50}`), namespaceDefaults(t, `memory: {percentile: 50}`)
	cluster.Name, namespace.Name = "other", "other"
	s, err := policy.Resolve(cluster, namespace, aPolicy(t, `{weight: 1}`))
	require.NoError(t, err)
	assert.Equal(t, 95, s.Recommender.Of[recommender.CPU].Percentile)
	assert.Equal(t, 99, s.Recommender.Of[recommender.Memory].Percentile)
}

// The observation period is safetyObservationPeriod, or canary.observationPeriod, or 5m; each is merged first.
func TestObservation(t *testing.T) {
	for name, c := range map[string]struct {
		cluster, policy string
		want            time.Duration
	}{
		"built-in":               {``, `{weight: 1}`, 5 * time.Minute},
		"canary alone":           {``, `updateStrategy: {canary: {observationPeriod: 30m}}`, 30 * time.Minute},
		"safety alone":           {``, `updateStrategy: {safetyObservationPeriod: 2m}`, 2 * time.Minute},
		"safety before canary":   {``, `updateStrategy: {safetyObservationPeriod: 2m, canary: {observationPeriod: 30m}}`, 2 * time.Minute},
		"safety from below wins": {`updateStrategy: {safetyObservationPeriod: 10m}`, `updateStrategy: {canary: {observationPeriod: 1m}}`, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := policy.Resolve(clusterDefaults(t, c.cluster), nil, aPolicy(t, c.policy))
			require.NoError(t, err)
			assert.Equal(t, c.want, s.Resize.Observation)
		})
	}
}

func TestRateWindow(t *testing.T) {
	for name, c := range map[string]struct {
		policy string
		want   time.Duration
	}{
		"follows queryStep":   {`metricsSource: {queryStep: 10m}`, 10 * time.Minute},
		"but is at least 30s": {`metricsSource: {queryStep: 10s}`, 30 * time.Second},
		"unless it is set":    {`metricsSource: {queryStep: 10m, rateWindow: 2m}`, 2 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := policy.Resolve(nil, nil, aPolicy(t, c.policy))
			require.NoError(t, err)
			assert.Equal(t, c.want, s.Source.RateWindow)
			assert.Equal(t, c.want, s.Resize.RateWindow)
		})
	}
}

// A short window with built-in data points must still lead to a recommendation.
func TestBuiltInDataPointsFitTheWindow(t *testing.T) {
	s, err := policy.Resolve(nil, nil, aPolicy(t, `metricsSource: {historyWindow: 1h}`))
	require.NoError(t, err)
	assert.Equal(t, 12, s.Recommender.MinimumDataPoints)

	s, err = policy.Resolve(nil, nil, aPolicy(t, `metricsSource: {historyWindow: 1h, queryStep: 10s}`))
	require.NoError(t, err)
	assert.Equal(t, 48, s.Recommender.MinimumDataPoints)
}

func TestMaxConcurrentResizes(t *testing.T) {
	s, err := policy.Resolve(nil, nil, aPolicy(t, `updateStrategy: {maxConcurrentResizes: "25%"}`))
	require.NoError(t, err)
	assert.Equal(t, [2]int{0, 25}, [2]int{s.Resize.MaxConcurrent, s.Resize.MaxConcurrentPercent})

	s, err = policy.Resolve(nil, nil, aPolicy(t, `updateStrategy: {maxConcurrentResizes: 4}`))
	require.NoError(t, err)
	assert.Equal(t, [2]int{4, 0}, [2]int{s.Resize.MaxConcurrent, s.Resize.MaxConcurrentPercent})
}

func TestAMultiplierOfOneSwitchesTheBoostOff(t *testing.T) {
	s, err := policy.Resolve(clusterDefaults(t, `cpu: {startupBoost: {multiplier: "3", duration: 1m}}`), nil,
		aPolicy(t, `cpu: {startupBoost: {multiplier: "1", duration: 1m}}`))
	require.NoError(t, err)
	assert.Nil(t, s.StartupBoost)
}

// Amounts are never rounded below the setting.
func TestAmountsRoundUp(t *testing.T) {
	s, err := policy.Resolve(nil, nil, aPolicy(t, `{cpu: {minAllowed: 1500u}, memory: {minAllowed: 1048576500m}}`))
	require.NoError(t, err)
	assert.Equal(t, recommender.Amount(2), s.Recommender.Of[recommender.CPU].MinAllowed)
	assert.Equal(t, recommender.Amount(1<<20+1), s.Recommender.Of[recommender.Memory].MinAllowed)
}

// Objects come from a shared cache and must not change.
func TestInputsStayAsTheyAre(t *testing.T) {
	cluster, namespace, p := clusterDefaults(t, everything), namespaceDefaults(t, `updateStrategy: {type: Auto}`), aPolicy(t, `{cpu: {percentile: 50}}`)
	c, n, before := cluster.DeepCopy(), namespace.DeepCopy(), p.DeepCopy()
	_, err := policy.Resolve(cluster, namespace, p)
	require.NoError(t, err)
	assert.Empty(t, cmp.Diff(c, cluster))
	assert.Empty(t, cmp.Diff(n, namespace))
	assert.Empty(t, cmp.Diff(before, p))
}

// The risk reaches the recommender only with strategy Adaptive: with other strategies it has no effect.
func TestTheRiskIsOfTheStrategyAdaptive(t *testing.T) {
	for name, c := range map[string]struct {
		strategy v1alpha1.Strategy
		risk     *v1alpha1.Risk
		want     recommender.AdaptiveSettings
	}{
		"Workload":         {v1alpha1.StrategyWorkload, ptr.To(v1alpha1.RiskHigh), recommender.AdaptiveSettings{}},
		"Adaptive":         {v1alpha1.StrategyAdaptive, nil, recommender.AdaptiveSettings{Risk: 1, Cadence: 2 * time.Hour}},
		"Adaptive, Low":    {v1alpha1.StrategyAdaptive, ptr.To(v1alpha1.RiskLow), recommender.AdaptiveSettings{Risk: 0.3, Cadence: 2 * time.Hour}},
		"Adaptive, Medium": {v1alpha1.StrategyAdaptive, ptr.To(v1alpha1.RiskMedium), recommender.AdaptiveSettings{Risk: 1, Cadence: 2 * time.Hour}},
		"Adaptive, High":   {v1alpha1.StrategyAdaptive, ptr.To(v1alpha1.RiskHigh), recommender.AdaptiveSettings{Risk: 3, Cadence: 2 * time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1alpha1.AttunePolicy{Spec: v1alpha1.AttunePolicySpec{TargetRef: v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Name: "web"}}}
			p.Spec.Strategy, p.Spec.Adaptive = &c.strategy, &v1alpha1.AdaptiveSettings{Risk: c.risk}
			p.Spec.UpdateStrategy = &v1alpha1.UpdateStrategy{Cooldown: &v1alpha1.Duration{Duration: metav1.Duration{Duration: 2 * time.Hour}}}
			settings, err := policy.Resolve(nil, nil, p)
			require.NoError(t, err)
			assert.Equal(t, c.want, settings.Recommender.Adaptive)
		})
	}
}

// Adaptive uses two weeks, unless that exceeds the limit of a policy.
func TestTheBuiltInWindowOfAStrategy(t *testing.T) {
	for name, c := range map[string]struct {
		spec string
		want time.Duration
	}{
		"Workload":                 {`strategy: Workload`, 168 * time.Hour},
		"Adaptive":                 {`strategy: Adaptive`, 336 * time.Hour},
		"Adaptive, its own":        {`{strategy: Adaptive, metricsSource: {historyWindow: 96h}}`, 96 * time.Hour},
		"Adaptive, as many as fit": {`{strategy: Adaptive, metricsSource: {queryStep: 5m}}`, 336 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := policy.Resolve(nil, nil, aPolicy(t, c.spec))
			require.NoError(t, err)
			assert.Equal(t, c.want, s.Source.HistoryWindow)
			assert.Equal(t, c.want, s.Recommender.HistoryWindow)
		})
	}
	bounded := policy.Operator{Steps: 2016}
	s, err := policy.ResolveAllowed(nil, nil, aPolicy(t, `strategy: Adaptive`), bounded)
	require.NoError(t, err)
	assert.Equal(t, 168*time.Hour, s.Source.HistoryWindow, "what the operator allows")
}
