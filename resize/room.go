package resize

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Room is what the pods of one node take of it, summed once for every pod that asks.
type Room struct {
	takes map[types.UID][2]recommender.Amount
	sum   [2]recommender.Amount
	// unmet is what of that deferred resizes ask for and their pods do not have, in sum and by pod.
	unmet   [2]recommender.Amount
	unmetBy map[types.UID][2]recommender.Amount
	// waiting are pods that wait for room, or were turned away for want of it.
	waiting []waiting
}

// waiting is a pod that waits for room of its node.
type waiting struct {
	uid             types.UID
	namespace, name string
	// turnedAway: it does not run, and asked for this much.
	turnedAway bool
	asked      [2]recommender.Amount
}

// RoomOf sums up the pods of a node: for each the most of what the scheduler counts for it and what it was
// promised, by uid, where its spec does not show that yet.
func RoomOf(pods []*corev1.Pod, promised map[types.UID][2]recommender.Amount, now time.Time) *Room {
	room := &Room{takes: make(map[types.UID][2]recommender.Amount, len(pods)), unmetBy: map[types.UID][2]recommender.Amount{}}
	for _, pod := range pods {
		room.noteWaiting(pod, now)
		if finished(situation{pod: pod}) != nil {
			continue
		}
		takes := podview.Reserved(pod)
		for _, r := range recommender.Resources {
			takes[r] = max(takes[r], promised[pod.UID][r])
			room.sum[r] += takes[r]
		}
		room.takes[pod.UID] = takes
		room.noteUnmet(pod, takes)
	}
	slices.SortFunc(room.waiting, func(a, b waiting) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	return room
}

func (r *Room) noteWaiting(pod *corev1.Pod, now time.Time) {
	w := waiting{uid: pod.UID, namespace: pod.Namespace, name: pod.Name}
	switch {
	case turnedAway(pod, now):
		w.turnedAway, w.asked = true, podview.Requests(pod)
	case !deferredLately(pod, now):
		return
	}
	r.waiting = append(r.waiting, w)
}

// noteUnmet: what a deferred resize asks for beyond what its pod has keeps the scheduler's room, not the kubelet's.
func (r *Room) noteUnmet(pod *corev1.Pod, takes [2]recommender.Amount) {
	if !helpers.IsPodResizeDeferred(pod) {
		return
	}
	has := podview.AllocatedRequests(pod)
	for i := range takes {
		takes[i] = max(0, takes[i]-has[i])
		r.unmet[i] += takes[i]
	}
	r.unmetBy[pod.UID] = takes
}

// Footprint is what the scheduler counts for a pod on its node; nothing for one that has ended.
func Footprint(pod *corev1.Pod) [2]recommender.Amount {
	if finished(situation{pod: pod}) != nil {
		return [2]recommender.Amount{}
	}
	return podview.Reserved(pod)
}

// beside is what the pods of the node take but for one.
func (r *Room) beside(uid types.UID) [2]recommender.Amount {
	sum := r.sum
	for i, own := range r.takes[uid] {
		sum[i] -= own
	}
	return sum
}

// granted is what a kubelet counts for every other pod of its node when it judges a resize: never what another deferred
// resize asks for.
func (r *Room) granted(uid types.UID) [2]recommender.Amount {
	sum, own := r.beside(uid), r.unmetBy[uid]
	for i := range sum {
		sum[i] -= r.unmet[i] - own[i]
	}
	return sum
}

// turnedAway: the node refused the pod just now for want of room.
func turnedAway(pod *corev1.Pod, now time.Time) bool {
	return pod.Status.Phase == corev1.PodFailed && strings.HasPrefix(pod.Status.Reason, "OutOf") &&
		now.Sub(pod.CreationTimestamp.Time) < blockFor
}

// deferredLately: the pod's resize waits, and has not done so for longer than a node is left alone. Whoever asks for
// what never comes holds up nobody for ever.
func deferredLately(pod *corev1.Pod, now time.Time) bool {
	if !helpers.IsPodResizeDeferred(pod) {
		return false
	}
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizePending && now.Sub(c.LastTransitionTime.Time) < blockFor
	})
}

// Needs is what a node must have for a pod once a plan is made, as the scheduler counts it.
func (p Plan) Needs(pod *corev1.Pod) [2]recommender.Amount { return podview.Requests(p.Apply(pod)) }

