package policy

import (
	"regexp"
	"slices"
	"strconv"
	"time"
	_ "time/tzdata" // the same time zones everywhere: images and other systems may have no tzdata

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/usage"
)

// Resolve merges a policy over the defaults of its namespace, the defaults of the cluster and the built-in values,
// field by field. A list or map of a higher level replaces the lower one as a whole. Any argument may be nil. Defaults
// with a name other than default count as nil. Permissions do not apply here; ResolveAllowed applies them.
//
// An error is always an *InvalidConfig. The settings are complete even then, with built-in values for the invalid
// fields: good enough to finish in-flight resizes, never to start one.
func Resolve(cluster *v1alpha1.AttuneDefaults, namespace *v1alpha1.AttuneNamespaceDefaults, policy *v1alpha1.AttunePolicy) (Settings, error) {
	return ResolveAllowed(cluster, namespace, policy, Operator{SourceNamespaces: []string{"*"}})
}

// resolve reads all fields. Two orders matter: Source comes before Recommender and Resize, which depend on its steps
// and rate window; combinations are checked last, on the merged settings.
func resolve(o *overlay, operator Operator) (Settings, error) {
	o.origin = map[string]Level{}
	o.checkTarget()
	if l, ok := profileLayer(oneOf(o, "profile", "", profiles, func(l *layer) *v1alpha1.Profile { return l.Profile })); ok {
		o.layers = append([]layer{l}, o.layers...)
	}
	strategy := o.strategy(operator)
	s := Settings{
		Source:          o.source(operator, strategy),
		Strategy:        strategy,
		Risk:            oneOf(o, "adaptive.risk", risk, risks, func(l *layer) *v1alpha1.Risk { return l.Adaptive.Risk }),
		Admission:       oneOf(o, "admission", admission, switches, func(l *layer) *v1alpha1.Switch { return l.Admission }),
		NodeEviction:    oneOf(o, "node.eviction", eviction, switches, func(l *layer) *v1alpha1.Switch { return l.Node.Eviction }) == v1alpha1.Enabled,
		EvictionRanking: oneOf(o, "node.evictionRanking", "", rankings, func(l *layer) *v1alpha1.EvictionRanking { return l.Node.EvictionRanking }),
		NodeGroup:       o.nodeGroup(),
		StartupBoost:    o.startupBoost(),
		Weight:          int32(within(o, "weight", weight, 1, 1000, func(l *layer) *int32 { return l.weight })),
		Pricing:         o.prices(),
		Origin:          o.origin,
	}
	// capped needs the layers and the merged value, so it is not in the literal above.
	s.EvictionRanking = o.capped(s.EvictionRanking)
	s.Scraped = operator.Embedded && s.Source.Prometheus == nil
	s.Recommender = o.estimates(s.Source)
	guardrails, scope := o.sloGuardrails(s.Source, operator)
	s.GuardrailScope = scope
	s.Resize = o.rules(s.Source, guardrails)
	if s.Strategy == v1alpha1.StrategyAdaptive {
		s.Recommender.Adaptive = recommender.AdaptiveSettings{Risk: accepted[s.Risk], Cadence: s.Resize.Cooldown}
	}
	// Evictions for room belong to strategy Node. With other strategies the setting has no effect.
	s.Resize.NodeEviction = s.NodeEviction && s.Strategy == v1alpha1.StrategyNode
	if s.StartupBoost != nil {
		s.Resize.Boost = s.StartupBoost.Duration
	}
	o.checkCombinations(s)
	leaveLimits(s.Strategy, &s.Recommender)
	containerSettings(o, &s)
	s.Doubts = o.doubts
	if len(o.problems) > 0 {
		return s, &InvalidConfig{Problems: o.problems}
	}
	return s, nil
}

