package policy

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/answers"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage/history"
)

// Limits of the status: it must not grow with the number of workloads.
const (
	maxSummaries = 20
	maxConflicts = 20
	maxHistory   = 20
	maxRefused   = 3
)

// report holds all inputs of a policy's status. Do not change it.
type report struct {
	// implausible describes the first container with dropped samples; empty: none were dropped.
	implausible string
	// thinCPU describes the first container with much less CPU usage than memory usage; empty: there is none.
	thinCPU string
	// flaps: the settings of the policy change again and again in quick succession.
	flaps bool
	// now is the time of the reconcile.
	now      time.Time
	policy   *v1alpha1.AttunePolicy
	settings policy.Settings
	matched  matched
	// recommendations are for the won workloads, in the order of matched.won.
	recommendations []v1alpha1.AttuneRecommendation
	// refused are the recommendations that the API server rejected.
	refused []refusal
	// usage is the state of the policy's source and histories.
	usage usageState
	// sized are the kinds of workloads that the loop watches.
	sized workload.Sized
	// notSized is why new pods of the namespace are not sized (lookup.Reader.NotSized).
	notSized string
}

// usageState is the state of the policy's source and histories.
type usageState struct {
	history.State
	// lost is how many values of the newest answer did not fit into the namespace's share of the history.
	lost int
	// unanswered is why the source does not answer for the namespace while it answers for others; nil: it answers.
	unanswered error
	// unfollowed reports that the recent usage of some containers of the namespace is not followed, because the limit
	// is reached.
	unfollowed bool
}

// status computes the policy's status. It is pure. In the mode Observe it has no recommendations and no savings.
func (r report) status() v1alpha1.AttunePolicyStatus {
	s := v1alpha1.AttunePolicyStatus{
		ObservedGeneration: r.policy.Generation,
		Mode:               r.settings.Resize.Mode,
		Admission:          admissionOf(&r.settings),
		Conditions:         slices.Clone(r.policy.Status.Conditions),
		Workloads:          r.counts(),
		ResizeHistory:      r.history(),
	}
	s.Conflicts = r.matched.lost
	if s.Mode != v1alpha1.UpdateObserve {
		s.Recommendations = r.summaries()
		s.RecommendationsOmitted = int32(max(0, len(r.recommendations)-len(s.Recommendations)))
		s.Savings = savingsOf(saved(r), r.settings.Pricing)
	}
	for _, c := range []metav1.Condition{readiness{r}.condition(), r.resizing(), r.first(v1alpha1.ConditionDegraded, v1alpha1.ReasonHealthy), r.blocked()} {
		v1alpha1.SetCondition(&s.Conditions, c, r.policy.Generation, r.now)
	}
	return s
}

// admissionOf returns status.admission.
func admissionOf(settings *policy.Settings) v1alpha1.Switch {
	if settings.NotSized() != "" {
		return v1alpha1.Disabled
	}
	return ""
}

