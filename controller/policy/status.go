package policy

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
	"attune.io/attune/usage"
	"attune.io/attune/usage/history"
)

// Caps of the status: it must not grow with the number of workloads.
const (
	maxSummaries = 20
	maxConflicts = 20
	maxHistory   = 20
	maxRefused   = 3
)

// hoursPerMonth is the usual accounting month.
const hoursPerMonth = 730

// report is what a policy's status is computed from.
type report struct {
	policy   *v1alpha1.AttunePolicy
	settings policy.Settings
	matched  matched
	// recommendations of the workloads that were won, in their order.
	recommendations []v1alpha1.AttuneRecommendation
	// refused are the recommendations that the API server did not take.
	refused []refusal
	source  history.State
	// lost is how many values of the newest answer found no room in the namespace's share of the history.
	lost int
	// unanswered is why the source does not answer about the namespace, while it does about others.
	unanswered error
	// unfollowed: there is no room to follow the recent usage of some containers of the namespace.
	unfollowed bool
	now        time.Time
}

// status computes the policy's status. It is pure.
func (r report) status() v1alpha1.AttunePolicyStatus {
	s := v1alpha1.AttunePolicyStatus{
		ObservedGeneration: r.policy.Generation,
		Mode:               r.settings.Resize.Mode,
		Conditions:         slices.Clone(r.policy.Status.Conditions),
		Workloads:          r.counts(),
		ResizeHistory:      r.history(),
	}
	s.Conflicts = r.matched.lost
	if s.Mode != v1alpha1.UpdateObserve {
		s.Recommendations = r.summaries()
		s.RecommendationsOmitted = int32(max(0, len(r.recommendations)-len(s.Recommendations)))
		s.Savings = r.savings()
	}
	for _, c := range []metav1.Condition{r.ready(), r.resizing(), r.degraded(), r.blocked()} {
		c.ObservedGeneration = r.policy.Generation
		meta.SetStatusCondition(&s.Conditions, c)
	}
	return s
}

func (r report) counts() *v1alpha1.WorkloadCounts {
	counts := &v1alpha1.WorkloadCounts{Discovered: int32(r.matched.selected())}
	for i, rec := range r.recommendations {
		if hasTarget(rec) && !r.skipped(i) {
			counts.WithRecommendations++
		}
		if wasResized(rec) {
			counts.Resized++
		}
		if len(rec.Status.Records) > 0 {
			counts.Pending++
		}
	}
	return counts
}

// wasResized: a size of it is kept. The strategy Node keeps none, as each pod has its own: there it is a resize that
// succeeded, and that was not undone since.
func wasResized(rec v1alpha1.AttuneRecommendation) bool {
	if rec.Spec.Strategy != v1alpha1.StrategyNode {
		return len(rec.Status.Kept) > 0
	}
	for _, row := range rec.Status.History {
		switch {
		case row.Result != resize.ResultSuccess || row.Reason == resize.ReasonBoost:
		case row.Reason == resize.ReasonUndo:
			return false
		default:
			return true
		}
	}
	return false
}

func hasTarget(rec v1alpha1.AttuneRecommendation) bool {
	return slices.ContainsFunc(rec.Spec.Containers, func(c v1alpha1.ContainerTarget) bool {
		return c.Target != (v1alpha1.Resources{})
	})
}

// ready is derived from the rest, most urgent first.
func (r report) ready() metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
	reason, message := r.unsized()
	switch {
	case len(r.settings.Resize.Paused) > 0:
		return no(v1alpha1.ReasonPaused, fmt.Sprintf("paused on the level %s: no seed and no new resize; watches and reverts go on", r.settings.Resize.Paused[0]))
	case len(r.matched.won) == 0 && reason != "":
		return no(reason, message)
	case len(r.matched.won) == 0 && len(r.matched.lost) > 0:
		return no(v1alpha1.ReasonConflict, conflict(r.matched))
	case len(r.matched.won) == 0:
		return no(v1alpha1.ReasonNoWorkloadsFound, fmt.Sprintf("no %s matches targetRef", r.policy.Spec.TargetRef.Kind)+r.tooLarge())
	case r.source.Err != nil:
		return no(v1alpha1.ReasonPrometheusUnavailable, sentence(r.source.Err)+"; nothing is applied until it answers")
	case len(r.refused) > 0:
		return no(v1alpha1.ReasonRecommendationRefused, r.notTaken())
	case reason != "":
		return no(reason, message)
	}
	if hold := r.unanimousHold(); hold != nil {
		return no(hold.Reason, hold.Message+r.tooLarge()+r.leftOut()+r.tooMuch()+r.crowded()+r.complaint())
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMonitoring,
		Message: fmt.Sprintf("watching %d workloads", len(r.matched.won)) + r.tooLarge() + r.coarse() + r.shortPast() + r.notFollowed() + r.tooMuch() + r.crowded() + r.complaint(),
	}
}

