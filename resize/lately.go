package resize

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// triedLately is the one gate that reads the tries: what did not work is not tried again before its time.
func triedLately(pod *corev1.Pod, p Plan, w World) *Refusal {
	for _, t := range w.Status.Tries {
		if !concerns(t, pod) || !w.Now.Before(t.Until.Time) {
			continue
		}
		if refusal := stops(t, pod, p, w); refusal != nil {
			refusal.Until = t.Until.Time
			return refusal
		}
	}
	return nil
}

// DeclinedMeanwhile asks once more of a plan that passed the gates: since then, the API server may have told other pods
// of the same pass what holds for this one.
func DeclinedMeanwhile(pod *corev1.Pod, plan Plan, w World) *Refusal {
	var declined []v1alpha1.Try
	for _, t := range w.Status.Tries {
		if t.What == v1alpha1.TryResize {
			declined = append(declined, t)
		}
	}
	w.Status.Tries = declined
	return triedLately(pod, plan, w)
}

// concerns: the row is about the pod, or about its workload.
func concerns(t v1alpha1.Try, pod *corev1.Pod) bool {
	return (t.Pod == "" || t.Pod == pod.Name && t.PodUID == pod.UID) && (t.Node == "" || t.Node == pod.Spec.NodeName)
}

// stops is why a row that stands keeps a plan from being tried, or nil. An undo is what a person wants: only what the
// API server says holds it.
func stops(t v1alpha1.Try, pod *corev1.Pod, p Plan, w World) *Refusal {
	if restores(p.Wave) && (t.What != v1alpha1.TryResize || t.Reason == ReasonInfeasible) {
		return nil
	}
	switch t.What {
	case v1alpha1.TryResize:
		if t.Reason == ReasonInfeasible {
			return stopsInfeasible(t, pod, p, w)
		}
		return stopsDeclined(t, pod, p, w)
	case v1alpha1.TryActuation:
		return stopsActuation(t, pod, p)
	case v1alpha1.TryOOMAnswer:
		return stopsAnswer(t, p)
	case v1alpha1.TryCatchUp:
		if p.Reason == ReasonPodLimitBehind {
			return wait(p.Reason, "the memory limit of the pod did not follow those of its containers, although they were raised for that; "+
				"deleting the pod mends it")
		}
	}
	return nil
}

// stopsDeclined: the API server would only say the same again, unless what it spoke of has changed. A quota's use changes
// with each pod that comes or goes, so that several refusals in a row wait longer for that, too.
func stopsDeclined(t v1alpha1.Try, pod *corev1.Pod, p Plan, w World) *Refusal {
	switch {
	case t.Digest != "" && t.Digest != digestOf(Split(p)[0], pod.Generation):
		return nil
	case t.Digest != "":
		return refuse(ReasonRefused, "the API server refuses this resize of the pod as it is: %s", t.Message)
	case t.Reason == refusedQuota && !p.Grows(), t.Node != "" && !p.Grows():
		return nil
	case ofOthers(t, p, w), asksForLess(t, p):
		return nil
	case t.Terms != termsOf(t.Reason, w) && w.Now.Sub(t.Since.Time) >= doubled(soon, t.Times-1):
		return nil
	}
	return wait(ReasonRefused, "the API server refused the last resize (%s) and is asked again after %s: %s", t.Reason, clock(t.Until), t.Message)
}

// asksForLess: an answer to an OOM kill takes less memory than what was refused, so that the answer may be another one.
func asksForLess(t v1alpha1.Try, p Plan) bool {
	more := moreMemory(p)
	return p.Urgent && aboutSize[t.Reason] && more != nil && (t.Amount == nil || more.Cmp(*t.Amount) < 0)
}

// othersRest is how often an answer to an OOM kill, or an undo, is asked for beside what other pods were told.
const othersRest = time.Minute

// ofOthers: the row puts answers about single pods together. They say little of this one, which does not wait for long.
func ofOthers(t v1alpha1.Try, p Plan, w World) bool {
	return (p.Urgent || restores(p.Wave)) && t.Pod == "" && aboutOnePod[t.Reason] && w.Now.Sub(t.Since.Time) >= othersRest
}

// aboutOnePod are the reasons of answers that concern the pod that was asked for alone (Outcome.ofOnePod).
var aboutOnePod = map[string]bool{
	"Invalid": true, "NotFound": true, "Replaced": true, "Conflict": true, "Unanswered": true, ReasonNotSent: true,
}

// stopsInfeasible: what a pod's node would not have is asked of it again less and less often. An answer to an OOM
// kill is, and so is growth for which the pod may go to another node.
func stopsInfeasible(t v1alpha1.Try, pod *corev1.Pod, p Plan, w World) *Refusal {
	moves := w.Rules.Method == v1alpha1.ResizeInPlaceOrRecreate && anyMove(p, Move.Raises)
	if p.Urgent || moves || !asks(t, p) {
		return nil
	}
	return wait(ReasonInfeasible, "node %s would not have this size of the pod; it is asked again after %s", pod.Spec.NodeName, clock(t.Until))
}

