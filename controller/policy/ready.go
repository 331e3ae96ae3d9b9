package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/clip"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/usage"
)

// readiness computes the policy's condition Ready. It is pure.
type readiness struct{ report }

// condition is derived from all other facts. The most urgent reason wins, in the order in which users should act: a
// pause, missing workloads, the source, rejected writes, data.
func (r readiness) condition() metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return falseCondition(v1alpha1.ConditionReady, reason, message)
	}
	reason, message := r.unsized()
	remarks := remarks(r)
	switch {
	case len(r.settings.Resize.Paused) > 0:
		return no(v1alpha1.ReasonPaused, fmt.Sprintf("paused by the %s settings: new pods keep their template's resources and no new resize starts; observation and reverts continue", r.settings.Resize.Paused[0]))
	case len(r.matched.won) == 0 && reason != "":
		return no(reason, message)
	case len(r.matched.won) == 0 && len(r.matched.lost) > 0:
		return no(v1alpha1.ReasonConflict, conflict(r.matched))
	case len(r.matched.won) == 0:
		return no(v1alpha1.ReasonNoWorkloadsFound, fmt.Sprintf("no %s matches targetRef", cmp.Or(r.policy.Spec.TargetRef.Kind, "workload"))+notSized(r.sized, r.policy.Spec.TargetRef.Kind)+remarks.tooLarge())
	case r.usage.Err != nil:
		return no(v1alpha1.ReasonPrometheusUnavailable, sentence(r.usage.Err)+"; attune applies no targets until the usage source answers")
	case len(r.refused) > 0:
		return no(v1alpha1.ReasonRecommendationRefused, r.rejectedWorkloads())
	case reason != "":
		return no(reason, message)
	}
	if hold := r.commonDataHold(); hold != nil {
		return no(hold.Reason, hold.Message+remarks.tooLarge()+remarks.leftOut()+remarks.tooMuch()+remarks.crowded()+remarks.implausible()+remarks.complaint())
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMonitoring,
		Message: "watching " + answers.Counted(len(r.matched.won), "workload") + runningOnly(&r.settings) + remarks.tooLarge() + remarks.coarse() + remarks.shortPast() +
			remarks.notFollowed() + remarks.tooMuch() + remarks.crowded() + remarks.implausible() + remarks.flaps() + remarks.unmeant() + remarks.notSized() + remarks.complaint(),
	}
}

// unsized describes which of the policy's workloads are not sized; an empty reason: all of them are.
func (r readiness) unsized() (reason, message string) {
	m := r.matched
	all := m.selected()
	if m.crowded.workloads > 0 {
		reason = v1alpha1.ReasonTooManyContainers
		message = fmt.Sprintf("%d of %d workloads are not sized, because each has more than %d containers: %s", m.crowded.workloads, all, policy.MostContainers, m.crowded)
	}
	if m.mixed.workloads > 0 && message == "" {
		reason = v1alpha1.ReasonIdentityConflict
		message = fmt.Sprintf("%d of %d workloads are not sized, because different policies, or one and none, select their Jobs: %s. Select all Jobs of an identity with one policy", m.mixed.workloads, all, m.mixed)
	}
	if m.younger.workloads == 0 {
		return reason, message
	}
	if message != "" {
		message = "; " + message
	}
	return v1alpha1.ReasonTooManyWorkloads, fmt.Sprintf("the policies of namespace %s select more than %d workloads or %d containers; attune sizes the oldest, and %d of this policy's %d workloads are not sized: %s",
		r.policy.Namespace, m.most, policy.OnAverage*m.most, m.younger.workloads, all, m.younger) + message
}

// rejectedWorkloads names the first workloads whose recommendation the API server rejected, at most maxRefused, and
// counts the rest.
func (r readiness) rejectedWorkloads() string {
	shown := podview.Map(r.refused[:min(len(r.refused), maxRefused)], refusal.Error)
	if rest := len(r.refused) - len(shown); rest > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", rest))
	}
	return fmt.Sprintf("the API server rejected the recommendations of %d of %d workloads: ", len(r.refused), len(r.matched.won)) + strings.Join(shown, "; ")
}

// conflict names the first workload that another policy sizes, and counts the rest.
func conflict(m matched) string {
	first := m.lost[0]
	text := fmt.Sprintf("policy %s sizes %s: %s", first.Winner, first.Workload, first.Reason)
	if n := m.losses - 1; n > 0 {
		text += fmt.Sprintf("; other policies size %d more workloads", n)
	}
	return text
}

// sentence cuts the message of an external error to 512 bytes, because a condition must not grow with it.
func sentence(err error) string { return clip.Text(clip.Line(err.Error()), mostOfSentence) }

const mostOfSentence = 512

// commonDataHold returns a data hold if every resource of every container has one; nil: at least one target could be
// applied. Missing data takes precedence over stale data, because it explains more.
func (r readiness) commonDataHold() *v1alpha1.Hold {
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
	return fmt.Sprintf("; attune skips %s: it %s", r.matched.large[first], workload.WhatIsTooLarge)
}

// mostComplaints bounds the warnings in the message, because a condition must not grow with their number.
const mostComplaints = 2

// complaint has the first warnings about the source, such as a kubelet that does not answer, and counts the rest.
func (r remarks) complaint() string {
	all := r.usage.Last.Warnings
	if r.thinCPU != "" {
		all = slices.Concat([]string{r.thinCPU}, all)
	}
	var shown []string
	for _, warning := range all[:min(len(all), mostComplaints)] {
		shown = append(shown, clip.Text(clip.Line(warning), mostOfSentence))
	}
	if rest := len(all) - len(shown); rest > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", rest))
	}
	return remark(len(all) > 0, "%s%s", answers.SourceWarning, strings.Join(shown, "; "))
}