// unsized says which of the policy's workloads are not sized; an empty reason: all of them are.
func (r report) unsized() (reason, message string) {
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

// notTaken names the first workloads whose recommendation was refused, and counts the rest.
func (r report) notTaken() string {
	shown := r.refused[:min(len(r.refused), maxRefused)]
	text := fmt.Sprintf("the API server does not take the recommendations of %d of %d workloads: ", len(r.refused), len(r.matched.won))
	for i, refused := range shown {
		if i > 0 {
			text += "; "
		}
		text += refused.Error()
	}
	if rest := len(r.refused) - len(shown); rest > 0 {
		text += fmt.Sprintf("; and %d more", rest)
	}
	return text
}

// tooLarge names the first workload that the policy may mean and that is left alone for its size. Its labels may not be
// known, so that a selector does not tell whether it is meant.
func (r report) tooLarge() string {
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
func (r report) complaint() string {
	if len(r.source.Last.Warnings) == 0 {
		return ""
	}
	return "; the usage source says: " + cut(r.source.Last.Warnings[0])
}

// coarse says that no history of such steps is ever long enough for full confidence: the targets stay wider.
func (r report) coarse() string {
	most := r.settings.Recommender.MostConfidence()
	if most >= 1 {
		return ""
	}
	return fmt.Sprintf("; confidence reaches %.2f at most with metricsSource.queryStep %s: a shorter step needs less room", most, r.settings.Recommender.QueryStep)
}

// shortPast says that the strategy Node does not see the week that it looks for bursts in.
func (r report) shortPast() string {
	if r.settings.Strategy != v1alpha1.StrategyNode || r.settings.Source.HistoryWindow >= node.PeakWindow {
		return ""
	}
	return fmt.Sprintf("; strategy Node looks for bursts in the last 7 days, and metricsSource.historyWindow %s keeps less: what is rarer is not seen; 168h would do", r.settings.Source.HistoryWindow)
}

// notFollowed says that containers are not sized by their node because there is no room to follow what they use.
func (r report) notFollowed() string {
	if !r.unfollowed {
		return ""
	}
	return fmt.Sprintf("; some containers of namespace %s keep what they hold: the operator follows no more containers of the strategy Node, or the namespace has its share of them; attune_usage_recent_refused counts them", r.policy.Namespace)
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

// sentence bounds a message from outside.
func sentence(err error) string { return cut(err.Error()) }

func cut(text string) string {
	const most = 512
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

// leftOut says what of the source's newest answer was no usage, such as NaN: data that seems to be missing
// may be there and useless.
func (r report) leftOut() string {
	var parts []string
	for _, reason := range r.source.Last.DropReasons() {
		if reason == usage.DropFull {
			continue // of any namespace; see crowded
		}
		parts = append(parts, fmt.Sprintf("%d %s", r.source.Last.Dropped[reason], reason))
	}
	if len(parts) == 0 {
		return ""
	}
	return "; the source's newest answer had values that were left out: " + strings.Join(parts, ", ")
}

// tooMuch says what the source does not answer about the namespace because it is too much, while it does about others.
func (r report) tooMuch() string {
	if r.unanswered == nil {
		return ""
	}
	return fmt.Sprintf("; the usage source finds what is asked about namespace %s too much, and usage is missing: %s", r.policy.Namespace, sentence(r.unanswered))
}

// crowded says that the history of the namespace has gaps because its share of the operator's memory is used up.
func (r report) crowded() string {
	if r.lost == 0 {
		return ""
	}
	return fmt.Sprintf("; the usage history of namespace %s has gaps: it holds its share of the operator's memory, "+
		"and new values are left out: shorten metricsSource.historyWindow, lengthen metricsSource.queryStep, or give the operator more memory", r.policy.Namespace)
}

// unanimousHold is a hold of the data when no workload has a target that could be applied.
func (r report) unanimousHold() *v1alpha1.Hold {
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

func dataHold(c v1alpha1.ContainerTarget, r recommender.Resource) *v1alpha1.Hold {
	for _, h := range c.Holds {
		if h.Resource != r.String() {
			continue
		}
		switch recommender.Reason(h.Reason) {
		case recommender.InsufficientData, recommender.NoData:
			return &v1alpha1.Hold{Reason: v1alpha1.ReasonInsufficientData, Message: c.Name + ": " + h.Message}
		case recommender.StaleData:
			return &v1alpha1.Hold{Reason: v1alpha1.ReasonStaleData, Message: c.Name + ": " + h.Message}
		}
	}
	return nil
}

func (r report) resizing() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionResizing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonIdle}
	open := 0
	for _, rec := range r.recommendations {
		open += len(rec.Status.Records)
		if rec.Status.Phase == v1alpha1.PhaseCooldown {
			c.Reason = v1alpha1.ReasonCooldownActive
		}
	}
	if open > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonInProgress, fmt.Sprintf("%d pods are being resized or watched", open)
	}
	return c
}

// degraded and blocked repeat the first workload's own condition, which names it.
func (r report) degraded() metav1.Condition {
	return r.first(v1alpha1.ConditionDegraded, v1alpha1.ReasonHealthy)
}

func (r report) blocked() metav1.Condition {
	c := r.first(v1alpha1.ConditionResizeBlocked, v1alpha1.ReasonNotBlocked)
	if c.Status == metav1.ConditionTrue {
		return c
	}
	if about, hold := r.autoscaled(); hold != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, hold.Reason, about+": "+hold.Message
	}
	return c
}

// autoscaled is the first hold of another autoscaler and what it is about, a VPA's before any HPA's: it
// holds more.
func (r report) autoscaled() (about string, first *v1alpha1.Hold) {
	for _, reason := range []string{resize.ReasonVPA, resize.ReasonHPA} {
		for _, rec := range r.recommendations {
			for _, c := range rec.Spec.Containers {
				for i := range c.Holds {
					if c.Holds[i].Reason == reason {
						return rec.Spec.Workload.Name + "/" + c.Name + ": " + c.Holds[i].Resource, &c.Holds[i]
					}
				}
			}
		}
	}
	return "", nil
}

func (r report) first(kind, otherwise string) metav1.Condition {
	for _, rec := range r.recommendations {
		if c := meta.FindStatusCondition(rec.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return metav1.Condition{Type: kind, Status: c.Status, Reason: c.Reason, Message: rec.Spec.Workload.Name + ": " + c.Message}
		}
	}
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: otherwise}
}

