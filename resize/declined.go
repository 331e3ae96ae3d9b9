package resize

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
)

// Declined is a resize of a workload's pod that the API server did not take, and for how long that answer is taken
// to stand. It is kept in memory: a server that is asked again only says it again.
type Declined struct {
	Outcome
	At time.Time
	// PodUID, Generation and Patch are what was asked for of which pod, as it was then.
	PodUID     types.UID
	Generation int64
	Patch      string
	// Grows: more was asked for.
	Grows bool
	// Terms are what the answer rested on (termsOf): with others the answer may be another one.
	Terms string
	// Times that the workload was told so in a row, each of which doubles the wait.
	Times int
}

// mostDeclined caps how much repeated refusals lengthen the wait.
const mostDeclined = 16

// NewDeclined notes an answer to a plan of a pod, after those that the workload had before.
func NewDeclined(before []Declined, outcome Outcome, pod *corev1.Pod, plan Plan, world World) Declined {
	r := Declined{
		Outcome: outcome, At: world.Now, PodUID: pod.UID, Generation: pod.Generation, Patch: string(plan.Patch()),
		Grows: plan.Grows(), Terms: termsOf(outcome.Reason, world), Times: 1,
	}
	for _, b := range before {
		again := b.Reason == r.Reason && b.Kind == r.Kind && (!r.OfOnePod() || b.PodUID == r.PodUID)
		if again && r.At.Before(b.until().Add(b.wait())) {
			r.Times = max(r.Times, b.Times+1)
		}
	}
	return r
}

// OfOnePod: the answer is about that pod alone, and not about all that a workload asks for.
func (r Declined) OfOnePod() bool { return r.Kind == OutcomeTerminal || r.Kind == OutcomeInfeasible }

// Remember adds an answer to those of a workload: the last one of each kind, and a pod where it is about the pod.
// Of more than can be asked for at once, the oldest are forgotten.
func Remember(before []Declined, r Declined) []Declined {
	var kept []Declined
	for _, b := range before {
		same := b.Kind == r.Kind && b.Reason == r.Reason && (!r.OfOnePod() || b.PodUID == r.PodUID)
		if !same {
			kept = append(kept, b)
		}
	}
	kept = append(kept, r)
	return kept[max(0, len(kept)-v1alpha1.MaxRecords):]
}

// wait is how long the answer stands.
func (r Declined) wait() time.Duration {
	wait := r.RetryAfter
	for n := 1; n < min(r.Times, mostDeclined) && wait < mostDeclined*r.RetryAfter; n++ {
		wait *= 2
	}
	return wait
}

func (r Declined) until() time.Time { return r.At.Add(r.wait()) }

// declined: what the API server said no to is not asked again before that can have changed.
func declined(pod *corev1.Pod, p Plan, w World) *Refusal {
	for _, r := range w.Declined {
		if refusal := r.stops(pod, p, w); refusal != nil {
			return refusal
		}
	}
	return nil
}

func (r Declined) stops(pod *corev1.Pod, p Plan, w World) *Refusal {
	switch {
	case r.OfOnePod() && pod.UID != r.PodUID:
		return nil
	case r.Kind == OutcomeTerminal:
		if pod.Generation == r.Generation && string(Split(p)[0].Patch()) == r.Patch {
			return refuse(ReasonRefused, "the API server refuses this resize of the pod as it is: %s", r.Message)
		}
		return nil
	case !w.Now.Before(r.until()), r.aboutGrowth() && !p.Grows():
		return nil
	case r.Terms != termsOf(r.Reason, w) && w.Now.Sub(r.At) >= soon:
		return nil
	}
	return waitUntil(r.until(), ReasonRefused, "the API server refused the last resize (%s) and is asked again after %s: %s",
		r.Reason, r.until().UTC().Format(time.RFC3339), r.Message)
}

// aboutGrowth: lowering would have passed.
func (r Declined) aboutGrowth() bool { return r.Grows && r.Reason == refusedQuota }

// termsOf are the versions of what an answer rests on; empty for one that rests on nothing we see.
func termsOf(reason string, w World) string {
	var terms []string
	switch reason {
	case refusedQuota, refusedQuotaKeys, refusedQuotaStatus:
		for _, q := range w.Quotas {
			terms = append(terms, q.Name+"="+q.ResourceVersion)
		}
	case refusedLimitRange:
		for _, l := range w.LimitRanges {
			terms = append(terms, l.Name+"="+l.ResourceVersion)
		}
	}
	slices.Sort(terms)
	return strings.Join(terms, " ")
}
