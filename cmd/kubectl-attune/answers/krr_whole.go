package answers

import (
	"slices"
	"strings"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/explain"
	"attune.io/attune/internal/held"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/savings"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
)

// KRRHolds are the reasons for which a workload is left as it is, with all its resources; none: there is none. w is the zero
// value where the workload was not read, settings are nil where those of its policy are not known: without them nobody knows
// whether memory may be lowered.
func KRRHolds(rec *v1alpha1.AttuneRecommendation, w workload.Workload, settings *policy.Settings) []explain.Hold {
	var all []explain.Hold
	add := func(reason, message string) {
		if !slices.ContainsFunc(all, func(h explain.Hold) bool { return h.Reason == reason }) {
			all = append(all, explain.Hold{Reason: reason, Message: message})
		}
	}
	if where, skipped := w.Skipped(); skipped {
		add(savings.Skipped, where+" is to be left alone")
	} else if w.Template == nil {
		add(savings.Unknown, "the workload does not exist, or cannot be read")
	}
	// A policy may have become one of the strategy Node after the recommendation was written.
	now := *rec
	if settings != nil && settings.Strategy == v1alpha1.StrategyNode {
		now.Spec.Strategy = v1alpha1.StrategyNode
	}
	if why := savings.Held(&now, w, settings); why != nil {
		add(why.Reason, why.Message)
	}
	for _, thing := range held.ByWorkload(rec) {
		if thing.Container == "" && !elsewhere(thing, all) {
			add(thing.Reason, thing.Message)
		}
	}
	return all
}

// elsewhere reports whether the thing is no reason to keep a value back: a mode that changes no pods is what scripts are for,
// and a seed may be withheld for what its resources, or the reasons so far, say themselves.
func elsewhere(thing held.Thing, said []explain.Hold) bool {
	if thing.Reason != held.SeedWithheld {
		return thing.Reason == resize.ReasonMode
	}
	return strings.HasPrefix(thing.Message, "Mode") || thing.Message == "Held" ||
		slices.ContainsFunc(said, func(h explain.Hold) bool { return h.Reason == thing.Message })
}