// history is the newest of all entries, the newest first; those of the same time in the workloads' order.
func (r report) history() []v1alpha1.HistoryEntry {
	var newest []v1alpha1.HistoryEntry
	for i := range r.recommendations {
		for _, entry := range r.recommendations[i].Status.History {
			at, _ := slices.BinarySearchFunc(newest, entry, func(kept, e v1alpha1.HistoryEntry) int {
				if kept.Timestamp.Before(&e.Timestamp) {
					return 1
				}
				return -1
			})
			if at < maxHistory {
				newest = slices.Insert(newest, at, entry)
				newest = newest[:min(len(newest), maxHistory)]
			}
		}
	}
	return newest
}

func (r report) summaries() []v1alpha1.RecommendationSummary {
	var out []v1alpha1.RecommendationSummary
	for i, rec := range r.recommendations[:min(len(r.recommendations), maxSummaries)] {
		summary := v1alpha1.RecommendationSummary{Workload: rec.Spec.Workload.Name, Kind: rec.Spec.Workload.Kind}
		for _, t := range rec.Spec.Containers {
			summary.Containers = append(summary.Containers, v1alpha1.ContainerSummary{
				Name: t.Name, Current: podview.ToResources(r.current(r.matched.won[i], t.Name)), Recommended: t.Target,
				Confidence: t.Confidence, DataPoints: t.DataPoints, LastUpdated: rec.Spec.DataUntil,
			})
		}
		if summary.Containers != nil {
			out = append(out, summary)
		}
	}
	return out
}

// current is what the workload's template asks for a container.
func (r report) current(w workload.Workload, container string) recommender.Size {
	for _, c := range sized(w.Template, r.settings) {
		if c.Name == container {
			return podview.ReadSpec(c.Resources)
		}
	}
	return recommender.Size{}
}