var (
	// The values that the enumerations of the API allow, in their order. capped relies on the order of rankings, from
	// the lowest to the highest.
	strategies = []v1alpha1.Strategy{v1alpha1.StrategyWorkload, v1alpha1.StrategyNode, v1alpha1.StrategyAdaptive}
	risks      = []v1alpha1.Risk{v1alpha1.RiskLow, v1alpha1.RiskMedium, v1alpha1.RiskHigh}
	raises     = []v1alpha1.RaiseBeforeKill{v1alpha1.RaiseAuto, v1alpha1.RaiseOff}
	switches   = []v1alpha1.Switch{v1alpha1.Enabled, v1alpha1.Disabled}
	rankings   = []v1alpha1.EvictionRanking{v1alpha1.RankingLow, v1alpha1.RankingMedium, v1alpha1.RankingHigh, v1alpha1.RankingNever}
	profiles   = []v1alpha1.Profile{v1alpha1.ProfileCost, v1alpha1.ProfileBalanced, v1alpha1.ProfileReliability}
	controlled = []v1alpha1.ControlledValues{v1alpha1.ControlledRequestsOnly, v1alpha1.ControlledRequestsAndLimits}
	methods    = []v1alpha1.ResizeMethod{v1alpha1.ResizeInPlaceOnly, v1alpha1.ResizeInPlaceOrRecreate}
	modes      = []v1alpha1.UpdateType{v1alpha1.UpdateObserve, v1alpha1.UpdateRecommend, v1alpha1.UpdateInitial,
		v1alpha1.UpdateOneShot, v1alpha1.UpdateCanary, v1alpha1.UpdateAuto}
)

// SizesNewPods reports whether attune sizes new pods in a mode, with a value of the setting admission. Empty counts as
// Enabled.
func SizesNewPods(mode v1alpha1.UpdateType, admission v1alpha1.Switch) bool {
	return inModeOfNewPods(mode) && admission != v1alpha1.Disabled
}

func inModeOfNewPods(mode v1alpha1.UpdateType) bool {
	return mode == v1alpha1.UpdateInitial || mode == v1alpha1.UpdateCanary || mode == v1alpha1.UpdateAuto
}

// AdmissionDisabled is why new pods are not sized although the mode sizes them, as a clause.
const AdmissionDisabled = "the setting admission is " + string(v1alpha1.Disabled)

// SizesNewPods reports whether attune sizes new pods of the policy's workloads.
func (s *Settings) SizesNewPods() bool { return SizesNewPods(s.Resize.Mode, s.Admission) }

// NotSized returns why attune does not size new pods although the mode sizes them, as a clause; empty: it sizes them, or
// the mode does not.
func (s *Settings) NotSized() string {
	if inModeOfNewPods(s.Resize.Mode) && !s.SizesNewPods() {
		return AdmissionDisabled
	}
	return ""
}

// accepted is the shortage that each risk accepts, relative to Medium. A factor of three either way covers the useful
// range in docs/quality.md.
var accepted = map[v1alpha1.Risk]float64{v1alpha1.RiskLow: 0.3, v1alpha1.RiskMedium: 1, v1alpha1.RiskHigh: 3}

// profileLayer has the values of a profile. It is under all other layers: each field that one of them sets takes
// precedence. false: no such profile.
func profileLayer(chosen v1alpha1.Profile) (layer, bool) {
	values, ok := profileValues[chosen]
	if !ok {
		return layer{}, false
	}
	of := func(percentile int32, overhead v1alpha1.Percent) v1alpha1.ResourceSettings {
		return v1alpha1.ResourceSettings{Percentile: &percentile, Overhead: &overhead}
	}
	settings := v1alpha1.PolicySettings{
		CPU:      &v1alpha1.CPUSettings{ResourceSettings: of(values.cpuPercentile, values.cpuOverhead)},
		Memory:   &v1alpha1.MemorySettings{ResourceSettings: of(values.memoryPercentile, values.memoryOverhead)},
		Adaptive: &v1alpha1.AdaptiveSettings{Risk: &values.risk},
	}
	if chosen == v1alpha1.ProfileReliability {
		settings.Memory.AllowDecrease = new(bool)
	}
	return newLayer(Level(profileLevel+string(chosen)), "", settings), true
}

