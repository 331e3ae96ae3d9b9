package resize

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/api/v1alpha1"
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

// nodePressure: short of disk or processes a kubelet defers every resize, even one that only lowers;
// short of memory, who asks for less is evicted earlier.
func nodePressure(pod *corev1.Pod, p Plan, w World) *Refusal {
	if len(w.Capabilities.Pressure) > 0 && !p.Urgent {
		return wait(ReasonNodePressure, "node %s reports %s and defers resizes", pod.Spec.NodeName, strings.Join(w.Capabilities.Pressure, ", "))
	}
	return nil
}

// nodeBlocked: growth that a node put off is not stacked up; each holds the scheduler's room.
func nodeBlocked(pod *corev1.Pod, p Plan, w World) *Refusal {
	until := w.NodeBlock.All
	if p.Grows() && w.NodeBlock.Growth.After(until) {
		until = w.NodeBlock.Growth
	}
	if w.Now.Before(until) {
		return wait(ReasonNodeBlocked, "node %s put off or refused a resize lately; it is tried again after %s",
			pod.Spec.NodeName, until.UTC().Format(time.RFC3339))
	}
	return nil
}

// neighboursWait: a pod of the node is waiting for room itself, or was turned away for want of it.
func neighboursWait(pod *corev1.Pod, p Plan, w World) *Refusal {
	if !p.Grows() {
		return nil
	}
	for _, other := range w.Neighbours {
		turnedAway := other.Status.Phase == corev1.PodFailed && strings.HasPrefix(other.Status.Reason, "OutOf") &&
			w.Now.Sub(other.CreationTimestamp.Time) < blockFor
		if other.UID != pod.UID && (turnedAway || helpers.IsPodResizeDeferred(other)) {
			return wait(ReasonNodeBlocked, "pod %s/%s waits for room on node %s", other.Namespace, other.Name, pod.Spec.NodeName)
		}
	}
	return nil
}

// blockFor is how long a node is left alone after it put a resize off or refused it.
const blockFor = 10 * time.Minute

// BlockOf is what a record that a node did not carry out says of that node: it has no room, or, where
// even lowering was put off, it takes no resize at all (pressure, a taint, a changed label, shutdown).
func BlockOf(record v1alpha1.ResizeRecord, reason string, now time.Time) NodeBlock {
	switch reason {
	case ReasonInfeasible, ReasonDeferred, ReasonUnobserved, ReasonTimeout:
	default:
		return NodeBlock{}
	}
	until := now.Add(blockFor)
	for _, c := range changesOf(record) {
		if raises(Move{From: c.prior, To: c.desired}) && (reason == ReasonInfeasible || reason == ReasonDeferred) {
			return NodeBlock{Growth: until}
		}
	}
	return NodeBlock{All: until}
}
