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

// Standing is why a pod may not be changed now, whatever its change would be; nil: it may. It is what the
// platform's rules and the gates say of the pod itself. That other pods of its workload are before it in the queue for
// records is no reason: its turn comes.
func Standing(pod *corev1.Pod, world World) *Refusal {
	s := situation{pod: pod, caps: world.Capabilities, now: world.Now, statuses: podview.Statuses(pod)}
	for _, rule := range podRules {
		if refusal := rule(s); refusal != nil {
			return refusal
		}
	}
	return firstClosed(standingGates, pod, planOf(pod), world)
}

// NeverRaised: the platform's rules refuse every raise of the pod, whatever its amounts are.
func NeverRaised(pod *corev1.Pod) bool {
	return criticalGrowth(situation{pod: pod}, Move{From: unitOf(1), To: unitOf(2)}) != nil
}

// NotLowered: the platform's rules refuse every lowering of the pod's container for now, whatever its amounts are.
func NotLowered(pod *corev1.Pod, container string, now time.Time) bool {
	s := situation{pod: pod, now: now, statuses: podview.Statuses(pod)}
	m := Move{Container: container, From: unitOf(2), To: unitOf(1)}
	return notReady(s, m) != nil || restartedLately(s, m) != nil
}

func unitOf(amount recommender.Amount) recommender.Size {
	return recommender.Size{recommender.CPU: {Request: amount}}
}

// RestartsOn says of each resource whether a change of it restarts the pod's container.
func RestartsOn(pod *corev1.Pod, container string) (restarts [2]bool) {
	s := situation{pod: pod}
	for _, r := range recommender.Resources {
		restarts[r] = s.restartsFor(container, podview.NameOf(r))
	}
	return restarts
}

// Finished pods take nothing of their node any more.
func Finished(pod *corev1.Pod) bool { return finished(situation{pod: pod}) != nil }

// raiseAhead is by how much longer a lowering has to wait than a raise to go before it.
const raiseAhead = time.Hour

// Together are the plans of pods whose node sizes them that go now: as many as there is room for records. Answers to OOM
// kills go first, then those that have waited longest: since says from when on, and who is not in it has just come. A
// raise goes before lowerings, as somebody lacks what it gives, but not before one that has waited for an hour more: so
// each pod of a workload has its turn, however many there are. Plans that restart containers go one at a time, while
// nothing else is open.
func Together(plans []Plan, since map[types.UID]time.Time, open, most int) []Plan {
	urgent, rest := partition(plans, func(p Plan) bool { return p.Urgent })
	room := most - open
	going := take(urgent, &room, most, WaveNext)
	return append(going, take(gentle(inTurn(rest, since), open+len(going)), &room, most, WaveNext)...)
}

// inTurn are the plans in the order in which they go. Those that have waited equally long go by their hashed names, so
// that it is the same in every pass.
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

// latestTurn comes after everybody's that has waited for a moment.
var latestTurn = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