// profileLevel is the prefix of the level of a profile's values.
const profileLevel = "profile "

// profileValues are the values of the profiles, as the API documents them.
var profileValues = map[v1alpha1.Profile]struct {
	cpuPercentile, memoryPercentile int32
	cpuOverhead, memoryOverhead     v1alpha1.Percent
	risk                            v1alpha1.Risk
}{
	v1alpha1.ProfileCost:        {90, 99, "10", "15", v1alpha1.RiskHigh},
	v1alpha1.ProfileBalanced:    {95, 99, "15", "20", v1alpha1.RiskMedium},
	v1alpha1.ProfileReliability: {99, 99, "25", "40", v1alpha1.RiskLow},
}

// strategy reads the strategy. It rejects Node if the operator does not see all pods of a node: the room of unseen pods
// would count as free.
func (o *overlay) strategy(operator Operator) v1alpha1.Strategy {
	const path = "strategy"
	s := oneOf(o, path, strategy, strategies, func(l *layer) *v1alpha1.Strategy { return l.Strategy })
	if s == v1alpha1.StrategyNode && operator.SomeNamespaces {
		o.invalid(path, "%s %s needs all pods of a node, but this operator watches only some namespaces (watchNamespaces): use %s", path, o.quote(path, s), v1alpha1.StrategyWorkload)
		return strategy
	}
	return s
}

// groupNames is the format of node.group, as in the schema.
var groupNames = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// nodeGroup reads the name of a group; empty means that the pods of one workload form a group.
func (o *overlay) nodeGroup() string {
	const path = "node.group"
	group := pick(o, path, "", func(l *layer) *string { return l.Node.Group })
	if o.origin[path] != BuiltIn && !groupNames.MatchString(group) {
		o.invalid(path, "%s %s must be at most 63 lower-case letters, digits and hyphens, e.g. checkout", path, o.quote(path, group))
		return ""
	}
	return group
}

// estimates reads the settings of the recommender. An entry of containerPolicies reads single resources.
func (o *overlay) estimates(source usage.SourceSettings) recommender.Settings {
	s := recommender.Settings{
		HistoryWindow:     source.HistoryWindow,
		QueryStep:         source.QueryStep,
		MinimumDataPoints: o.minimumDataPoints(source),
	}
	for _, r := range recommender.Resources {
		s.Of[r] = o.resource(r)
	}
	return s
}

// resource reads the settings of one resource. CPU may always decrease, because too little CPU does not kill a
// container; memory only with memory.allowDecrease.
func (o *overlay) resource(r recommender.Resource) recommender.ResourceSettings {
	s := sharedSettings(o, r)
	if r == recommender.CPU {
		s.AllowDecrease, s.Limits = true, limitRule(o)
		return s
	}
	if s.MaxAllowed < leastMemoryBound { // a doubt
		s.MaxAllowed = recommender.Memory.RaiseToLeast(recommender.Allocation{}, recommender.Allocation{Request: s.MaxAllowed}).Request
	}
	s.AllowDecrease = pick(o, "memory.allowDecrease", false, func(l *layer) *bool { return l.Memory.AllowDecrease })
	return s
}

