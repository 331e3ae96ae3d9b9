package resize

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
)

// nodeRoom: growth must fit beside what the scheduler counts for every other pod of the node, or it
// would be deferred and hold room all the while. Lowering always fits.
func nodeRoom(pod *corev1.Pod, p Plan, w World) *Refusal {
	if !w.RoomKnown || pod.Spec.NodeName == "" {
		return nil
	}
	needs, effect := podRequests(p.Apply(pod)), p.Effect(pod)
	taken := roomTaken(pod, w)
	for _, r := range recommender.Resources {
		has := w.Capabilities.Allocatable[r]
		if has == 0 || effect[r] <= 0 || taken[r]+needs[r] <= has {
			continue
		}
		return wait(ReasonNoRoom, "node %s has %s of %s, other pods take %s, and the pod would take %s", pod.Spec.NodeName,
			recommender.Format(r, has), r, recommender.Format(r, taken[r]), recommender.Format(r, needs[r]))
	}
	return nil
}

// roomTaken is what a node's other pods take.
func roomTaken(pod *corev1.Pod, w World) [2]recommender.Amount {
	sum := [2]recommender.Amount{
		recommender.CPU:    w.PromisedOnNode[recommender.CPU].Request,
		recommender.Memory: w.PromisedOnNode[recommender.Memory].Request,
	}
	for _, other := range w.Neighbours {
		if other.UID == pod.UID || finished(situation{pod: other}) != nil {
			continue
		}
		takes := footprint(other)
		for _, r := range recommender.Resources {
			sum[r] += takes[r]
		}
	}
	return sum
}
