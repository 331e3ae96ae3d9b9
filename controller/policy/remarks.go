package policy

import (
	"fmt"
	"slices"
	"strings"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender/node"
	"attune.io/attune/usage"
)

// remarks are clauses for the end of a message. Each is empty where there is nothing to say.
type remarks struct{ report }

// tooLarge names the first workload that the policy may mean and that is left alone for its size. Its labels may not be
// known, so that a selector does not tell whether it is meant.
func (r remarks) tooLarge() string {
	target := r.policy.Spec.TargetRef
	meant := func(w workload.Identity) bool {
		return w.Kind == target.Kind && (target.Name == "" || target.Name == w.Name)
	}
	first := slices.IndexFunc(r.matched.large, meant)
	if first < 0 {
		return ""
	}
	return fmt.Sprintf("; %s is left alone: it %s", r.matched.large[first], workload.WhatIsTooLarge)
}

// complaint is the first thing that the source's newest answer says of itself, such as a kubelet that does
// not answer.
func (r remarks) complaint() string {
	if len(r.usage.Last.Warnings) == 0 {
		return ""
	}
	return "; the usage source says: " + cut(r.usage.Last.Warnings[0])
}

// coarse says that no history of such steps is ever long enough for full confidence: the targets stay wider.
func (r remarks) coarse() string {
	most := r.settings.Recommender.MostConfidence()
	if most >= 1 {
		return ""
	}
	return fmt.Sprintf("; confidence reaches %.2f at most with metricsSource.queryStep %s: a shorter step needs less room", most, r.settings.Recommender.QueryStep)
}

// shortPast says that the strategy Node does not see the week that it looks for bursts in.
func (r remarks) shortPast() string {
	if r.settings.Strategy != v1alpha1.StrategyNode || r.settings.Source.HistoryWindow >= node.PeakWindow {
		return ""
	}
	return fmt.Sprintf("; strategy Node looks for bursts in the last 7 days, and metricsSource.historyWindow %s keeps less: what is rarer is not seen; 168h would do", r.settings.Source.HistoryWindow)
}

// notFollowed says that containers are not sized by their node because there is no room to follow what they use.
func (r remarks) notFollowed() string {
	if !r.usage.unfollowed {
		return ""
	}
	return fmt.Sprintf("; some containers of namespace %s keep what they hold: the operator follows no more containers of the strategy Node, or the namespace has its share of them; attune_usage_recent_refused counts them", r.policy.Namespace)
}

// leftOut says what of the source's newest answer was no usage, such as NaN: data that seems to be missing
// may be there and useless.
func (r remarks) leftOut() string {
	var parts []string
	for _, reason := range r.usage.Last.DropReasons() {
		if reason == usage.DropFull {
			continue // of any namespace; see crowded
		}
		parts = append(parts, fmt.Sprintf("%d %s", r.usage.Last.Dropped[reason], reason))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; the source's newest answer had values that were left out: " + strings.Join(parts, ", ")
}

// tooMuch says what the source does not answer about the namespace because it is too much, while it does about others.
func (r remarks) tooMuch() string {
	if r.usage.unanswered == nil {
		return ""
	}
	return fmt.Sprintf("; the usage source finds what is asked about namespace %s too much, and usage is missing: %s", r.policy.Namespace, sentence(r.usage.unanswered))
}

// crowded says that the history of the namespace has gaps because its share of the operator's memory is used up.
func (r remarks) crowded() string {
	if r.usage.lost == 0 {
		return ""
	}
	return fmt.Sprintf("; the usage history of namespace %s has gaps: it holds its share of the operator's memory, "+
		"and new values are left out: shorten metricsSource.historyWindow, lengthen metricsSource.queryStep, or give the operator more memory", r.policy.Namespace)
}