// sharedSettings reads the settings that CPU and memory share.
func sharedSettings(o *overlay, r recommender.Resource) recommender.ResourceSettings {
	builtIn := estimators[r]
	path := func(field string) string { return builtIn.path + "." + field }
	hpa := hpaHandling(o, path("hpa"), r)
	return recommender.ResourceSettings{
		Percentile:       within(o, path("percentile"), builtIn.percentile, 1, 100, func(l *layer) *int32 { return l.of(r).Percentile }),
		OverheadPercent:  number(o, path("overhead"), builtIn.overhead, 0, 1000, func(l *layer) *v1alpha1.Percent { return l.of(r).Overhead }),
		BurstSensitivity: number(o, path("burstSensitivity"), burstSensitivity, 0, 10, func(l *layer) *v1alpha1.Decimal { return l.of(r).BurstSensitivity }),
		MinAllowed:       amount(o, path("minAllowed"), r, builtIn.minimum, func(l *layer) *resource.Quantity { return l.of(r).MinAllowed }),
		MaxAllowed:       amount(o, path("maxAllowed"), r, builtIn.maximum, func(l *layer) *resource.Quantity { return l.of(r).MaxAllowed }),
		MaxChangePercent: within(o, path("maxChangePercent"), builtIn.maxChangePercent, 1, 1000, func(l *layer) *int32 { return l.of(r).MaxChangePercent }),
		LimitsFollow: oneOf(o, path("controlledValues"), controlledValues, controlled,
			func(l *layer) *v1alpha1.ControlledValues { return l.of(r).ControlledValues }) == v1alpha1.ControlledRequestsAndLimits,
		KeepReplicas: hpa != v1alpha1.HPABlock,
		Retarget:     hpa == v1alpha1.HPARetarget,
	}
}

// hpaHandling reads what to do to a request on which an HPA scales. Another target for memory would not help: a container
// does not use less memory because a request is lower.
func hpaHandling(o *overlay, path string, r recommender.Resource) v1alpha1.HPAHandling {
	field := func(l *layer) *v1alpha1.HPAHandling { return l.of(r).HPA }
	allowed := []v1alpha1.HPAHandling{v1alpha1.HPABlock, v1alpha1.HPAKeep, v1alpha1.HPARetarget}
	if r == recommender.CPU {
		return oneOf(o, path, v1alpha1.HPABlock, allowed, field)
	}
	if pick(o, path, v1alpha1.HPABlock, field) == v1alpha1.HPARetarget {
		o.invalid(path, "%s Retarget is not one of Block or Keep: only cpu.hpa may be Retarget, e.g. %s: Keep", path, path)
		return v1alpha1.HPABlock
	}
	return oneOf(o, path, v1alpha1.HPABlock, allowed[:2], field)
}

// minimumDataPoints is at most the number of samples in the history window, unless a level sets more (checkWindows then
// rejects it). A window of 1h would never have the built-in 48 samples of 5m.
func (o *overlay) minimumDataPoints(source usage.SourceSettings) int {
	points := within(o, "metricsSource.minimumDataPoints", minimumDataPoints, 1, 100000, func(l *layer) *int32 { return l.MetricsSource.MinimumDataPoints })
	if o.origin["metricsSource.minimumDataPoints"] == BuiltIn {
		return min(points, stepsIn(source))
	}
	return points
}

// stepsIn is the number of whole samples in the history window.
func stepsIn(source usage.SourceSettings) int {
	return int(source.HistoryWindow / source.QueryStep)
}

// startupBoost is read as one field, because the multiplier needs the duration. A multiplier of 1 disables the boost,
// so that a policy can override a boost of lower levels. nil means no boost.
func (o *overlay) startupBoost() *Boost {
	const path = "cpu.startupBoost"
	set := pick(o, path, nil, func(l *layer) **v1alpha1.StartupBoost { return nonZero(l.CPU.StartupBoost) })
	if set == nil {
		return nil
	}
	o.origin[path+".multiplier"], o.origin[path+".duration"] = o.origin[path], o.origin[path]
	problems := len(o.problems)
	boost := Boost{
		Multiplier: o.checkNumber(path+".multiplier", string(set.Multiplier), "2", 1, v1alpha1.MaxBoost),
		Duration:   o.checkSpan(path+".duration", set.Duration.Duration.Duration, 2*time.Minute, time.Second, time.Hour),
	}
	if boost.Multiplier == 1 || len(o.problems) > problems {
		return nil
	}
	return &boost
}

// prices reads the prices; only the two Defaults kinds have them.
func (o *overlay) prices() Pricing {
	return Pricing{
		CPUPerCoreHour:   number(o, "costPricing.cpuPerCoreHour", "0", 0, 1e6, func(l *layer) *v1alpha1.Decimal { return l.pricing.CPUPerCoreHour }),
		MemoryPerGiBHour: number(o, "costPricing.memoryPerGiBHour", "0", 0, 1e6, func(l *layer) *v1alpha1.Decimal { return l.pricing.MemoryPerGiBHour }),
		Currency:         pick(o, "costPricing.currency", currency, func(l *layer) *string { return nonZero(l.pricing.Currency) }),
	}
}

