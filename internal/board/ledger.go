package board

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Ledger is what there is to share on a node, and among whom. Amounts are indexed by resource: millicores
// of CPU, bytes of memory.
type Ledger struct {
	// Allocatable is what the node has for pods. Others is what is not shared: the footprints of all other
	// pods, and the overhead of the members (RuntimeClass).
	Allocatable, Others [2]recommender.Amount
	// Members are the pods that share the rest, in the order in which they were given. They include frozen
	// pods, whose size may not be changed now.
	Members []*corev1.Pod
}

// LedgerOf computes the ledger of a node: from what the node has it takes off what the scheduler counts
// for every pod that does not take part in the sharing. recommendation returns that of a pod's workload,
// or nil.
//
// A pod whose demand is known takes part even if it is frozen. If it were taken off with what it holds,
// the others would have to keep a whole reserve beside it, and neighbours would be evicted whenever a pod
// is watched or paused.
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

// Available returns what the members share, by resource. It is negative where the other pods hold more
// than the node has.
func (l Ledger) Available() [2]recommender.Amount {
	return [2]recommender.Amount{l.Allocatable[0] - l.Others[0], l.Allocatable[1] - l.Others[1]}
}

// Allocatable returns what a node has for pods: millicores of CPU and bytes of memory; 0 where its status
// does not have it yet.
func Allocatable(node *corev1.Node) (has [2]recommender.Amount) {
	for _, r := range recommender.Resources {
		has[r] = podview.AmountIn(r, node.Status.Allocatable)
	}
	return has
}
