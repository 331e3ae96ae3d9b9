package podview

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// OOMKilled is the reason that a kubelet reports for a container that was OOM killed.
const OOMKilled = "OOMKilled"

// Sigkill is the exit code of a process that was killed with SIGKILL.
const Sigkill = 137

// Killed reports whether a termination (nil: none) is an OOM kill of the container's main process. A runtime also gives
// the reason OOMKilled where the kernel killed a child earlier in the run. Then the main process ended by itself: with
// exit code 0, or with 143 after SIGTERM, such as that of a failed probe (kubernetes/kubernetes#140716).
func Killed(t *corev1.ContainerStateTerminated) bool {
	return t != nil && t.Reason == OOMKilled && t.ExitCode != 0 && t.ExitCode != 143
}

// ChildKilled reports whether the kernel OOM-killed a child process of a container, whose main process ended by itself
// later.
func ChildKilled(t *corev1.ContainerStateTerminated) bool { return t.Reason == OOMKilled && !Killed(t) }

// OOM is one OOM kill of a container, read from its status. attune stores nothing about it in the pod.
type OOM struct {
	// Container is the name of the killed container.
	Container string
	// ContainerID is the id of the run that was killed.
	ContainerID string
	// Started and At are when the run started and ended, by the clock of the node.
	Started, At time.Time
	// Limit is the container's current memory limit in bytes, or the limit of the pod's cgroup if that is lower; the
	// request if no limit is set. It is the limit at the time of the kill only if the pod was not resized since
	// (ResizedSince).
	Limit recommender.Amount
	// Evidence identifies this kill (container id and time), so that it is counted only once.
	Evidence string
}

// OOMKills returns the OOM kills in the pod's statuses, whether or not the pod was ever resized: at most the last two
// of each container.
func OOMKills(pod *corev1.Pod) []OOM {
	statuses := Statuses(pod)
	var kills []OOM
	for _, c := range Read(pod) {
		for _, t := range Terminations(statuses[c.Name]) {
			if Killed(t) {
				kills = append(kills, KillOf(pod, c, t))
			}
		}
	}
	return kills
}

// KillOf describes a termination of a container as an OOM kill.
func KillOf(pod *corev1.Pod, c Container, t *corev1.ContainerStateTerminated) OOM {
	return OOM{Container: c.Name, ContainerID: t.ContainerID, Started: t.StartedAt.Time, At: t.FinishedAt.Time, Limit: KillingLimit(pod, c.Size), Evidence: Evidence(t)}
}

// ResizedSince reports whether the pod's sizes may have changed since a time that its node recorded, such as the end of
// a container. A container status does not contain the limits of a terminated run. So the result is false only if the
// pod was never changed, or if the API server accepted the last resize before that time. It is true for a time more
// than clocksDiffer in the future.
func ResizedSince(pod *corev1.Pod, at, now time.Time) bool {
	if pod.Generation <= 1 {
		return false
	}
	last := lastEntry(pod, func(string) bool { return true }) // by attune or by others; zero: never, or the entry was lost
	if ahead := nodeAhead(pod); ahead <= clocksDiffer || at.After(now.Add(time.Minute)) {
		at = at.Add(-ahead)
	}
	return last.IsZero() || !at.After(last) || at.After(now.Add(clocksDiffer))
}

// clocksDiffer is how far ahead the clock of a node may be. The real time of a later timestamp is not known.
const clocksDiffer = 10 * time.Minute

// nodeAhead returns how far the node's clock was ahead of the API server's, negative if it lagged. It compares the
// pod's start time, set by the kubelet, with the time of its binding, set by the API server. A kubelet that started the
// pod late seems to be far ahead, so only times in the future are corrected by more than clocksDiffer.
func nodeAhead(pod *corev1.Pod) time.Duration {
	bound := Condition(pod, corev1.PodScheduled)
	if pod.Status.StartTime == nil || bound == nil || bound.LastTransitionTime.IsZero() {
		return 0
	}
	return pod.Status.StartTime.Sub(bound.LastTransitionTime.Time)
}

// KilledSince returns an OOM kill after the baseline of a resize record, or nil.
func KilledSince(status *corev1.ContainerStatus, baseline v1alpha1.ContainerBaseline) *corev1.ContainerStateTerminated {
	return First(Terminations(status), func(t *corev1.ContainerStateTerminated) bool {
		return Killed(t) && EndedSince(status, t, baseline)
	})
}

