package policy

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Bounds beyond these are probably without their unit: memory in bytes, or a CPU minimum meant in millicores.
const (
	leastMemoryBound = recommender.Amount(1 << 20)
	mostCPUMinimum   = recommender.Amount(100_000)
)

// UnlikelyBound returns what is unlikely about a bound of requests, as the rest of a sentence, and what to write
// instead; empty: nothing. A large CPU bound is unlikely only as a minimum.
func UnlikelyBound(r recommender.Resource, bound resource.Quantity, minimum bool) string {
	switch a := podview.AmountOf(r, bound); {
	case r == recommender.Memory && a > 0 && a < leastMemoryBound:
		return "is less than 1Mi. Add the unit, e.g. 512Mi"
	case r == recommender.CPU && a >= mostCPUMinimum && minimum:
		return "is more CPU than most nodes have. Write millicores with their unit, e.g. 250m"
	}
	return ""
}

// unlikelyMinimum returns a sentence about a minimum of CPU that few nodes have.
func unlikelyMinimum(path string, of *recommender.Settings) []string {
	if least := podview.ToPointer(recommender.CPU, of.Of[recommender.CPU].MinAllowed); least != nil {
		if why := UnlikelyBound(recommender.CPU, *least, true); why != "" {
			return []string{path + "cpu.minAllowed " + least.String() + " " + why}
		}
	}
	return nil
}

// ineffective are fields that a strategy or a mode ignores.
type ineffective struct {
	with   string
	of     bool
	fields []string
}

// Remarks returns sentences about valid settings that probably do not do what the user means: a minimum that few nodes
// have, a bound of memory that attune does not set, and fields without effect. Ineffective fields of lower levels are left
// out, because they are for other policies too.
func (s Settings) Remarks() []string {
	var remarks []string
	for _, doubt := range s.Doubts {
		remarks = append(remarks, doubt.Sentence+". Until then attune requests at least 4Mi")
	}
	remarks = append(remarks, unlikelyMinimum("", &s.Recommender)...)
	for _, name := range slices.Sorted(maps.Keys(s.Containers)) {
		if path := containerNames + "[" + name + "]."; s.Origin[path+"cpu.minAllowed"] != "" {
			remarks = append(remarks, unlikelyMinimum(path, &s.Containers[name].Recommender)...)
		}
	}
	estimator := []string{"cpu.percentile", "cpu.overhead", "cpu.burstSensitivity", "memory.percentile", "memory.overhead", "memory.burstSensitivity"}
	waves := []string{"cpu.maxChangePercent", "memory.maxChangePercent", "updateStrategy.cooldown", "updateStrategy.maxConcurrentResizes",
		"updateStrategy.canary.percentage", "updateStrategy.canary.autoPromote"}
	limits := []string{cpuLimits}
	node := []string{"node.eviction", "node.evictionRanking", "node.group"}
	const timezone = "updateStrategy.schedule.timezone"
	schedule := s.Resize.Schedule
	strategy, mode := "strategy "+string(s.Strategy), "updateStrategy.type "+string(s.Resize.Mode)
	for _, i := range []ineffective{
		{strategy, s.Strategy == v1alpha1.StrategyNode, slices.Concat(estimator, waves, limits)},
		{strategy, s.Strategy == v1alpha1.StrategyAdaptive, slices.Concat(estimator, node)},
		{strategy, s.Strategy == v1alpha1.StrategyWorkload, node},
		{strategy, s.Strategy != v1alpha1.StrategyAdaptive, []string{"adaptive.risk"}},
		{"usage.source embedded", s.Scraped, []string{"metricsSource.labels"}},
		{mode, s.Resize.Mode == v1alpha1.UpdateAuto, []string{"updateStrategy.canary.autoPromote"}},
		{mode, s.Resize.Mode == v1alpha1.UpdateOneShot, []string{"cpu.startupBoost", "memory.raiseBeforeKill", "updateStrategy.canary.percentage", "updateStrategy.canary.autoPromote"}},
		{mode, s.Resize.Mode == v1alpha1.UpdateInitial, append(slices.Clone(waves), "memory.raiseBeforeKill", "updateStrategy.resizeMethod",
			"updateStrategy.schedule.windows", "updateStrategy.schedule.daysOfWeek", timezone, "sloGuardrails")},
		{"updateStrategy.schedule without windows and daysOfWeek", s.Resize.Mode != v1alpha1.UpdateInitial && len(schedule.Windows) == 0 && len(schedule.Days) == 0, []string{timezone}},
	} {
		if set := s.ofPolicy(i.fields); i.of && len(set) > 0 {
			remarks = append(remarks, strings.Join(set, ", ")+": no effect with "+i.with+". Remove the fields from the policy")
		}
	}
	return append(remarks, s.ineffectiveEntries()...)
}

// ofPolicy returns which of some fields the policy sets, those of its containers included.
func (s Settings) ofPolicy(fields []string) []string {
	set := slices.DeleteFunc(slices.Clone(fields), func(field string) bool { return !s.Origin[field].OfPolicy() })
	if len(s.Containers) == 0 {
		return set
	}
	for _, path := range slices.Sorted(maps.Keys(s.Origin)) {
		if _, field, ok := entryOf(path); ok && slices.Contains(fields, field) && s.Origin[path].OfPolicy() {
			set = append(set, path)
		}
	}
	return set
}

// ineffectiveEntries returns sentences about fields of containers that attune does not size.
func (s Settings) ineffectiveEntries() (remarks []string) {
	without := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(s.Origin)) {
		entry, field, ok := entryOf(path)
		if !ok || !s.Origin[path].OfPolicy() {
			continue
		}
		name := strings.TrimSuffix(strings.TrimPrefix(entry, containerNames+"["), "]")
		resource, _, nested := strings.Cut(field, ".")
		switch of := s.Resize.Containers[name]; {
		case s.Resize.Excludes(name) && (nested || field != "mode"):
			without[entry+", which attune does not size"] = append(without[entry+", which attune does not size"], path)
		case nested && resource == recommender.CPU.String() && of.Uncontrolled[recommender.CPU] != "",
			nested && resource == recommender.Memory.String() && of.Uncontrolled[recommender.Memory] != "":
			without[entry+".controlledResources"] = append(without[entry+".controlledResources"], path)
		}
	}
	for _, with := range slices.Sorted(maps.Keys(without)) {
		remarks = append(remarks, strings.Join(without[with], ", ")+": no effect with "+with+". Remove the fields from the policy")
	}
	return remarks
}