// coarse remarks that a history with such long steps never reaches full confidence, so that the targets stay larger.
func (r remarks) coarse() string {
	most := r.settings.Recommender.MostConfidence()
	return remark(most < 1, "; confidence cannot exceed %.2f with metricsSource.queryStep %s. Set a shorter queryStep for a smaller margin", most, r.settings.Recommender.QueryStep)
}

// shortPast remarks that the history is shorter than the week in which the strategy Node looks for peaks.
func (r remarks) shortPast() string {
	short := r.settings.Strategy == v1alpha1.StrategyNode && r.settings.Source.HistoryWindow < node.PeakWindow
	return remark(short, "; strategy Node searches 7 days of history for bursts, but metricsSource.historyWindow is %s: rarer bursts are missed. Set historyWindow to 168h", r.settings.Source.HistoryWindow)
}

// notFollowed remarks that containers are not sized by their node, because the limit of followed containers is
// reached.
func (r remarks) notFollowed() string {
	return remark(r.usage.unfollowed, "; some containers of namespace %s keep their resources: the operator tracks no more containers of strategy Node, in total or for this namespace. Metric attune_usage_recent_refused counts them", r.policy.Namespace)
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
	return remark(len(parts) > 0, "; the newest answer of the usage source had unusable values: %s", strings.Join(parts, ", "))
}

// implausible remarks that samples were dropped because no node is that large.
func (r remarks) implausible() string {
	return remark(r.report.implausible != "", "; %s", r.report.implausible)
}

// flaps remarks that the settings change again and again.
func (r remarks) flaps() string {
	return remark(r.report.flaps, "; the settings of the policy change every few seconds, so attune applies at most one change per minute. "+
		"Find the field managers that overwrite each other in metadata.managedFields of the policy and of its defaults")
}

// notSized remarks that new pods keep the resources of their template, and that each replaced pod is resized again.
func (r remarks) notSized() string {
	return remark(r.report.notSized != "", "; new pods are not sized at admission: %s", r.report.notSized)
}

// runningOnly says that a policy resizes only running pods. That is what the user chose, so it is no remark.
func runningOnly(settings *policy.Settings) string {
	return remark(settings.NotSized() != "" && settings.ChangesNoPods() == "", " (running pods only: %s)", settings.NotSized())
}

// unmeant remarks settings that probably do not do what the user means.
func (r remarks) unmeant() (text string) {
	for _, sentence := range r.settings.Remarks() {
		text += "; " + sentence
	}
	return text + r.unused()
}

// unused remarks that entries of containerPolicies have no container: their names may be misspelled.
func (r remarks) unused() string {
	if len(r.settings.Containers) == 0 {
		return ""
	}
	// has reports whether a template has such a container, or is not known.
	has := func(container string, in func(*corev1.PodSpec) []*corev1.Container) bool {
		return slices.ContainsFunc(r.matched.won, func(w workload.Workload) bool {
			return w.Template == nil || slices.ContainsFunc(in(&w.Template.Spec), func(c *corev1.Container) bool { return c.Name == container })
		})
	}
	var unknown, ending []string
	for _, name := range r.settings.Unused(func(container string) bool { return has(container, podview.ResizableIn) }) {
		entry := "containerPolicies[" + name + "]"
		if has(name, podview.EndingIn) {
			ending = append(ending, entry)
		} else {
			unknown = append(unknown, entry)
		}
	}
	named := func(entries []string) string { return clip.Text(strings.Join(entries, ", "), mostOfSentence) }
	return remark(len(unknown) > 0, "; %s: no effect, because no pod template of the workloads has a container or sidecar of this name. Correct the name, or remove the entry", named(unknown)) +
		remark(len(ending) > 0, "; %s: no effect, because it is an init container that ends before the other containers start, and attune sizes none of those. "+
			"Set its resources in the pod template, and remove the entry", named(ending))
}

// tooMuch remarks that the source rejects queries about this namespace because the result is too large.
func (r remarks) tooMuch() string {
	if r.usage.unanswered == nil {
		return ""
	}
	return fmt.Sprintf("; usage queries for namespace %s are too large for the usage source, and some usage is missing: %s", r.policy.Namespace, sentence(r.usage.unanswered))
}

// crowded remarks that the history of the namespace has gaps because its share of attune's memory is used up.
func (r remarks) crowded() string {
	return remark(r.usage.lost > 0, "; the usage history of namespace %s has gaps: it uses its share of the operator's memory, "+
		"and new samples are dropped. Set a shorter metricsSource.historyWindow, a longer metricsSource.queryStep, or give the operator more memory", r.policy.Namespace)
}

// notSized is a clause about a kind that attune does not size: its API was not installed when attune started, or
// scaledKinds does not add it. Empty: it is sized, or no kind is given.
func notSized(sized workload.Sized, kind v1alpha1.WorkloadKind) string {
	if kind == "" || sized.Has(kind) {
		return ""
	}
	if !workload.IsScaled(kind) {
		return fmt.Sprintf("; the API server does not serve %s: install its CustomResourceDefinition. The operator checks again every few minutes", workload.GroupKindOf(kind))
	}
	said := "; the operator does not size this kind. Add it to the chart's value scaledKinds as RESOURCE.VERSION.GROUP"
	if len(sized.Scaled) > 0 {
		names := make([]string, len(sized.Scaled))
		for i, of := range sized.Scaled {
			names[i] = of.GroupKind().String()
		}
		said += "; scaledKinds has " + strings.Join(names, ", ")
	}
	for _, left := range sized.Left {
		if left.Group == workload.GroupKindOf(kind).Group {
			said += fmt.Sprintf("; %s of scaledKinds is not sized: %s", left.Resource, left.Why)
		}
	}
	return said
}
