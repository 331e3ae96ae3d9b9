package policy

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/policy"
	"attune.io/attune/recommender"
)

// readiness finds the policy's condition Ready.
type readiness struct{ report }

// condition is derived from the rest, most urgent first.
func (r readiness) condition() metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	}
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
		return no(v1alpha1.ReasonNoWorkloadsFound, fmt.Sprintf("no %s matches targetRef", r.policy.Spec.TargetRef.Kind)+remarks.tooLarge())
	case r.usage.Err != nil:
		return no(v1alpha1.ReasonPrometheusUnavailable, sentence(r.usage.Err)+"; nothing is applied until it answers")
	case len(r.refused) > 0:
		return no(v1alpha1.ReasonRecommendationRefused, r.notTaken())
	case reason != "":
		return no(reason, message)
	}
	if hold := r.unanimousHold(); hold != nil {
		return no(hold.Reason, hold.Message+remarks.tooLarge()+remarks.leftOut()+remarks.tooMuch()+remarks.crowded()+remarks.complaint())
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMonitoring,
		Message: fmt.Sprintf("watching %d workloads", len(r.matched.won)) + remarks.tooLarge() + remarks.coarse() + remarks.shortPast() +
			remarks.notFollowed() + remarks.tooMuch() + remarks.crowded() + remarks.complaint(),
	}
}

// unsized says which of the policy's workloads are not sized; an empty reason: all of them are.
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

// notTaken names the first workloads whose recommendation was refused, and counts the rest.
func (r readiness) notTaken() string {
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

// unanimousHold is a hold of the data when no workload has a target that could be applied.
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