// skipped: a workload's owner has it left alone, so that nothing is saved of it and nothing recommended.
func (r report) skipped(workload int) bool {
	_, skipped := r.matched.won[workload].Skipped()
	return skipped
}

// saves: a target that the settings and the autoscalers let apply.
func (r report) saves(t v1alpha1.ContainerTarget, res recommender.Resource, now, target recommender.Amount) bool {
	lowered := target >= now || r.settings.Recommender.Of[res].AllowDecrease
	return now > 0 && target > 0 && lowered && !heldFor(t.Holds, res, resize.ReasonHPA) && !heldFor(t.Holds, res, resize.ReasonVPA)
}

// saved compares the requests of the templates with the targets, over all replicas.
func (r report) saved() (saved [2]recommender.Amount) {
	for i := range r.recommendations {
		w := r.matched.won[i]
		if r.skipped(i) {
			continue
		}
		for _, t := range r.recommendations[i].Spec.Containers {
			now, target := r.current(w, t.Name), podview.FromResources(t.Target)
			for _, res := range recommender.Resources {
				if r.saves(t, res, now[res].Request, target[res].Request) {
					saved[res] += (now[res].Request - target[res].Request) * recommender.Amount(w.Replicas)
				}
			}
		}
	}
	return saved
}

func (r report) savings() *v1alpha1.Savings {
	saved := r.saved()
	return &v1alpha1.Savings{
		CPURequestReduction:     *resource.NewMilliQuantity(int64(saved[recommender.CPU]), resource.DecimalSI),
		MemoryRequestReduction:  *resource.NewQuantity(int64(saved[recommender.Memory]), resource.BinarySI),
		EstimatedMonthlySavings: r.monthly(saved),
	}
}

func (r report) monthly(saved [2]recommender.Amount) string {
	p := r.settings.Pricing
	if p.CPUPerCoreHour == 0 && p.MemoryPerGiBHour == 0 {
		return ""
	}
	const gib = 1 << 30
	amount := hoursPerMonth * (float64(saved[recommender.CPU])/1000*p.CPUPerCoreHour + float64(saved[recommender.Memory])/gib*p.MemoryPerGiBHour)
	return p.Currency + strconv.FormatFloat(amount, 'f', 2, 64)
}

// invalidStatus reports settings that cannot be used: nothing of what was recommended holds.
func invalidStatus(p *v1alpha1.AttunePolicy, cause *policy.InvalidConfig) v1alpha1.AttunePolicyStatus {
	s := v1alpha1.AttunePolicyStatus{Conditions: p.Status.Conditions}
	return unready(p, s, v1alpha1.ReasonInvalidConfig, cause.Error())
}

// leftOut reports that there are too many policies.
func leftOut(p *v1alpha1.AttunePolicy) v1alpha1.AttunePolicyStatus {
	return unready(p, v1alpha1.AttunePolicyStatus{Conditions: p.Status.Conditions}, v1alpha1.ReasonTooManyPolicies, policy.TooMany(p.Namespace))
}

// knowsItIsLeftOut: there is nothing more to tell a policy beyond the bound.
func knowsItIsLeftOut(p *v1alpha1.AttunePolicy) bool {
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonTooManyPolicies && p.Status.ObservedGeneration == p.Generation
}

// undiscovered reports workloads that could not be listed; what was known of them stays.
func undiscovered(p *v1alpha1.AttunePolicy, cause error) v1alpha1.AttunePolicyStatus {
	return unready(p, p.Status, v1alpha1.ReasonWorkloadDiscoveryFailed, sentence(cause))
}

func unready(p *v1alpha1.AttunePolicy, s v1alpha1.AttunePolicyStatus, reason, message string) v1alpha1.AttunePolicyStatus {
	s.ObservedGeneration, s.Conditions = p.Generation, slices.Clone(s.Conditions)
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason,
		Message: message, ObservedGeneration: p.Generation,
	})
	return s
}

// writeStatus patches the status once, and only where something changed.
func (c *Controller) writeStatus(ctx context.Context, p *v1alpha1.AttunePolicy, status v1alpha1.AttunePolicyStatus) error {
	if equality.Semantic.DeepEqual(p.Status, status) {
		return nil
	}
	before := p.DeepCopy()
	p.Status = status
	if err := c.Client.Status().Patch(ctx, p, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing the status of policy %s: %w", p.Name, err)
	}
	return nil
}
