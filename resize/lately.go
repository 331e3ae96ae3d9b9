package resize

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// triedLately is the only gate that reads the tries: a failed resize is not tried again before its row ends. The
// refusal carries that time.
func triedLately(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	for _, t := range in.Status.Tries {
		if !concerns(t, pod) || !in.Now.Before(t.Until.Time) {
			continue
		}
		if refusal := stops(t, pod, p, in); refusal != nil {
			refusal.Until = t.Until.Time
			return refusal
		}
	}
	return nil
}

// DeclinedMeanwhile applies the API server's answers of this reconcile to a plan that Admit allowed: an answer for
// another pod of the workload, such as an exceeded quota, can apply to this pod as well.
func DeclinedMeanwhile(pod *corev1.Pod, plan Plan, in GateInput) *Refusal {
	in.Status.Tries = slices.DeleteFunc(slices.Clone(in.Status.Tries), func(t v1alpha1.Try) bool { return t.What != v1alpha1.TryResize })
	return triedLately(pod, plan, in)
}

// concerns reports whether the row applies to the pod, by name, uid and node. A row without these applies to the whole
// workload.
func concerns(t v1alpha1.Try, pod *corev1.Pod) bool {
	return (t.Pod == "" || t.Pod == pod.Name && t.PodUID == pod.UID) && (t.Node == "" || t.Node == pod.Spec.NodeName)
}

// stops returns the refusal that an active row causes for a plan, or nil. For a plan that restores original or template
// resources, only the API server's own answers count.
func stops(t v1alpha1.Try, pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	asked := t.What == v1alpha1.TryResize && t.Reason != ReasonInfeasible || t.What == v1alpha1.TryCatchUp
	if p.Wave == WaveRestore {
		// A restore is planned again after each kill, so these rows block it as well.
		asked = asked || t.What == v1alpha1.TryResize
	}
	if Restores(p.Wave) && !asked {
		return nil
	}
	switch t.What {
	case v1alpha1.TryResize:
		switch t.Reason {
		case ReasonHPASync: // withoutScaledRaises
			return nil
		case ReasonInfeasible:
			return stopsInfeasible(t, pod, p, in)
		}
		return stopsDeclined(t, pod, p, in)
	case v1alpha1.TryActuation:
		return stopsActuation(t, pod, p)
	case v1alpha1.TryOOMAnswer:
		return stopsAnswer(t, p)
	case v1alpha1.TryCatchUp:
		switch {
		case p.Reason != t.Reason:
		case p.Reason == ReasonNotRunning:
			return RefuseForNow(ReasonNotRunning, "a container does not start, and its CPU limit is above the limit of the pod's cgroup. attune tries again after %s to start it with less; "+
				"or delete the pod", clock(t.Until))
		default:
			return RefuseForNow(ReasonPodLimitBehind, "the memory limit of the pod's cgroup is below the limits of its containers, and a further raise did not fix that. "+
				"Delete the pod")
		}
	}
	return nil
}

// stopsDeclined refuses while the API server would give the same answer again. A row with a digest refuses exactly that
// size of that pod. A row with terms ends early when the quota or LimitRange behind the answer changes. After several
// refusals in a row such a change counts only after a longer wait, because a quota changes with every created or
// deleted pod.
func stopsDeclined(t v1alpha1.Try, pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	switch {
	case t.Digest != "" && t.Digest != digestOf(Split(p)[0], pod.Generation):
		return nil
	case t.Digest != "":
		return Refuse(ReasonRefused, "the API server rejects this resize of the pod: %s", t.Message)
	case t.Reason == refusedQuota && !p.Grows(), t.Node != "" && !p.Grows():
		return nil
	case ofOthers(t, p, in), asksForLess(t, p):
		return nil
	case t.Terms != termsOf(t.Reason, in) && in.Now.Sub(t.Since.Time) >= Doubled(soon, t.Times-1):
		return nil
	}
	return RefuseForNow(ReasonRefused, "the API server rejected the last resize (%s), and attune tries again after %s: %s", t.Reason, clock(t.Until), t.Message)
}

// asksForLess reports whether an answer to an OOM kill asks for less additional memory than the refused plan, so that
// the API server may accept it.
func asksForLess(t v1alpha1.Try, p Plan) bool {
	more := moreMemory(p)
	return p.Urgent && aboutSize[t.Reason] && more != nil && (t.Amount == nil || more.Cmp(*t.Amount) < 0)
}

// othersRest is the interval at which an answer to an OOM kill or a restore is tried in spite of refusals for other
// pods of the workload.
const othersRest = time.Minute

// ofOthers reports whether the row only summarizes answers for other single pods. Such a row says little about this
// pod, so an urgent or restoring plan waits for it no longer than othersRest.
func ofOthers(t v1alpha1.Try, p Plan, in GateInput) bool {
	return (p.Urgent || Restores(p.Wave)) && t.Pod == "" && aboutOnePod[t.Reason] && in.Now.Sub(t.Since.Time) >= othersRest
}

// aboutOnePod has the reasons of answers that concern only the requested pod (Outcome.ofOnePod).
var aboutOnePod = map[string]bool{
	"Invalid": true, "NotFound": true, "Replaced": true, "Conflict": true, "Unanswered": true, ReasonNotSent: true,
}

