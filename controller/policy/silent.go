package policy

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/internal/owners"
	"attune.io/attune/internal/workload"
)

// silent tells a source that is silent from a workload that does not run, of which there is nothing to measure: a
// CronJob between runs, zero replicas, a StatefulSet that is down. It asks the cache of pods, which the workload loop
// keeps, and only once the last sample is old. In doubt the source is silent, and nothing is done.
func (c *Controller) silent(ctx context.Context, pass pass, w workload.Workload, last time.Time) bool {
	longest := pass.settings.Recommender.StaleAfter()
	if pass.now.Sub(last) <= longest {
		return false
	}
	pods, err := owners.Pods(ctx, c.Client, w.Identity)
	return err != nil || ran(pods, last, pass.now) > longest
}

// ran is the longest that a container of the pods ran since then.
func ran(pods []*corev1.Pod, since, now time.Time) (longest time.Duration) {
	for _, pod := range pods {
		for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range statuses {
				s := &statuses[i]
				longest = max(longest, within(s.State, since, now), within(s.LastTerminationState, since, now))
			}
		}
	}
	return longest
}

// within is how long a container was in a state of running since then.
func within(state corev1.ContainerState, since, now time.Time) time.Duration {
	var from, to time.Time
	switch {
	case state.Running != nil:
		from, to = state.Running.StartedAt.Time, now
	case state.Terminated != nil:
		from, to = state.Terminated.StartedAt.Time, state.Terminated.FinishedAt.Time
	}
	if from.Before(since) {
		from = since
	}
	return to.Sub(from)
}
