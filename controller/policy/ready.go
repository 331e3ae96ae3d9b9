package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/usage"
)

// readiness computes the policy's condition Ready. It is pure.
type readiness struct{ report }

// condition is derived from all other facts. The most urgent reason wins, in the order in which users should act: a
// pause, missing workloads, the source, rejected writes, data.
func (r readiness) condition() metav1.Condition {
	no := func(reason, message string) metav1.Condition { return no(v1alpha1.ConditionReady, reason, message) }
	reason, message := r.unsized()
	remarks := remarks(r)
	switch {
	case len(r.settings.Resize.Paused) > 0:
		return no(v1alpha1.ReasonPaused, fmt.Sprintf("paused on the level %s: no seed and no new resize; watches and reverts go on", r.settings.Resize.Paused[0]))
	case len(r.matched.won) == 0 && reason != "":
		return no(reason, message)
	case len(r.matched.won) == 0 && len(r.matched.lost) > 0:
		return no(v1alpha1.ReasonConflict, conflict(r.matched))
	case len(r.matched.won) == 0:
		return no(v1alpha1.ReasonNoWorkloadsFound, fmt.Sprintf("no %s matches targetRef", cmp.Or(r.policy.Spec.TargetRef.Kind, "workload"))+notSized(r.sized, r.policy.Spec.TargetRef.Kind)+remarks.tooLarge())
	case r.usage.Err != nil:
		return no(v1alpha1.ReasonPrometheusUnavailable, sentence(r.usage.Err)+"; nothing is applied until it answers")
	case len(r.refused) > 0:
		return no(v1alpha1.ReasonRecommendationRefused, r.notTaken())
	case reason != "":
		return no(reason, message)
	}
	if hold := r.unanimousHold(); hold != nil {
		return no(hold.Reason, hold.Message+remarks.tooLarge()+remarks.leftOut()+remarks.tooMuch()+remarks.crowded()+remarks.implausible()+remarks.complaint())
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMonitoring,
		Message: fmt.Sprintf("watching %d workloads", len(r.matched.won)) + remarks.tooLarge() + remarks.coarse() + remarks.shortPast() +
			remarks.notFollowed() + remarks.tooMuch() + remarks.crowded() + remarks.implausible() + remarks.complaint(),
	}
}

// unsized describes which of the policy's workloads are not sized; an empty reason: all of them are.
func (r readiness) unsized() (reason, message string) {
	m := r.matched
	all := m.selected()
	if m.crowded.workloads > 0 {
		reason = v1alpha1.ReasonTooManyContainers
		message = fmt.Sprintf("%d of %d workloads have more than %d containers each and are not sized: %s", m.crowded.workloads, all, policy.MostContainers, m.crowded)
	}
	if m.younger.workloads == 0 {
		return reason, message
	}
	if message != "" {
		message = "; " + message
	}
	return v1alpha1.ReasonTooManyWorkloads, fmt.Sprintf("policies of namespace %s select more than %d workloads, or %d containers, of which the oldest are sized, and %d of this policy's %d are not: %s",
		r.policy.Namespace, m.most, policy.OnAverage*m.most, m.younger.workloads, all, m.younger) + message
}

// notTaken names the first workloads whose recommendation the API server rejected, at most maxRefused, and counts the
// rest.
func (r readiness) notTaken() string {
	var shown []string
	for _, refused := range r.refused[:min(len(r.refused), maxRefused)] {
		shown = append(shown, refused.Error())
	}
	if rest := len(r.refused) - len(shown); rest > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", rest))
	}
	return fmt.Sprintf("the API server does not take the recommendations of %d of %d workloads: ", len(r.refused), len(r.matched.won)) + strings.Join(shown, "; ")
}

// conflict names the first workload that another policy sizes, and counts the rest.
func conflict(m matched) string {
	first := m.lost[0]
	text := fmt.Sprintf("policy %s sizes %s: %s", first.Winner, first.Workload, first.Reason)
	if n := m.losses - 1; n > 0 {
		text += fmt.Sprintf("; %d more workloads are sized by others", n)
	}
	return text
}

// sentence cuts the message of an external error to 512 bytes, because a condition must not grow with it.
func sentence(err error) string { return clip.Text(err.Error(), mostOfSentence) }

const mostOfSentence = 512

// unanimousHold returns a data hold if every resource of every container has one; nil: at least one target could be
// applied. Missing data takes precedence over stale data, because it explains more.
func (r readiness) unanimousHold() *v1alpha1.Hold {
	var first *v1alpha1.Hold
	for _, rec := range r.recommendations {
		for _, c := range rec.Spec.Containers {
			for _, res := range recommender.Resources {
				hold := dataHold(c, res)
				if hold == nil {
					return nil
				}
				if first == nil || hold.Reason == v1alpha1.ReasonInsufficientData && first.Reason != hold.Reason {
					first = hold
				}
			}
		}
	}
	return first
}

