package resize

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// Blocked returns why a pod may not be changed now, whatever the change is, or nil. It applies the platform's
// rules and the gates that look at the pod itself. A full queue for records is no reason, since the pod's turn
// comes.
func Blocked(pod *corev1.Pod, in GateInput) *Refusal {
	s := situation{pod: pod, caps: in.Node.Capabilities, now: in.Now, statuses: podview.Statuses(pod)}
	if refusal := podRefusal(s); refusal != nil {
		return refusal
	}
	return firstClosed(standingGates, pod, PlanOf(pod), in)
}

// NeverRaised reports whether the platform's rules refuse every raise of the pod.
func NeverRaised(pod *corev1.Pod) bool {
	return criticalGrowth(situation{pod: pod}, Move{From: unitOf(1), To: unitOf(2)}) != nil
}

// NotLowered reports whether the platform's rules refuse every lowering of the container for now.
func NotLowered(pod *corev1.Pod, container string, now time.Time) bool {
	s := situation{pod: pod, now: now, statuses: podview.Statuses(pod)}
	m := Move{Container: container, From: unitOf(2), To: unitOf(1)}
	return notReady(s, m) != nil || restartedLately(s, m) != nil
}

// unitOf is a size with a CPU request only. Rules that look at the direction of a move need no real amounts.
func unitOf(amount recommender.Amount) recommender.Size {
	return recommender.Size{recommender.CPU: {Request: amount}}
}

// RestartsOn reports for each resource whether a change of it restarts the container.
func RestartsOn(pod *corev1.Pod, container string) (restarts [2]bool) {
	s := situation{pod: pod}
	for _, r := range recommender.Resources {
		restarts[r] = s.restartsFor(container, podview.NameOf(r))
	}
	return restarts
}

// Finished reports whether the pod has ended and takes nothing of its node any more.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// raiseAhead is the advantage that a raise has over a lowering in the queue.
const raiseAhead = time.Hour

// Together returns the plans that begin now, of pods that their node sizes: as many as there is room for records
// (most - open). since is when each pod began to wait; a pod without an entry has just come.
//
// Answers to OOM kills go first, then the pods that have waited longest. A raise goes before a lowering, as a pod
// lacks what it gives, but not before a lowering that has waited an hour longer: so each pod of a workload has its
// turn, however many there are. Plans that restart containers go one at a time, while nothing else is open.
func Together(plans []Plan, since map[types.UID]time.Time, open, most int) []Plan {
	urgent, rest := partition(plans, func(p Plan) bool { return p.Urgent })
	room := most - open
	going := take(urgent, &room, most, WaveNext)
	return append(going, take(gentle(inTurn(rest, since), open+len(going)), &room, most, WaveNext)...)
}

// inTurn returns the plans in the order in which they go. Equal ones are ordered by their hashed names, so that
// the order is the same in every pass.
func inTurn(plans []Plan, since map[types.UID]time.Time) []Plan {
	turn := func(p Plan) time.Time {
		at, waits := since[p.PodUID]
		if !waits {
			at = latestTurn
		}
		if p.Grows() {
			at = at.Add(-raiseAhead)
		}
		return at
	}
	ordered := slices.Clone(plans)
	slices.SortStableFunc(ordered, func(a, b Plan) int {
		return cmp.Or(turn(a).Compare(turn(b)), cmp.Compare(podview.Hash(a.PodName), podview.Hash(b.PodName)), cmp.Compare(a.PodName, b.PodName))
	})
	return ordered
}

// latestTurn sorts pods that have just come behind all that have waited.
var latestTurn = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