// Defaults returns the settings of a policy that sets only its strategy.
func Defaults(of v1alpha1.Strategy) (Settings, error) {
	spec := v1alpha1.AttunePolicySpec{TargetRef: v1alpha1.TargetRef{Kind: v1alpha1.KindDeployment, Name: "any"}}
	spec.Strategy = &of
	return Resolve(nil, nil, &v1alpha1.AttunePolicy{Spec: spec})
}

// rules reads when and how running pods are resized. All waves have the same observation period: the API has only one.
func (o *overlay) rules(source usage.SourceSettings, guardrails []v1alpha1.SLOGuardrail) resize.Rules {
	pods, percent := o.maxConcurrent()
	return resize.Rules{
		Mode:                 oneOf(o, "updateStrategy.type", updateType, modes, func(l *layer) *v1alpha1.UpdateType { return l.UpdateStrategy.Type }),
		Method:               oneOf(o, "updateStrategy.resizeMethod", resizeMethod, methods, func(l *layer) *v1alpha1.ResizeMethod { return l.UpdateStrategy.ResizeMethod }),
		Paused:               o.paused(),
		Cooldown:             span(o, "updateStrategy.cooldown", cooldown, time.Minute, 720*time.Hour, func(l *layer) *v1alpha1.Duration { return l.UpdateStrategy.Cooldown }),
		Observation:          o.observation(),
		AutoRevert:           pick(o, "updateStrategy.autoRevert", autoRevert, func(l *layer) *bool { return l.UpdateStrategy.AutoRevert }),
		CanaryPercent:        within(o, "updateStrategy.canary.percentage", canaryPercent, 1, 100, func(l *layer) *int32 { return l.UpdateStrategy.Canary.Percentage }),
		AutoPromote:          pick(o, "updateStrategy.canary.autoPromote", autoPromote, func(l *layer) *bool { return l.UpdateStrategy.Canary.AutoPromote }),
		MaxConcurrent:        pods,
		MaxConcurrentPercent: percent,
		Schedule:             resize.Schedule{Windows: o.windows(), Days: o.days(), Location: o.location()},
		RateWindow:           source.RateWindow,
		Excluded:             o.excluded(),
		Guardrails:           guardrails,
		RaiseBeforeKill:      raisesMemory(o),
	}
}

// raisesMemory reads memory.raiseBeforeKill.
func raisesMemory(o *overlay) bool {
	return oneOf(o, "memory.raiseBeforeKill", raiseBeforeKill, raises,
		func(l *layer) *v1alpha1.RaiseBeforeKill { return l.Memory.RaiseBeforeKill }) == v1alpha1.RaiseAuto
}

// observation is safetyObservationPeriod, or canary.observationPeriod if that is not set. Each is merged over the
// levels first. It is the observation period of every wave.
func (o *overlay) observation() time.Duration {
	canary := span(o, "updateStrategy.canary.observationPeriod", observation, time.Minute, 24*time.Hour,
		func(l *layer) *v1alpha1.Duration { return l.UpdateStrategy.Canary.ObservationPeriod })
	return span(o, "updateStrategy.safetyObservationPeriod", canary, time.Minute, 24*time.Hour,
		func(l *layer) *v1alpha1.Duration { return l.UpdateStrategy.SafetyObservationPeriod })
}

// paused returns the levels that pause. One is enough: a policy cannot override the pause of its cluster.
func (o *overlay) paused() []string {
	pick(o, "paused", false, func(l *layer) *bool { return l.Paused }) // for its origin; the value is below
	var levels []string
	for _, l := range o.layers {
		if l.Paused != nil && *l.Paused {
			levels = append(levels, string(l.level))
			o.origin["paused"] = l.level
		}
	}
	return levels
}