// dataHold returns the resource's hold because of missing or bad data, with the reason of a condition; nil: it has
// none.
func dataHold(c v1alpha1.ContainerTarget, r recommender.Resource) *v1alpha1.Hold {
	for _, h := range c.Holds {
		if h.Resource != r.String() {
			continue
		}
		switch recommender.Reason(h.Reason) {
		case recommender.InsufficientData, recommender.NoData:
			return &v1alpha1.Hold{Reason: v1alpha1.ReasonInsufficientData, Message: c.Name + ": " + h.Message}
		case recommender.UsageImplausible:
			return &v1alpha1.Hold{Reason: v1alpha1.ReasonUsageImplausible, Message: c.Name + ": " + h.Message}
		case recommender.StaleData:
			return &v1alpha1.Hold{Reason: v1alpha1.ReasonStaleData, Message: c.Name + ": " + h.Message}
		}
	}
	return nil
}

// remarks are clauses at the end of the condition's message. Each is empty if it does not apply.
type remarks struct{ report }

func remark(applies bool, format string, args ...any) string {
	if !applies {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// tooLarge names the first workload that the policy may select and that attune skips because of its size. The labels
// of such an object may not be cached, so a selector cannot be checked.
func (r remarks) tooLarge() string {
	target := r.policy.Spec.TargetRef
	meant := func(w workload.Identity) bool {
		return (target.Kind == "" || w.Kind == target.Kind) && (target.Name == "" || target.Name == w.Name)
	}
	first := slices.IndexFunc(r.matched.large, meant)
	if first < 0 {
		return ""
	}
	return fmt.Sprintf("; %s is left alone: it %s", r.matched.large[first], workload.WhatIsTooLarge)
}

// complaint is the first warning of the source's newest answer, such as a kubelet that does not answer.
func (r remarks) complaint() string {
	if len(r.usage.Last.Warnings) == 0 {
		return ""
	}
	return "; the usage source says: " + clip.Text(r.usage.Last.Warnings[0], mostOfSentence)
}

// coarse remarks that a history with such long steps never reaches full confidence, so that the targets stay larger.
func (r remarks) coarse() string {
	most := r.settings.Recommender.MostConfidence()
	return remark(most < 1, "; confidence reaches %.2f at most with metricsSource.queryStep %s: a shorter step needs less room", most, r.settings.Recommender.QueryStep)
}

// shortPast remarks that the history is shorter than the week in which the strategy Node looks for peaks.
func (r remarks) shortPast() string {
	short := r.settings.Strategy == v1alpha1.StrategyNode && r.settings.Source.HistoryWindow < node.PeakWindow
	return remark(short, "; strategy Node looks for bursts in the last 7 days, and metricsSource.historyWindow %s keeps less: what is rarer is not seen; 168h would do", r.settings.Source.HistoryWindow)
}

// notFollowed remarks that containers are not sized by their node, because the limit of followed containers is
// reached.
func (r remarks) notFollowed() string {
	return remark(r.usage.unfollowed, "; some containers of namespace %s keep what they hold: the operator follows no more containers of the strategy Node, or the namespace has its share of them; attune_usage_recent_refused counts them", r.policy.Namespace)
}

// leftOut remarks which values of the source's newest answer were not usable, such as NaN: data that seems to be
// missing may exist and be unusable.
func (r remarks) leftOut() string {
	var parts []string
	for _, reason := range r.usage.Last.DropReasons() {
		if reason == usage.DropFull {
			continue // of any namespace; see crowded
		}
		parts = append(parts, fmt.Sprintf("%d %s", r.usage.Last.Dropped[reason], reason))
	}
	return remark(len(parts) > 0, "; the source's newest answer had values that were left out: %s", strings.Join(parts, ", "))
}

// implausible remarks that samples were dropped because no node is that large.
func (r remarks) implausible() string {
	return remark(r.report.implausible != "", "; %s", r.report.implausible)
}

// tooMuch remarks that the source rejects queries about this namespace because the result is too large.
func (r remarks) tooMuch() string {
	if r.usage.unanswered == nil {
		return ""
	}
	return fmt.Sprintf("; the usage source finds what is asked about namespace %s too much, and usage is missing: %s", r.policy.Namespace, sentence(r.usage.unanswered))
}

// crowded remarks that the history of the namespace has gaps because its share of attune's memory is used up.
func (r remarks) crowded() string {
	return remark(r.usage.lost > 0, "; the usage history of namespace %s has gaps: it holds its share of the operator's memory, "+
		"and new values are left out: shorten metricsSource.historyWindow, lengthen metricsSource.queryStep, or give the operator more memory", r.policy.Namespace)
}

// notSized is a clause about a kind that attune does not size: its API was not installed when attune started, or
// scaledKinds does not add it. Empty: it is sized, or no kind is given.
func notSized(sized workload.Sized, kind v1alpha1.WorkloadKind) string {
	if kind == "" || sized.Has(kind) {
		return ""
	}
	if !workload.IsScaled(kind) {
		return fmt.Sprintf("; the API server does not serve %s: the operator looks again every few minutes", workload.GroupKindOf(kind))
	}
	said := "; the operator does not size this kind: the chart's value scaledKinds adds kinds, as RESOURCE.VERSION.GROUP"
	if len(sized.Scaled) > 0 {
		names := make([]string, len(sized.Scaled))
		for i, of := range sized.Scaled {
			names[i] = of.GroupKind().String()
		}
		said += ", and those that it sizes are " + strings.Join(names, ", ")
	}
	for _, left := range sized.Left {
		if left.Group == workload.GroupKindOf(kind).Group {
			said += fmt.Sprintf("; of %s, which is added, the operator says: %s", left.Resource, left.Why)
		}
	}
	return said
}
