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

// Room is the sum of the footprints of one node's pods. It is computed once and shared by all plans for the node.
// Amounts are in millicores and bytes, indexed by Resource. It is read-only after RoomOf.
type Room struct {
	// takes is each pod's footprint by uid, sum their sum.
	takes map[types.UID][2]recommender.Amount
	sum   [2]recommender.Amount
	// unmet is the part of sum that deferred resizes request and their pods do not have; unmetBy is the same by pod.
	unmet   [2]recommender.Amount
	unmetBy map[types.UID][2]recommender.Amount
	// waiting lists pods that wait for room, or that the node refused for lack of room, ordered by namespace and name.
	waiting []waiting
}

// waiting is a pod that waits for room on its node.
type waiting struct {
	uid             types.UID
	namespace, name string
	// turnedAway is true for a pod that the kubelet refused to start; asked are its requests.
	turnedAway bool
	asked      [2]recommender.Amount
}

// RoomOf sums up the pods of a node. For each pod it uses the greater of the scheduler's count and the amount promised
// to the pod (by uid), since its spec may not show the promise yet. Finished pods count as 0.
func RoomOf(pods []*corev1.Pod, promised map[types.UID][2]recommender.Amount, now time.Time) *Room {
	room := &Room{takes: make(map[types.UID][2]recommender.Amount, len(pods)), unmetBy: map[types.UID][2]recommender.Amount{}}
	for _, pod := range pods {
		room.addWaiting(pod, now)
		if Finished(pod) {
			continue
		}
		takes := podview.Reserved(pod)
		for _, r := range recommender.Resources {
			takes[r] = max(takes[r], promised[pod.UID][r])
			room.sum[r] += takes[r]
		}
		room.takes[pod.UID] = takes
		room.addUnmet(pod, takes)
	}
	slices.SortFunc(room.waiting, func(a, b waiting) int {
		return cmp.Or(strings.Compare(a.namespace, b.namespace), strings.Compare(a.name, b.name))
	})
	return room
}

// addWaiting adds a pod that was refused, or whose resize is deferred, within the last blockFor.
func (r *Room) addWaiting(pod *corev1.Pod, now time.Time) {
	w := waiting{uid: pod.UID, namespace: pod.Namespace, name: pod.Name}
	switch {
	case turnedAway(pod, now):
		w.turnedAway, w.asked = true, podview.Requests(pod)
	case !deferredLately(pod, now):
		return
	}
	r.waiting = append(r.waiting, w)
}

