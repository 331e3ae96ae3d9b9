package board

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Ledger is what a node has, and how much of it is not there to be shared, in millicores and bytes.
type Ledger struct {
	Allocatable, Others [2]recommender.Amount
	// Members are the pods that share the rest, in the order in which they were given, whether they may be changed now or not.
	Members []*corev1.Pod
}

// LedgerOf takes off what a node has what the scheduler counts for every pod that takes no part in the sharing. Whose
// demand is known takes part, also who may not be changed now: it is frozen. Were it taken off with what it holds, the
// others would have to keep room for a whole reserve beside its part of it, and neighbours would have to go whenever
// a pod is watched or paused. recommendation is that of a pod's workload, or nil.
func LedgerOf(node *corev1.Node, pods []*corev1.Pod, recommendation func(*corev1.Pod) *v1alpha1.AttuneRecommendation) Ledger {
	l := Ledger{Allocatable: Allocatable(node)}
	for _, pod := range pods {
		taken := resize.Footprint(pod)
		if reason, _ := AsItIs(pod, recommendation(pod)); reason == "" {
			taken = podview.Overhead(pod)
			l.Members = append(l.Members, pod)
		}
		for _, r := range recommender.Resources {
			l.Others[r] += taken[r]
		}
	}
	return l
}

// Available is what the members share. It is negative where the others hold more than there is.
func (l Ledger) Available() [2]recommender.Amount {
	return [2]recommender.Amount{l.Allocatable[0] - l.Others[0], l.Allocatable[1] - l.Others[1]}
}

// Allocatable is what a node has for pods.
func Allocatable(node *corev1.Node) (has [2]recommender.Amount) {
	for _, r := range recommender.Resources {
		has[r] = podview.AmountIn(r, node.Status.Allocatable)
	}
	return has
}
