package tuning

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/resize"
)

// mostReasons are told of why pods are not resized.
const mostReasons = 3

// refusals are why pods of a workload are not resized.
type refusals struct {
	of     []tally
	topics []Topic
}

// tally counts the pods with one reason; the first refusal speaks for all of them.
type tally struct {
	resize.Refusal
	pods int
}

// waitFor has the workload looked at when what a refusal rests on changes.
func (r *refusals) waitFor(pod *corev1.Pod, refusal *resize.Refusal) {
	for _, t := range topicsOf(refusal, pod) {
		if !slices.Contains(r.topics, t) {
			r.topics = append(r.topics, t)
		}
	}
}

// add counts a refusal of a pod's resize in.
func (r *refusals) add(pod *corev1.Pod, refusal *resize.Refusal) {
	r.waitFor(pod, refusal)
	i := slices.IndexFunc(r.of, func(t tally) bool { return t.Reason == refusal.Reason })
	if i < 0 {
		r.of = append(r.of, tally{*refusal, 1})
		return
	}
	t := &r.of[i]
	t.pods++
	t.Transient = t.Transient || refusal.Transient
	if !refusal.Until.IsZero() && (t.Until.IsZero() || refusal.Until.Before(t.Until)) {
		t.Until = refusal.Until
	}
}

// summary is one refusal that tells of all: the most frequent one leads, and of equals one that somebody has to do
// something about. Nil: nothing was refused.
func (r refusals) summary() *resize.Refusal {
	if len(r.of) == 0 {
		return nil
	}
	ordered := slices.Clone(r.of)
	slices.SortStableFunc(ordered, func(a, b tally) int {
		return cmp.Or(cmp.Compare(b.pods, a.pods), compareBools(a.Transient, b.Transient), cmp.Compare(a.Reason, b.Reason))
	})
	lead := ordered[0].Refusal
	if len(ordered) == 1 {
		return &lead
	}
	var parts []string
	for _, t := range ordered[:min(len(ordered), mostReasons)] {
		parts = append(parts, fmt.Sprintf("%d pods: %s: %s", t.pods, t.Reason, t.Message))
	}
	if more := len(ordered) - mostReasons; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more reasons", more))
	}
	lead.Message = strings.Join(parts, "; ")
	return &lead
}

// lookAgain is how soon a refusal that something lifts is looked at again although nothing was heard of it: events
// get lost, and not all that lifts one is watched (what a container holds).
const lookAgain = 10 * time.Minute

// after is when it is worth looking again, if nothing happens before; 0: only then.
func (r refusals) after(now time.Time) time.Duration {
	var soonest time.Duration
	for _, t := range r.of {
		wait := time.Duration(0)
		switch {
		case !t.Until.IsZero():
			wait = max(time.Second, t.Until.Sub(now))
		case t.Transient:
			wait = lookAgain
		}
		if wait > 0 && (soonest == 0 || wait < soonest) {
			soonest = wait
		}
	}
	return soonest
}

// compareBools sorts false first.
func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