// addUnmet adds the amounts that a deferred resize requests beyond the pod's own. The scheduler reserves that room; a
// kubelet that judges another resize does not.
func (r *Room) addUnmet(pod *corev1.Pod, takes [2]recommender.Amount) {
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

// Footprint returns the amounts that the scheduler counts for a pod on its node, in millicores and bytes; 0 for a
// finished pod.
func Footprint(pod *corev1.Pod) [2]recommender.Amount {
	if Finished(pod) {
		return [2]recommender.Amount{}
	}
	return podview.Reserved(pod)
}

// ofOtherPods returns the sum of the footprints of all other pods of the node.
func (r *Room) ofOtherPods(uid types.UID) [2]recommender.Amount {
	sum := r.sum
	for i, own := range r.takes[uid] {
		sum[i] -= own
	}
	return sum
}

// Left returns allocatable minus the footprints of all other pods; it may be negative.
func (r *Room) Left(uid types.UID, allocatable [2]recommender.Amount) [2]recommender.Amount {
	ofOtherPods := r.ofOtherPods(uid)
	for i := range allocatable {
		allocatable[i] -= ofOtherPods[i]
	}
	return allocatable
}

// granted returns the amounts that a kubelet counts for the other pods of its node when it judges a resize: without the
// unmet part of their deferred resizes.
func (r *Room) granted(uid types.UID) [2]recommender.Amount {
	sum, own := r.ofOtherPods(uid), r.unmetBy[uid]
	for i := range sum {
		sum[i] -= r.unmet[i] - own[i]
	}
	return sum
}

// turnedAway reports whether the kubelet refused the pod for lack of room (OutOfcpu, OutOfmemory) and the pod was
// created within the last blockFor.
func turnedAway(pod *corev1.Pod, now time.Time) bool {
	return TurnedAway(pod) && now.Sub(pod.CreationTimestamp.Time) < blockFor
}

// TurnedAway reports whether the kubelet refused the pod for lack of room (OutOfcpu, OutOfmemory).
func TurnedAway(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && strings.HasPrefix(pod.Status.Reason, "OutOf")
}

// deferredLately reports whether the pod's resize has been deferred for less than blockFor. So a resize that never gets
// room does not block other pods for ever.
func deferredLately(pod *corev1.Pod, now time.Time) bool {
	pending := podview.Condition(pod, corev1.PodResizePending)
	return pending != nil && helpers.IsPodResizeDeferred(pod) && now.Sub(pending.LastTransitionTime.Time) < blockFor
}

// Needs returns the pod's footprint after the plan, as the scheduler counts it.
func (p Plan) Needs(pod *corev1.Pod) [2]recommender.Amount { return podview.Requests(p.Apply(pod)) }

// nodeRoom lets a pod grow only if it fits next to the footprints of all other pods of the node. Otherwise the node
// would defer the resize, which reserves the scheduler's room while it waits. Decreases always pass. An answer to an
// OOM kill only needs room next to the granted amounts of the other pods.
func nodeRoom(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	if in.Node.Room == nil || pod.Spec.NodeName == "" || in.Evictable {
		return nil
	}
	needs, effect := p.Needs(pod), p.Effect(pod)
	taken := in.Node.Room.ofOtherPods(pod.UID)
	if p.Urgent {
		taken = in.Node.Room.granted(pod.UID)
	}
	for _, r := range recommender.Resources {
		taken[r] += in.Node.Reserved[r].Request
		has := in.Node.Capabilities.Allocatable[r]
		if has == 0 || effect[r] <= 0 || taken[r]+needs[r] <= has {
			continue
		}
		return RefuseForNow(ReasonNoRoom, "node %s has %s of %s: other pods take %s, and this pod needs %s", pod.Spec.NodeName,
			recommender.Format(r, has), r, recommender.Format(r, taken[r]), recommender.Format(r, needs[r]))
	}
	return nil
}

// nodePressure refuses on a node under pressure: with too little disk or too few process ids a kubelet defers every
// resize, and under memory pressure a pod with lower requests is evicted earlier.
func nodePressure(pod *corev1.Pod, _ Plan, in GateInput) *Refusal {
	if len(in.Node.Capabilities.Pressure) > 0 {
		return RefuseForNow(ReasonNodePressure, "node %s reports %s and defers resizes", pod.Spec.NodeName, strings.Join(in.Node.Capabilities.Pressure, ", "))
	}
	return nil
}

// nodeBlocked refuses on a node that recently deferred or refused a resize, so that such resizes do not accumulate;
// each of them reserves the scheduler's room. For an answer to an OOM kill the kubelet decides.
func nodeBlocked(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	until := in.Node.Block.All
	if p.Grows() && in.Node.Block.Growth.After(until) {
		until = in.Node.Block.Growth
	}
	if in.Now.Before(until) {
		return waitUntil(until, ReasonNodeBlocked, "node %s deferred or refused a resize recently; attune tries again after %s",
			pod.Spec.NodeName, until.UTC().Format(time.RFC3339))
	}
	return nil
}

// neighboursWait refuses growth while another pod of the node waits for room. An answer to an OOM kill does not wait.
func neighboursWait(pod *corev1.Pod, p Plan, in GateInput) *Refusal {
	if in.Node.Room == nil || !p.Grows() {
		return nil
	}
	for _, other := range in.Node.Room.waiting {
		if other.uid != pod.UID && other.holdsUp(pod, in.Node.Capabilities) {
			return RefuseForNow(ReasonNodeBlocked, "%s waits for room on node %s", other.nameFor(pod), pod.Spec.NodeName)
		}
	}
	return nil
}

// holdsUp reports whether the growth of a pod waits for this one. A pod whose resize is deferred blocks every other
// pod. Any user may have placed a pod that the node refused, so it blocks only its own namespace, and only if the node
// could ever have run it.
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

// nameFor returns the name for a message on a pod. It does not reveal the names of pods of other namespaces.
func (w waiting) nameFor(pod *corev1.Pod) string {
	if w.namespace == pod.Namespace {
		return "pod " + w.name
	}
	return "another pod"
}

// blockFor is how long attune sends no resizes to a node after it deferred or refused one.
const blockFor = 10 * time.Minute

// NodeBlock is the time until which growth (Growth) or every resize (All) on a node is not tried. A zero time blocks
// nothing.
type NodeBlock struct{ Growth, All time.Time }

// BlockOf returns the block that follows from a record that its node did not carry out. Failed or deferred growth
// blocks growth: the node has no room, or its runtime cannot grow containers. Every other failure blocks all resizes,
// since a lack of room does not explain it: a delayed decrease (pressure, a taint, a changed label or a shutdown may),
// or a resize that the kubelet did not observe or complete in time. An actuation error of a plan that raises nothing,
// or that lowers a memory limit, blocks nothing.
func BlockOf(record v1alpha1.ResizeRecord, reason string, now time.Time) NodeBlock {
	switch reason {
	case ReasonInfeasible, ReasonDeferred, ReasonHPASync, ReasonUnobserved, ReasonTimeout:
	case ReasonActuation:
		if AnyChange(record, Move.LowersMemoryLimit) || !AnyChange(record, Move.Raises) {
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
