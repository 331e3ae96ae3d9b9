package answers

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// StoredNode computes the answer from objects alone, without a decision of the node loop. It serves kubectl attune node
// without the leader, and the web page of a node on which no pod shares. It uses the ledger of the node loop. Finished
// pods are left out.
//
// The answer has no grants and no Decided: only the leader has these. Pods and evictions are sorted by name.
func StoredNode(node *corev1.Node, all []*corev1.Pod, recommendation func(*corev1.Pod) *v1alpha1.AttuneRecommendation) NodeAnswer {
	// Empty lists instead of nil, so that the JSON has [] and not null.
	answer := NodeAnswer{Node: node.Name, Pods: []NodePod{}, Evictions: []NodeEviction{}}
	for _, pod := range all {
		if resize.Finished(pod) {
			continue
		}
		rec := recommendation(pod)
		answer.Pods = append(answer.Pods, podOf(pod, rec))
		if rec != nil && board.Leaving(pod, rec) {
			answer.Evictions = append(answer.Evictions, NodeEviction{
				Name: pod.Namespace + "/" + pod.Name, Ranking: string(rec.Spec.EvictionRanking),
				Reason: "it does not fit the node; the event Evicting of its AttuneRecommendation has the reason",
			})
		}
	}
	ledger := board.LedgerOf(node, all, recommendation)
	left := ledger.Available()
	answer.Allocatable, answer.Fixed = NodeAmountsOf(ledger.Allocatable), NodeAmountsOf(ledger.Fixed)
	answer.Available = NodeAmountsOf([2]recommender.Amount{max(0, left[0]), max(0, left[1])})
	slices.SortFunc(answer.Pods, func(a, b NodePod) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(answer.Evictions, func(a, b NodeEviction) int { return cmp.Compare(a.Name, b.Name) })
	return answer
}

// podOf describes one pod: whether it shares the node, and what its containers hold, want and get.
func podOf(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation) NodePod {
	p := NodePod{Name: pod.Namespace + "/" + pod.Name}
	p.Reason, p.Message = board.AsItIs(pod, rec)
	if p.Shares = p.Reason == ""; p.Shares {
		p.Group = board.GroupOf(rec)
		p.Reason, p.Message = board.Frozen(pod, rec)
		p.Frozen = p.Reason != ""
	}
	containers := podview.Read(pod)
	wants := board.Wants(rec, containers)
	for i, c := range containers {
		holds := AmountsOf(c.Size)
		shown := NodeContainer{Name: c.Name, Holds: holds, Gets: holds}
		if wants != nil { // pods of other strategies have neither a demand nor a grant
			shown.Wants, shown.Gets = AmountsOf(wants[i]), gets(pod, rec, c)
		}
		p.Containers = append(p.Containers, shown)
	}
	return p
}

// gets returns the size that the pod's in-flight resize asks for. Values that it does not change keep the current size.
func gets(pod *corev1.Pod, rec *v1alpha1.AttuneRecommendation, holds podview.Container) Amounts {
	size := holds.Size
	for _, record := range rec.Status.Records {
		// Skip a record of an earlier pod with the same name, and a record that reverts the pod.
		if record.PodUID != pod.UID || resize.PuttingBack(record) {
			continue
		}
		// A record lists only the containers that its resize changes.
		for _, desired := range record.Desired {
			if desired.Name != holds.Name {
				continue
			}
			size = resize.Merge(size, podview.FromResources(desired.Resources))
		}
	}
	return AmountsOf(size)
}