// excluded reads the containers that are never changed. The list of the highest level replaces all lower ones.
func (o *overlay) excluded() map[string]bool {
	const path = "excludedContainers"
	names := pick(o, path, nil, func(l *layer) *[]v1alpha1.ContainerName { return list(l.ExcludedContainers) })
	excluded := make(map[string]bool, len(names))
	for _, name := range names {
		checkContainer(o, path, name)
		excluded[string(name)] = true
	}
	return excluded
}

// capped limits a ranking to the ranking in AttuneDefaults, if set. That ranking is the default, and the highest that a
// namespace may give its own pods: a pod with a higher ranking is evicted later, and pods of other namespaces instead.
func (o *overlay) capped(r v1alpha1.EvictionRanking) v1alpha1.EvictionRanking {
	for _, l := range o.layers {
		most := l.Node.EvictionRanking
		if l.level == Cluster && most != nil && slices.Index(rankings, r) > slices.Index(rankings, *most) {
			return *most
		}
	}
	return r
}

// Digest identifies the settings that targets depend on. It changes only with these, not with the mode, the schedule or
// the level that set a field. The policy loop computes targets again when it changes. It is the first 8 bytes of the
// SHA-256 of the settings' JSON, in hexadecimal.
func (s Settings) Digest() string {
	containers := make(map[string]recommender.Settings, len(s.Containers))
	for name, of := range s.Containers {
		containers[name] = of.Recommender
	}
	return clip.Digest(struct {
		Recommender recommender.Settings
		Containers  map[string]recommender.Settings `json:",omitempty"`
		Source      usage.SourceSettings
		Strategy    v1alpha1.Strategy
		Risk        v1alpha1.Risk
		Excluded    map[string]bool
	}{s.Recommender, containers, s.Source, s.Strategy, s.Risk, s.Resize.Excluded}, 8)
}

// The built-in values of fields that no layer sets. The CRDs have no defaults: a default that the API server writes
// into an object looks like a value that the user chose, and would override the layers below.
const (
	historyWindow     = 168 * time.Hour
	adaptiveWindow    = 336 * time.Hour
	minimumDataPoints = 48
	queryStep         = 5 * time.Minute
	minRateWindow     = 30 * time.Second
	cooldown          = time.Hour
	observation       = 5 * time.Minute
	autoRevert        = true
	canaryPercent     = 10
	autoPromote       = true
	weight            = 100
	currency          = "$"

	updateType       = v1alpha1.UpdateRecommend
	resizeMethod     = v1alpha1.ResizeInPlaceOnly
	strategy         = v1alpha1.StrategyWorkload
	risk             = v1alpha1.RiskMedium
	admission        = v1alpha1.Enabled
	eviction         = v1alpha1.Disabled
	controlledValues = v1alpha1.ControlledRequestsAndLimits
	burstSensitivity = v1alpha1.Decimal("0.1")
	raiseBeforeKill  = v1alpha1.RaiseAuto
)

// maxConcurrentResizes is a percentage of the workload's pods.
var maxConcurrentResizes = intstr.FromString("10%")

// estimator has the built-in values that differ between CPU and memory, and example amounts for messages.
type estimator struct {
	// path of the section in the spec.
	path             string
	percentile       int32
	overhead         v1alpha1.Percent
	maxChangePercent int32
	// minimum and maximum are examples of minAllowed and maxAllowed in messages.
	minimum, maximum string
}

// estimators are indexed by Resource. Memory has the higher percentile and overhead and the smaller resize step: too
// little memory kills a container, too little CPU slows it down.
var estimators = [2]estimator{
	recommender.CPU:    {path: "cpu", percentile: 95, overhead: "20", maxChangePercent: 50, minimum: "50m", maximum: "4"},
	recommender.Memory: {path: "memory", percentile: 99, overhead: "30", maxChangePercent: 30, minimum: "64Mi", maximum: "8Gi"},
}