// counts returns how many workloads are selected, have a target, were resized, and are being resized.
func (r report) counts() *v1alpha1.WorkloadCounts {
	counts := &v1alpha1.WorkloadCounts{Discovered: int32(r.matched.selected())}
	for i, rec := range r.recommendations {
		if podview.HasTarget(rec.Spec) && !skipped(r.matched.won[i]) {
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

// wasResized reports whether the workload has a verified size. The strategy Node has none, because each pod has its
// own size: there it is a successful resize that was not undone since.
func wasResized(rec v1alpha1.AttuneRecommendation) bool {
	if rec.Spec.Strategy != v1alpha1.StrategyNode {
		return len(rec.Status.Verified) > 0
	}
	for _, row := range rec.Status.History {
		switch {
		case row.Result != lifecycle.ResultSuccess || row.Reason == resize.ReasonBoost:
		case row.Reason == lifecycle.ReasonUndo:
			return false
		default:
			return true
		}
	}
	return false
}

// resizing is the condition Resizing of all workloads together.
func (r report) resizing() metav1.Condition {
	c := falseCondition(v1alpha1.ConditionResizing, v1alpha1.ReasonIdle, "")
	open := 0
	for _, rec := range r.recommendations {
		open += len(rec.Status.Records)
		if rec.Status.Phase == v1alpha1.PhaseCooldown {
			c.Reason = v1alpha1.ReasonCooldownActive
		}
	}
	if open > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, v1alpha1.ReasonInProgress, answers.Counted(open, "pod")+" being resized or observed"
	}
	return c
}

// blocked is the condition ResizeBlocked of the first workload that has it. Without one, it is the first hold because
// of an autoscaler.
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

// autoscaled returns the first hold because of another autoscaler, and its container. A VPA takes precedence over
// HPAs, because it controls more.
func (r report) autoscaled() (about string, first *v1alpha1.Hold) {
	for _, reason := range []string{resize.ReasonVPA, resize.ReasonHPA} {
		for _, rec := range r.recommendations {
			for _, c := range rec.Spec.Containers {
				if hold := podview.FirstIn(c.Holds, func(h *v1alpha1.Hold) bool { return h.Reason == reason }); hold != nil {
					return rec.Spec.Workload.Name + "/" + c.Name + ": " + hold.Resource, hold
				}
			}
		}
	}
	return "", nil
}

// first returns the first workload's condition of a type that is True; otherwise a False one with the given reason.
func (r report) first(kind, otherwise string) metav1.Condition {
	for _, rec := range r.recommendations {
		if c := meta.FindStatusCondition(rec.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
			return metav1.Condition{Type: kind, Status: c.Status, Reason: c.Reason, Message: rec.Spec.Workload.Name + ": " + c.Message}
		}
	}
	return falseCondition(kind, otherwise, "")
}

// falseCondition returns a condition that is False.
func falseCondition(kind, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// history returns the newest entries of all workloads, newest first, at most maxHistory. Entries of the same time
// keep the order of the workloads.
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

// summaries returns the recommendations for the first maxSummaries workloads.
func (r report) summaries() []v1alpha1.RecommendationSummary {
	var out []v1alpha1.RecommendationSummary
	for i, rec := range r.recommendations[:min(len(r.recommendations), maxSummaries)] {
		summary := v1alpha1.RecommendationSummary{Workload: rec.Spec.Workload.Name, Kind: rec.Spec.Workload.Kind}
		for _, t := range rec.Spec.Containers {
			summary.Containers = append(summary.Containers, v1alpha1.ContainerSummary{
				Name: t.Name, Current: podview.ToResources(current(r.matched.won[i], r.settings, t.Name)), Recommended: t.Target,
				Confidence: t.Confidence, DataPoints: t.DataPoints, LastUpdated: rec.Spec.DataUntil,
			})
		}
		if summary.Containers != nil {
			out = append(out, summary)
		}
	}
	return out
}

// alreadyLeftOut reports that the status of a policy beyond the limit already reports that for its newest
// generation, so that the policy need not be reconciled.
func alreadyLeftOut(p *v1alpha1.AttunePolicy) bool {
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonTooManyPolicies && p.Status.ObservedGeneration == p.Generation
}

// unready sets the condition Ready to False with a reason. It copies the conditions before it changes them, because
// Controller.write compares the result with p.Status to find changes.
func unready(p *v1alpha1.AttunePolicy, s v1alpha1.AttunePolicyStatus, reason, message string, now time.Time) v1alpha1.AttunePolicyStatus {
	s.ObservedGeneration, s.Conditions = p.Generation, notReady(s.Conditions, p.Generation, reason, message, now)
	return s
}

// notReady returns conditions with Ready=False for a reason.
func notReady(conditions []metav1.Condition, generation int64, reason, message string, now time.Time) []metav1.Condition {
	conditions = slices.Clone(conditions)
	v1alpha1.SetCondition(&conditions, falseCondition(v1alpha1.ConditionReady, reason, message), generation, now)
	return conditions
}

// saysInvalid reports that the conditions already report invalid settings, with the same message.
func saysInvalid(conditions []metav1.Condition, why string) bool {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonInvalidConfig && ready.Message == why
}

// saved compares the requests of the templates with the targets, over all replicas. Blocked resources and Jobs are
// not counted: the rules are those of kubectl attune.
func saved(r report) (sum answers.SavedAmounts) {
	for i := range r.recommendations {
		w := r.matched.won[i]
		if skipped(w) || answers.WorkloadNotCounted(&r.recommendations[i], w, &r.settings) != nil {
			continue
		}
		containers := r.recommendations[i].Spec.Containers
		for j := range containers {
			sum = sum.Plus(answers.SavedByTarget(&containers[j], r.settings.For(containers[j].Name), current(w, r.settings, containers[j].Name), answers.StandingReplicas(w)))
		}
	}
	return sum
}

// savingsOf returns the savings, with their price if prices are set.
func savingsOf(saved answers.SavedAmounts, pricing policy.Pricing) *v1alpha1.Savings {
	out := &v1alpha1.Savings{
		CPURequestReduction:    *resource.NewMilliQuantity(int64(saved[recommender.CPU]), resource.DecimalSI),
		MemoryRequestReduction: *resource.NewQuantity(int64(saved[recommender.Memory]), resource.BinarySI),
	}
	if amount, priced := answers.MonthlyPrice(saved, pricing); priced {
		out.EstimatedMonthlySavings = answers.FormatMoney(amount, pricing.Currency)
	}
	return out
}

// skipped reports that an annotation excludes the workload, so that it has no savings and no recommendation.
func skipped(w workload.Workload) bool {
	_, skipped := w.Skipped()
	return skipped
}

// current returns the resources of a container in the workload's template; zero if the container is gone or excluded.
func current(w workload.Workload, settings policy.Settings, container string) recommender.Size {
	for _, c := range targets.Sized(w.Template, settings) {
		if c.Name == container {
			return podview.ReadSpec(c.Resources)
		}
	}
	return recommender.Size{}
}