// stopsActuation: a runtime that does not carry out growth says so again, to every pod of the workload on the node.
func stopsActuation(t v1alpha1.Try, pod *corev1.Pod, p Plan) *Refusal {
	if t.Digest == "" && !p.Grows() || !asks(t, p) {
		return nil
	}
	return wait(ReasonNodeBlocked, "the runtime of node %s did not carry out the last such resize; it is tried again after %s: %s",
		pod.Spec.NodeName, clock(t.Until), t.Message)
}

// asks: the plan, or its first part, asks for what the row is about.
func asks(t v1alpha1.Try, p Plan) bool {
	return t.Digest == "" || t.Digest == digestOf(p, 0) || t.Digest == digestOf(Split(p)[0], 0)
}

// mostAnswers to OOM kills give a container more memory within an hour. A resize makes a crash-looping container
// start again at once, so an endless one would restart for free for ever.
const mostAnswers = 4

// mostChained answers follow each other, each within chainLasts of the one before: 1.3^16 is more than 60 times the
// memory that there was. What asks for still more leaks, until a person says otherwise.
const (
	mostChained = 16
	chainLasts  = 7 * 24 * time.Hour
)

// answered notes that a container is given more memory than any answer to an OOM kill gave it before. Others of
// its pods follow up to there without being counted.
func answered(tries []v1alpha1.Try, m Move, now time.Time) []v1alpha1.Try {
	to := podview.LimitOrRequest(m.To[recommender.Memory])
	if to <= podview.LimitOrRequest(m.From[recommender.Memory]) {
		return tries
	}
	tries = Remembered(tries, now)
	tries = higher(tries, v1alpha1.TryOOMAnswer, m.Container, to, now, func(t *v1alpha1.Try, news bool) {
		if news {
			t.Until = metav1.NewTime(now.Add(time.Hour))
		}
	})
	return bounded(higher(tries, v1alpha1.TryOOMChain, m.Container, to, now, func(t *v1alpha1.Try, _ bool) {
		t.Until = metav1.NewTime(now.Add(chainLasts))
	}))
}

// higher counts an amount in the row of a kind if it is greater than the one that was reached.
func higher(tries []v1alpha1.Try, what v1alpha1.TryKind, container string, to recommender.Amount, now time.Time, until func(*v1alpha1.Try, bool)) []v1alpha1.Try {
	amount := podview.Quantity(recommender.Memory, to)
	for i := range tries {
		if t := &tries[i]; t.What == what && t.Container == container {
			if reached(*t) < to {
				t.Times, t.Amount = t.Times+1, &amount
				until(t, false)
			}
			return tries
		}
	}
	t := v1alpha1.Try{What: what, Container: container, Since: metav1.NewTime(now), Times: 1, Amount: &amount, Reason: string(HarmOOM)}
	until(&t, true)
	return append(tries, t)
}

func reached(t v1alpha1.Try) recommender.Amount {
	if t.Amount == nil {
		return 0
	}
	return podview.AmountOf(recommender.Memory, *t.Amount)
}

// stopsAnswer holds growth beyond what earlier answers to OOM kills reached.
func stopsAnswer(t v1alpha1.Try, p Plan) *Refusal {
	further := func(m Move) bool {
		return (t.Container == "" || m.Container == t.Container) && podview.LimitOrRequest(m.To[recommender.Memory]) > reached(t) &&
			podview.LimitOrRequest(m.To[recommender.Memory]) > podview.LimitOrRequest(m.From[recommender.Memory])
	}
	if !p.Urgent || p.Reason == ReasonPodLimitBehind || t.Times < mostAnswers || !anyMove(p, further) {
		return nil
	}
	return wait(ReasonTooManyOOMs, "it was given more memory %d times within an hour and OOM-killed every time; it is given more again after %s",
		t.Times, clock(t.Until))
}

// Leaks is a container that was given more memory after OOM kills again and again, without an end; nil: none was.
func Leaks(tries []v1alpha1.Try) *v1alpha1.Try {
	for i := range tries {
		if t := &tries[i]; t.What == v1alpha1.TryOOMChain && t.Times >= mostChained {
			return t
		}
	}
	return nil
}

// Forgiven are the tries without the answers to OOM kills: they are counted anew.
func Forgiven(tries []v1alpha1.Try) []v1alpha1.Try {
	var kept []v1alpha1.Try
	for _, t := range tries {
		if t.What != v1alpha1.TryOOMChain && t.What != v1alpha1.TryOOMAnswer {
			kept = append(kept, t)
		}
	}
	return kept
}

func clock(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }
