package policy

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
	"attune.io/attune/tuning/targets"
	"attune.io/attune/usage/history"
)

// Caps of the status: it must not grow with the number of workloads.
const (
	maxSummaries = 20
	maxConflicts = 20
	maxHistory   = 20
	maxRefused   = 3
)

// report is what a policy's status is computed from.
type report struct {
	policy   *v1alpha1.AttunePolicy
	settings policy.Settings
	matched  matched
	// recommendations of the workloads that were won, in their order.
	recommendations []v1alpha1.AttuneRecommendation
	// refused are the recommendations that the API server did not take.
	refused []refusal
	usage   usageState
}

// usageState is how the policy's source and histories are.
type usageState struct {
	history.State
	// lost is how many values of the newest answer found no room in the namespace's share of the history.
	lost int
	// unanswered is why the source does not answer about the namespace, while it does about others.
	unanswered error
	// unfollowed: there is no room to follow the recent usage of some containers of the namespace.
	unfollowed bool
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
		s.Savings = savings(r)
	}
	for _, c := range []metav1.Condition{readiness{r}.condition(), r.resizing(), r.degraded(), r.blocked()} {
		c.ObservedGeneration = r.policy.Generation
		meta.SetStatusCondition(&s.Conditions, c)
	}
	return s
}

func (r report) counts() *v1alpha1.WorkloadCounts {
	counts := &v1alpha1.WorkloadCounts{Discovered: int32(r.matched.selected())}
	for i, rec := range r.recommendations {
		if targets.Recommended(rec.Spec) && !skipped(r.matched.won[i]) {
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