// nodeRoom: growth must fit beside what the scheduler counts for every other pod of the node, or it
// would be deferred and hold room all the while. Lowering always fits. An answer to an OOM kill waits for no room that
// another pod only asks for.
func nodeRoom(pod *corev1.Pod, p Plan, w World) *Refusal {
	if w.Room == nil || pod.Spec.NodeName == "" || w.Evictable {
		return nil
	}
	needs, effect := p.Needs(pod), p.Effect(pod)
	taken := w.Room.beside(pod.UID)
	if p.Urgent {
		taken = w.Room.granted(pod.UID)
	}
	for _, r := range recommender.Resources {
		taken[r] += w.PromisedOnNode[r].Request
		has := w.Capabilities.Allocatable[r]
		if has == 0 || effect[r] <= 0 || taken[r]+needs[r] <= has {
			continue
		}
		return wait(ReasonNoRoom, "node %s has %s of %s, other pods take %s, and the pod would take %s", pod.Spec.NodeName,
			recommender.Format(r, has), r, recommender.Format(r, taken[r]), recommender.Format(r, needs[r]))
	}
	return nil
}

// nodePressure: short of disk or processes a kubelet defers every resize, even one that only lowers;
// short of memory, who asks for less is evicted earlier.
func nodePressure(pod *corev1.Pod, p Plan, w World) *Refusal {
	if len(w.Capabilities.Pressure) > 0 && !p.Urgent {
		return wait(ReasonNodePressure, "node %s reports %s and defers resizes", pod.Spec.NodeName, strings.Join(w.Capabilities.Pressure, ", "))
	}
	return nil
}

// nodeBlocked: growth that a node put off is not stacked up; each holds the scheduler's room. An answer to an OOM kill is
// the kubelet's to judge.
func nodeBlocked(pod *corev1.Pod, p Plan, w World) *Refusal {
	if p.Urgent {
		return nil
	}
	until := w.NodeBlock.All
	if p.Grows() && w.NodeBlock.Growth.After(until) {
		until = w.NodeBlock.Growth
	}
	if w.Now.Before(until) {
		return waitUntil(until, ReasonNodeBlocked, "node %s put off or refused a resize lately; it is tried again after %s",
			pod.Spec.NodeName, until.UTC().Format(time.RFC3339))
	}
	return nil
}

// neighboursWait: a pod of the node is waiting for room itself, or was turned away for want of it. An answer to an OOM
// kill does not wait for it.
func neighboursWait(pod *corev1.Pod, p Plan, w World) *Refusal {
	if w.Room == nil || !p.Grows() || p.Urgent {
		return nil
	}
	for _, other := range w.Room.waiting {
		if other.uid != pod.UID && other.holdsUp(pod, w.Capabilities) {
			return wait(ReasonNodeBlocked, "%s waits for room on node %s", other.nameFor(pod), pod.Spec.NodeName)
		}
	}
	return nil
}

// holdsUp says whether a pod's growth waits for it. One that was turned away shows no sign of who placed it: anybody can
// have a pod fail on any node. So it holds up the growth of its own namespace alone, and only where the node could
// ever have taken it. The room of those that run is kept by nodeRoom, whosever they are.
func (w waiting) holdsUp(pod *corev1.Pod, node Capabilities) bool {
	if !w.turnedAway {
		return true
	}
	for r, has := range node.Allocatable {
		if has > 0 && w.asked[r] > has {
			return false
		}
	}
	return w.namespace == pod.Namespace
}

// nameFor a pod: those of other namespaces are not its owner's to know.
func (w waiting) nameFor(pod *corev1.Pod) string {
	if w.namespace == pod.Namespace {
		return "pod " + w.name
	}
	return "another pod"
}

// blockFor is how long a node is left alone after it put a resize off or refused it.
const blockFor = 10 * time.Minute

// NodeBlock is how long growth on a node, or every resize, is not tried.
type NodeBlock struct{ Growth, All time.Time }

// BlockOf is what a record that a node did not carry out says of that node: it has no room, its runtime does not
// carry out growth, or, where even lowering was put off, it takes no resize at all (pressure, a taint, a changed
// label, shutdown). A memory limit that could not be lowered says nothing of the node.
func BlockOf(record v1alpha1.ResizeRecord, reason string, now time.Time) NodeBlock {
	switch reason {
	case ReasonInfeasible, ReasonDeferred, ReasonUnobserved, ReasonTimeout:
	case ReasonActuation:
		if anyChange(record, lowersMemoryLimit) || !anyChange(record, Move.Raises) {
			return NodeBlock{}
		}
	default:
		return NodeBlock{}
	}
	until := now.Add(blockFor)
	for _, c := range Changes(record) {
		if c.Move().Raises() && reason != ReasonUnobserved && reason != ReasonTimeout {
			return NodeBlock{Growth: until}
		}
	}
	return NodeBlock{All: until}
}