// windows reads the windows of the day. A window may end after midnight. An invalid window is reported and left out, so
// that the others still apply while in-flight resizes finish.
func (o *overlay) windows() []resize.Window {
	const path = "updateStrategy.schedule.windows"
	var windows []resize.Window
	for _, w := range pick(o, path, nil, func(l *layer) *[]v1alpha1.ScheduleWindow { return list(l.UpdateStrategy.Schedule.Windows) }) {
		start, startOK := minuteOfDay(w.Start)
		end, endOK := minuteOfDay(w.End)
		switch {
		case !startOK || !endOK:
			o.invalid(path, "%s holds %s: start and end must be times of day as HH:MM, e.g. 22:00 and 06:00", path, o.quote(path, string(w.Start)+"-"+string(w.End)))
		case start == end:
			o.invalid(path, "%s holds %s, which is empty: start and end must differ, e.g. 22:00 and 06:00; leave windows out for the whole day", path, o.quote(path, string(w.Start)+"-"+string(w.End)))
		default:
			windows = append(windows, resize.Window{Start: start, End: end})
		}
	}
	return windows
}

// minuteOfDay converts HH:MM, from 00:00 to 23:59, to minutes after midnight; false for any other text.
func minuteOfDay(t v1alpha1.ClockTime) (int, bool) {
	at, err := time.Parse("15:04", string(t))
	return at.Hour()*60 + at.Minute(), err == nil && len(t) == len("15:04")
}

// weekdays are the English names that the API uses.
var weekdays = map[v1alpha1.Weekday]time.Weekday{
	"Sunday": time.Sunday, "Monday": time.Monday, "Tuesday": time.Tuesday, "Wednesday": time.Wednesday,
	"Thursday": time.Thursday, "Friday": time.Friday, "Saturday": time.Saturday,
}

// days reads the days on which windows begin; empty means every day.
func (o *overlay) days() map[time.Weekday]bool {
	const path = "updateStrategy.schedule.daysOfWeek"
	days := map[time.Weekday]bool{}
	for _, name := range pick(o, path, nil, func(l *layer) *[]v1alpha1.Weekday { return list(l.UpdateStrategy.Schedule.DaysOfWeek) }) {
		day, known := weekdays[name]
		if !known {
			o.invalid(path, "%s holds %s, which is not a day of the week: use Monday, Tuesday, Wednesday, Thursday, Friday, Saturday or Sunday", path, o.quote(path, name))
			continue
		}
		days[day] = true
	}
	return days
}

// location rejects an unknown time zone: the windows would open at the wrong hours. It also rejects Local, the zone of
// the operator's process, which users do not know.
func (o *overlay) location() *time.Location {
	const path = "updateStrategy.schedule.timezone"
	name := pick(o, path, "UTC", func(l *layer) *string { return nonZero(l.UpdateStrategy.Schedule.Timezone) })
	location, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		o.invalid(path, "%s %s is not a known time zone: use an IANA name, e.g. Europe/Berlin or UTC", path, o.quote(path, name))
		return time.UTC
	}
	return location
}

// percentage is 1% to 100% without a leading zero.
var percentage = regexp.MustCompile(`^([1-9][0-9]?|100)%$`)

// maxConcurrent returns a number of pods or a percentage of a workload's pods; the other result is 0.
func (o *overlay) maxConcurrent() (pods, percent int) {
	const path = "updateStrategy.maxConcurrentResizes"
	value := pick(o, path, maxConcurrentResizes, func(l *layer) *intstr.IntOrString { return l.UpdateStrategy.MaxConcurrentResizes })
	if value.Type == intstr.Int && value.IntVal >= 1 {
		return int(value.IntVal), 0
	}
	if match := percentage.FindStringSubmatch(value.StrVal); value.Type == intstr.String && match != nil {
		percent, _ = strconv.Atoi(match[1])
		return 0, percent
	}
	o.invalid(path, "%s %s must be a number of at least 1 or a percentage from 1%% to 100%%, e.g. %s", path, o.quote(path, value.String()), maxConcurrentResizes.String())
	return 0, 10
}
