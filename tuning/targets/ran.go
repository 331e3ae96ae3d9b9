package targets

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Ran returns how long any container of the pods ran between two times. Consecutive runs add up: many short pods
// count like one long one. Overlapping runs count once. A container status has only the current state and the last
// termination, so at most two runs of each container count.
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

// run is one run of a container; zero: no run.
type run struct{ from, to time.Time }

// runs returns the runs that the statuses of the pods' containers show, in the order of their starts.
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

// runIn returns the run in a container state; zero: no run, for example a waiting container.
func runIn(state corev1.ContainerState, now time.Time) run {
	switch {
	case state.Running != nil:
		return run{state.Running.StartedAt.Time, now}
	case state.Terminated != nil:
		return run{state.Terminated.StartedAt.Time, state.Terminated.FinishedAt.Time}
	}
	return run{}
}
