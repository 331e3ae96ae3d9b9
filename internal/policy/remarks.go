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
	mostCPUMaximum   = recommender.Amount(500_000)
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

// unlikelyCPU returns sentences about bounds of CPU: a minimum that few nodes have, and a maximum that none has.
func unlikelyCPU(path string, of *recommender.Settings) (remarks []string) {
	if least := podview.ToPointer(recommender.CPU, of.Of[recommender.CPU].MinAllowed); least != nil {
		if why := UnlikelyBound(recommender.CPU, *least, true); why != "" {
			remarks = append(remarks, path+"cpu.minAllowed "+least.String()+" "+why)
		}
	}
	if most := of.Of[recommender.CPU].MaxAllowed; most >= mostCPUMaximum {
		remarks = append(remarks, path+"cpu.maxAllowed "+recommender.Format(recommender.CPU, most)+" is more CPU than nodes have, so it limits nothing. Write millicores with their unit, e.g. 500m")
	}
	return remarks
}

// ineffective are fields that a strategy or a mode ignores.
type ineffective struct {
	with   string
	of     bool
	fields []string
}

// ChangesNoPods returns the sentence of Remarks about settings with which attune changes no pods although the mode does;
// empty: it does.
func (s *Settings) ChangesNoPods() string {
	if s.Resize.Mode != v1alpha1.UpdateInitial || s.SizesNewPods() {
		return ""
	}
	return "attune changes no pods: updateStrategy.type Initial sizes only new pods, and " + AdmissionDisabled + ". Use Auto to resize running pods, or set admission: Enabled"
}

// removesNothing returns a sentence about cpu.limits Remove of the policy where attune sizes no new pods: only new pods
// can have no limit.
func (s *Settings) removesNothing() []string {
	var set []string
	for _, path := range s.ofPolicy([]string{cpuLimits}) {
		entry, _, of := entryOf(path)
		limits := s.Recommender.Of[recommender.CPU].Limits
		if of {
			limits = s.For(strings.TrimSuffix(strings.TrimPrefix(entry, containerNames+"["), "]")).Of[recommender.CPU].Limits
		}
		if limits.Remove {
			set = append(set, path)
		}
	}
	why := "updateStrategy.type " + string(s.Resize.Mode)
	if s.NotSized() != "" {
		why = "admission Disabled"
	}
	if len(set) == 0 || s.SizesNewPods() || s.Resize.Mode != v1alpha1.UpdateOneShot && s.NotSized() == "" {
		return nil
	}
	return []string{strings.Join(set, ", ") + " Remove: no limit is removed with " + why + ", because only new pods can have none. Running pods keep theirs"}
}

// Remarks returns sentences about valid settings that probably do not do what the user means: bounds of CPU that
// nodes do not have, a bound of memory that attune does not set, and fields without effect. Ineffective fields of lower levels are left
// out, because they are for other policies too.
func (s Settings) Remarks() []string {
	var remarks []string
	for _, doubt := range s.Doubts {
		remarks = append(remarks, doubt.Sentence+". Until then attune requests at least 4Mi")
	}
	remarks = append(remarks, unlikelyCPU("", &s.Recommender)...)
	for _, name := range slices.Sorted(maps.Keys(s.Containers)) {
		of := s.Containers[name].Recommender
		path := containerNames + "[" + name + "]."
		for field, bound := range map[string]*recommender.Amount{"cpu.minAllowed": &of.Of[recommender.CPU].MinAllowed, "cpu.maxAllowed": &of.Of[recommender.CPU].MaxAllowed} {
			if s.Origin[path+field] == "" { // the policy's, named above
				*bound = 0
			}
		}
		remarks = append(remarks, unlikelyCPU(path, &of)...)
	}
	remarks = append(remarks, s.removesNothing()...)
	if why := s.ChangesNoPods(); why != "" {
		remarks = append(remarks, why)
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
		{"admission " + string(s.Admission), s.NotSized() != "", []string{"cpu.startupBoost"}},
		{mode, !inModeOfNewPods(s.Resize.Mode), []string{"admission"}},
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
