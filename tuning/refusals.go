package tuning

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

// mostReasons is how many reasons one condition names; the others are counted. It bounds the length of the message.
const mostReasons = 3

// refusals collects why pods of a workload are not resized in this reconcile. The zero value is empty.
type refusals struct {
	// of has one entry per reason, in the order in which they were added.
	of []tally
	// topics are the objects whose change may lift a refusal, without duplicates.
	topics []Topic
}

// tally counts the pods that were refused for one reason. The message of the first pod stands for all.
type tally struct {
	resize.Refusal
	// pods is at least 1.
	pods int
}

// waitFor registers the objects whose change may lift a refusal, so that their change triggers a reconcile.
func (r *refusals) waitFor(pod *corev1.Pod, refusal *resize.Refusal) {
	for _, t := range topicsOf(refusal, pod) {
		if !slices.Contains(r.topics, t) {
			r.topics = append(r.topics, t)
		}
	}
}

// add counts the refusal of a pod's resize. A reason is transient if it is transient for one pod. The earliest Until
// counts, because a retry may succeed then.
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

// summary joins all refusals into one; nil: nothing was refused. The most frequent reason comes first. Among equally
// frequent ones, a reason that needs attention comes before a transient one.
func (r refusals) summary() *resize.Refusal {
	if len(r.of) == 0 {
		return nil
	}
	ordered := slices.Clone(r.of)
	slices.SortStableFunc(ordered, func(a, b tally) int {
		lasting := 0
		if a.Transient != b.Transient {
			lasting = map[bool]int{false: -1, true: 1}[a.Transient]
		}
		return cmp.Or(cmp.Compare(b.pods, a.pods), lasting, cmp.Compare(a.Reason, b.Reason))
	})
	lead := ordered[0].Refusal
	if len(ordered) == 1 {
		return &lead
	}
	parts := podview.Map(ordered[:min(len(ordered), mostReasons)], func(t tally) string { return fmt.Sprintf("%d pods: %s: %s", t.pods, t.Reason, t.Message) })
	if more := len(ordered) - mostReasons; more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more reasons", more))
	}
	lead.Message = strings.Join(parts, "; ")
	return &lead
}

// lookAgain is how soon a transient refusal is checked again without an event. Events can be lost, and some causes
// are not watched, such as the memory usage of a container.
const lookAgain = 10 * time.Minute

// after returns when to reconcile again if no event comes before; 0: only after an event. An Until in the past waits
// one second, so that reconciles never loop without a delay.
func (r refusals) after(now time.Time) (after time.Duration) {
	for _, t := range r.of {
		switch {
		case !t.Until.IsZero():
			after = Soonest(after, max(time.Second, t.Until.Sub(now)))
		case t.Transient:
			after = Soonest(after, lookAgain)
		}
	}
	return after
}

// Topic is an object outside of the workload whose change may lift a refusal: its kind, and the name of the node or
// of the namespace. It is comparable and used as a map key.
type Topic struct {
	Kind resize.Lifter
	Name string
}

// AboutNode is the topic of one node: its pods, its conditions, its capacity.
func AboutNode(name string) Topic { return Topic{resize.LifterNode, name} }

// AboutQuotas is the topic of all ResourceQuotas of a namespace.
func AboutQuotas(namespace string) Topic { return Topic{resize.LifterQuotas, namespace} }

// AboutLimits is the topic of all LimitRanges of a namespace.
func AboutLimits(namespace string) Topic { return Topic{resize.LifterLimits, namespace} }

// AboutBudgets is the topic of all PodDisruptionBudgets of a namespace.
func AboutBudgets(namespace string) Topic { return Topic{resize.LifterBudgets, namespace} }

// topicsOf returns the objects whose change may lift a refusal of a pod's resize (resize.Reasons).
func topicsOf(refusal *resize.Refusal, pod *corev1.Pod) (topics []Topic) {
	for _, kind := range resize.Reasons[refusal.Reason] {
		t := Topic{kind, pod.Namespace}
		if kind == resize.LifterNode {
			t.Name = pod.Spec.NodeName
		}
		topics = append(topics, t)
	}
	return topics
}