// EndedSince reports whether a container terminated after the baseline was recorded. It decides by container id and run
// number: the run of the baseline was still running then, and later runs had not started. It never compares the node's
// time with this process's time, since a node's clock may be hours off.
func EndedSince(status *corev1.ContainerStatus, t *corev1.ContainerStateTerminated, baseline v1alpha1.ContainerBaseline) bool {
	ran, number := baseline.StartedAt != nil, numberOf(status, t)
	switch {
	case baseline.ContainerID == "":
		return true
	case t.ContainerID == baseline.ContainerID:
		return ran
	case number != baseline.RestartCount && status.RestartCount >= baseline.RestartCount:
		return number > baseline.RestartCount
	}
	return ran && !t.StartedAt.Time.Before(baseline.StartedAt.Time)
}

// numberOf returns the number of the terminated run, counted from 0. RestartCount is the number of the newest started
// run; while the container waits for a restart, that run is the terminated one.
func numberOf(status *corev1.ContainerStatus, t *corev1.ContainerStateTerminated) int32 {
	if t == status.State.Terminated || status.State.Waiting != nil {
		return status.RestartCount
	}
	return status.RestartCount - 1
}

// Terminations returns the terminated runs in a container's status: the current state, where a kill appears first, then
// the previous one.
func Terminations(status *corev1.ContainerStatus) []*corev1.ContainerStateTerminated {
	var list []*corev1.ContainerStateTerminated
	if status == nil {
		return nil
	}
	for _, t := range []*corev1.ContainerStateTerminated{status.State.Terminated, status.LastTerminationState.Terminated} {
		if t != nil {
			list = append(list, t)
		}
	}
	return list
}

// FailsToStart reports whether the runtime could not start the container the last time that the kubelet tried.
func FailsToStart(status *corev1.ContainerStatus) bool {
	if status == nil || status.State.Running != nil {
		return false
	}
	ends := Terminations(status)
	return status.State.Waiting != nil && status.State.Waiting.Reason == "RunContainerError" || len(ends) > 0 && !Ran(ends[0])
}

// Ran reports whether a container ran before it terminated. With these reasons the runtime could not start it.
func Ran(t *corev1.ContainerStateTerminated) bool {
	return t != nil && t.Reason != "StartError" && t.Reason != "ContainerCannotRun"
}

// Evidence identifies one termination of a container: its id and the time at which it finished.
func Evidence(t *corev1.ContainerStateTerminated) string {
	return t.ContainerID + "@" + t.FinishedAt.UTC().Format(time.RFC3339)
}

// KillingLimit returns the limit in bytes at which the kernel kills a container of this size: the container's own
// limit, or the limit of the pod's cgroup if that lags (PodLimitLags).
func KillingLimit(pod *corev1.Pod, size recommender.Size) recommender.Amount {
	if PodLimitLags(pod) {
		return min(LimitOrRequest(size[recommender.Memory]), PodLimit(pod))
	}
	return LimitOrRequest(size[recommender.Memory])
}

// LimitOrRequest returns the limit, or the request if no limit is set.
func LimitOrRequest(a recommender.Allocation) recommender.Amount {
	return cmp.Or(a.Limit, a.Request)
}

// PodLimit returns the memory limit of the pod's own cgroup in bytes, from the pod's status (Kubernetes 1.36 and
// newer); 0 if not set or not reported.
func PodLimit(pod *corev1.Pod) recommender.Amount {
	if pod.Status.Resources == nil {
		return 0
	}
	return WholeLimit(recommender.Memory, pod.Status.Resources.Limits)
}

// PodLimitLags reports whether the limit of the pod's own cgroup lags the limits of its containers: no resize is under
// way, and the limit is at least one page below the sum of the containers' limits. Pods with pod-level resources never
// lag, since a user set their limit (kubernetes/kubernetes#138760).
func PodLimitLags(pod *corev1.Pod) bool {
	limit := PodLimit(pod)
	if limit == 0 || HasPodLevelResources(pod) || pod.Status.Phase != corev1.PodRunning || ResizeUnderway(pod) {
		return false
	}
	together := WholeLimit(recommender.Memory, helpers.PodLimits(pod, helpers.PodResourcesOptions{}))
	return limit <= together-Page
}
