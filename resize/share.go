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

// Blocked returns why no change of the pod is possible now, or nil. It applies the platform's rules and the gates that
// check the pod itself. A full queue for records is not a reason, since the pod's turn comes.
func Blocked(pod *corev1.Pod, in GateInput) *Refusal {
	s := situation{pod: pod, caps: in.Node.Capabilities, now: in.Now, statuses: podview.Statuses(pod)}
	if refusal := podRefusal(s); refusal != nil {
		return refusal
	}
	return firstClosed(gates, standing, pod, PlanOf(pod), in)
}

// NeverRaised reports whether the platform's rules refuse every raise of the pod.
func NeverRaised(pod *corev1.Pod) bool {
	return !mayMove(pod, 1, 2)
}

// NotLowered reports whether the platform's rules refuse every decrease of the container for now.
func NotLowered(pod *corev1.Pod, container string, now time.Time) bool {
	s := situation{pod: pod, now: now, statuses: podview.Statuses(pod)}
	m := Move{Container: container, From: unitOf(2), To: unitOf(1)}
	return !mayMove(pod, 2, 1) || notReady(s, m) != nil || restartedLately(s, m) != nil
}

// mayMove reports whether the pod's spec allows to change a request of a container from one amount to another.
func mayMove(pod *corev1.Pod, from, to recommender.Amount) bool {
	facts := factsOf(pod)
	left, _ := AllowedBySpec(&facts, recommender.CPU, recommender.Allocation{Request: from}, recommender.Allocation{Request: to})
	return left.Request == to
}

// unitOf returns a size with a CPU request only. Rules that check the direction of a move need no real amounts.
func unitOf(amount recommender.Amount) recommender.Size {
	return recommender.Size{recommender.CPU: {Request: amount}}
}

// RestartsOn reports for each resource whether a change restarts the container.
func RestartsOn(pod *corev1.Pod, container string) (restarts [2]bool) {
	s := situation{pod: pod}
	for _, r := range recommender.Resources {
		restarts[r] = s.restartsFor(container, podview.NameOf(r))
	}
	return restarts
}

// Finished reports whether the pod has terminated and no longer uses its node's resources.
func Finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// raiseAhead is the advantage of a raise over a decrease in the queue.
const raiseAhead = time.Hour

// Together returns the plans that begin now, for pods that their node sizes, limited by the free records (most - open).
// since is when each pod began to wait; a pod without an entry has just arrived.
//
// Answers to OOM kills go first, then the pods that have waited longest. A raise takes precedence over a decrease,
// since its pod lacks resources, but not over a decrease that has waited an hour longer: so each pod of a workload has
// its turn. Plans that restart containers go one at a time, while no other record is open.
func Together(plans []Plan, since map[types.UID]time.Time, open, most int) []Plan {
	urgent, rest := partition(plans, func(p Plan) bool { return p.Urgent })
	room := most - open
	going := firstPlans(urgent, &room, most, WaveNext)
	return append(going, firstPlans(gentle(inTurn(rest, since), open+len(going)), &room, most, WaveNext)...)
}

// inTurn returns the plans in the order in which they begin. Ties are ordered by hashed name, so that the order is the
// same in every reconcile.
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

// latestTurn sorts pods that have just arrived after all waiting pods.
var latestTurn = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