// stopsInfeasible refuses a size that the pod's node refused. Two cases pass: an answer to an OOM kill, and growth if
// the policy allows the pod to move to another node.
func stopsInfeasible(t v1alpha1.Try, pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	moves := in.Rules.Method == v1alpha1.ResizeInPlaceOrRecreate && anyMove(p, Move.Raises)
	if p.Urgent || moves || !asks(t, p) {
		return nil
	}
	return RefuseForNow(ReasonInfeasible, "node %s refused these resources for the pod; attune tries again after %s", pod.Spec.NodeName, clock(t.Until))
}

// stopsActuation refuses growth that the node's container runtime failed to carry out: it would fail for every pod of
// the workload there.
func stopsActuation(t v1alpha1.Try, pod *corev1.Pod, p Plan) *Refusal {
	if t.Digest == "" && !p.Grows() || !asks(t, p) {
		return nil
	}
	return RefuseForNow(ReasonNodeBlocked, "the container runtime of node %s failed to apply the last such resize, and attune tries again after %s: %s",
		pod.Spec.NodeName, clock(t.Until), t.Message)
}

// asks reports whether the plan, or the first of its two patches, requests the sizes of the row. A row without a digest
// applies to all sizes.
func asks(t v1alpha1.Try, p Plan) bool {
	return t.Digest == "" || t.Digest == digestOf(p, 0) || t.Digest == digestOf(Split(p)[0], 0)
}

// mostAnswers is how many times within an hour an OOM kill may be answered with more memory. A resize restarts a
// crash-looping container at once, without the kubelet's backoff, so an endless series would keep it crashing at full
// speed.
const mostAnswers = 4

// A chain has at most mostChained answers, each within chainLasts of the previous one: 1.3^16 is more than 60 times the
// initial memory. A container that needs still more leaks, until a user decides otherwise.
const (
	mostChained = 16
	chainLasts  = 7 * 24 * time.Hour
)

// answered counts an answer to an OOM kill that gives a container more memory than any earlier answer to a container of
// that name. Other pods of the workload that follow up to the same amount are not counted again.
func answered(tries []v1alpha1.Try, m Move, now time.Time) []v1alpha1.Try {
	to := podview.LimitOrRequest(m.To[recommender.Memory])
	if to <= podview.LimitOrRequest(m.From[recommender.Memory]) {
		return tries
	}
	tries = Remembered(tries, now)
	tries = higher(tries, v1alpha1.TryOOMAnswer, m.Container, to, now, now.Add(time.Hour))
	return bounded(higher(tries, v1alpha1.TryOOMChain, m.Container, to, now, now.Add(chainLasts)))
}

// higher raises the amount and the count in the row of a kind and container, if the amount exceeds the row's amount.
// until is the end of a new row; the end of a chain moves with each answer.
func higher(tries []v1alpha1.Try, what v1alpha1.TryKind, container string, to recommender.Amount, now, until time.Time) []v1alpha1.Try {
	t := v1alpha1.Try{What: what, Container: container, Since: metav1.NewTime(now), Until: metav1.NewTime(until), Reason: string(HarmOOM)}
	i := slices.IndexFunc(tries, func(known v1alpha1.Try) bool { return known.What == what && known.Container == container })
	if i < 0 {
		i, tries = len(tries), append(tries, t)
	}
	if row := &tries[i]; reached(*row) < to {
		row.Times, row.Amount = row.Times+1, podview.ToPointer(recommender.Memory, to)
		if what == v1alpha1.TryOOMChain {
			row.Until = t.Until
		}
	}
	return tries
}

// reached returns the memory in a row, in bytes; 0 if not set.
func reached(t v1alpha1.Try) recommender.Amount {
	return podview.FromPointer(recommender.Memory, t.Amount)
}

// stopsAnswer refuses memory beyond the amount of earlier answers to OOM kills, after mostAnswers answers within the
// row's hour.
func stopsAnswer(t v1alpha1.Try, p Plan) *Refusal {
	further := func(m Move) bool {
		return (t.Container == "" || m.Container == t.Container) && podview.LimitOrRequest(m.To[recommender.Memory]) > reached(t) &&
			podview.LimitOrRequest(m.To[recommender.Memory]) > podview.LimitOrRequest(m.From[recommender.Memory])
	}
	if !p.Urgent || p.Reason == ReasonPodLimitBehind || t.Times < mostAnswers || !anyMove(p, further) {
		return nil
	}
	return RefuseForNow(ReasonTooManyOOMs, "its memory was raised %d times within 1h, each time followed by an OOM kill; attune raises it again after %s",
		t.Times, clock(t.Until))
}

// Leaks returns the row of a container that was given more memory after mostChained OOM kills in a row, or nil. Such a
// container leaks memory, or needs a size that a user has to choose.
func Leaks(tries []v1alpha1.Try) *v1alpha1.Try {
	return podview.FirstIn(tries, func(t *v1alpha1.Try) bool { return t.What == v1alpha1.TryOOMChain && t.Times >= mostChained })
}

// Forgiven returns the tries without the rows for answers to OOM kills, so that these are counted from zero again. It
// is used when attune's own pause of a workload ends.
func Forgiven(tries []v1alpha1.Try) []v1alpha1.Try {
	return slices.DeleteFunc(slices.Clone(tries), func(t v1alpha1.Try) bool { return t.What == v1alpha1.TryOOMChain || t.What == v1alpha1.TryOOMAnswer })
}

func clock(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }
