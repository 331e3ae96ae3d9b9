package targets

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Ran is for how long any container of the pods ran since then, one after the other: many that are each gone soon are
// measured as one that stays is. What runs side by side counts once.
func Ran(pods []*corev1.Pod, since, now time.Time) (sum time.Duration) {
	counted := since
	for _, r := range runs(pods, now) {
		if r.from.Before(counted) {
			r.from = counted
		}
		if r.to.After(r.from) {
			sum, counted = sum+r.to.Sub(r.from), r.to
		}
	}
	return sum
}

type run struct{ from, to time.Time }

// runs are those of the pods' containers as far as their statuses tell, in the order of their starts.
func runs(pods []*corev1.Pod, now time.Time) (all []run) {
	for _, pod := range pods {
		for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range statuses {
				all = append(all, runIn(statuses[i].State, now), runIn(statuses[i].LastTerminationState, now))
			}
		}
	}
	slices.SortFunc(all, func(a, b run) int { return a.from.Compare(b.from) })
	return all
}

// runIn is the run that a state tells of; the zero value: none.
func runIn(state corev1.ContainerState, now time.Time) run {
	switch {
	case state.Running != nil:
		return run{state.Running.StartedAt.Time, now}
	case state.Terminated != nil:
		return run{state.Terminated.StartedAt.Time, state.Terminated.FinishedAt.Time}
	}
	return run{}
}
