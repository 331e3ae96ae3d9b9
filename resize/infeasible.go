package resize

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
)

// CoolsDown: a workload cools down after a resize that was finished so. One that its node would not have changed
// nothing, so that what is tried next need not wait for it, and the same is not tried again soon
// (infeasibleBefore). Where the pod was to go in the end, the next one would be asked to go at once.
func CoolsDown(record v1alpha1.ResizeRecord, action Action, rules Rules) bool {
	return action.Result != ResultWithdrawn || action.Reason != ReasonInfeasible || worthEvicting(record, rules)
}

// infeasibleBefore: what a pod's node would not have is asked of it again after a cooldown, and less and less often.
// The history knows, whatever the operator has forgotten of the node. Where the pod may go, the workload cooled down.
func infeasibleBefore(pod *corev1.Pod, p Plan, w World) *Refusal {
	before := infeasible(w.Status.History, pod)
	if len(before) == 0 || p.Urgent || w.Rules.Method == v1alpha1.ResizeInPlaceOrRecreate && anyMove(p, raises) {
		return nil
	}
	whole, first := sizesOf(p), sizesOf(Split(p)[0])
	var times int32
	var last time.Time
	for at, refused := range before {
		if maps.Equal(refused, whole) || maps.Equal(refused, first) {
			times, last = times+1, latest(last, at)
		}
	}
	until := last.Add(doubled(max(w.Rules.Cooldown, blockFor), times-1))
	if times == 0 || !w.Now.Before(until) {
		return nil
	}
	return waitUntil(until, ReasonInfeasible, "node %s would not have this size of the pod; it is asked again after %s",
		pod.Spec.NodeName, until.UTC().Format(time.RFC3339))
}

// wanted is the container and the resources of a history row, or of a move.
type wanted struct{ container, resource string }

func sizesOf(p Plan) map[wanted]string {
	sizes := map[wanted]string{}
	for _, m := range p.Moves {
		what, _, to := describe(m.From, m.To)
		sizes[wanted{m.Container, what}] = to
	}
	return sizes
}

// infeasible resizes of a pod, by when they were taken back; nil: none.
func infeasible(history []v1alpha1.HistoryEntry, pod *corev1.Pod) map[time.Time]map[wanted]string {
	var all map[time.Time]map[wanted]string
	for _, row := range history {
		if row.Pod != pod.Name || row.Result != ResultWithdrawn || row.Reason != ReasonInfeasible {
			continue
		}
		at := row.Timestamp.UTC()
		if all == nil {
			all = map[time.Time]map[wanted]string{}
		}
		if all[at] == nil {
			all[at] = map[wanted]string{}
		}
		all[at][wanted{row.Container, row.Resource}] = row.To
	}
	return all
}
