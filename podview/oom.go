package podview

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	helpers "k8s.io/component-helpers/resource"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// OOMKilled is the reason of a container's end that a kubelet reports of an OOM kill.
const OOMKilled = "OOMKilled"

// OOM is one kill of a container by the kernel's OOM killer.
// It is read from a container status; nothing of it is stored in the pod by attune.
type OOM struct {
	// Container is the name of the killed container.
	Container string
	// ContainerID is the id of the run that was killed.
	ContainerID string
	// At is when the container ended, by the clock of the node.
	At time.Time
	// Limit in bytes: the memory limit that the container has now, or the pod's own limit where that one is lower; the
	// request where there is no limit. It is the limit at the kill only where the pod was not resized since (ResizedSince).
	Limit recommender.Amount
	// Evidence identifies this kill (container id and time), so that it is counted once.
	Evidence string
}

// OOMKills are the kills that a pod shows, whether or not it was ever resized: at most the last two of
// each container.
func OOMKills(pod *corev1.Pod) []OOM {
	statuses := Statuses(pod)
	var kills []OOM
	for _, c := range Read(pod) {
		for _, t := range Terminations(statuses[c.Name]) {
			if t.Reason == OOMKilled {
				kills = append(kills, OOM{Container: c.Name, ContainerID: t.ContainerID, At: t.FinishedAt.Time, Limit: KillingLimit(pod, c.Size), Evidence: Evidence(t)})
			}
		}
	}
	return kills
}

// ResizedSince reports whether sizes of a pod may have changed since a time that its node noted, such as the end of a
// container. A container status does not say which limits an ended run had. So the result is false only where the pod
// was never changed, or where the API server accepted the last resize before that time. Otherwise it is true, also for a
// time that is more than clocksDiffer in the future.
func ResizedSince(pod *corev1.Pod, at, now time.Time) bool {
	if pod.Generation <= 1 {
		return false
	}
	last := lastEntry(pod, func(string) bool { return true }) // by attune or by others; zero: never, or the entry is lost
	if ahead := nodeAhead(pod); ahead <= clocksDiffer || at.After(now.Add(time.Minute)) {
		at = at.Add(-ahead)
	}
	return last.IsZero() || !at.After(last) || at.After(now.Add(clocksDiffer))
}

// clocksDiffer is how far the clock of a node that is not set may be ahead: an end that is dated later is of no known time.
const clocksDiffer = 10 * time.Minute

// nodeAhead is how far the clock of a pod's node was ahead of that of the API server, negative where it was behind: the
// kubelet notes when it begins with a pod, and the API server when the pod was bound. A kubelet that began late looks as if it
// were far ahead, so that only times in the future are corrected by more than clocksDiffer.
func nodeAhead(pod *corev1.Pod) time.Duration {
	bound := Condition(pod, corev1.PodScheduled)
	if pod.Status.StartTime == nil || bound == nil || bound.LastTransitionTime.IsZero() {
		return 0
	}
	return pod.Status.StartTime.Sub(bound.LastTransitionTime.Time)
}

// KilledSince returns an OOM kill that happened after the baseline of a resize record was taken, or nil.
func KilledSince(status *corev1.ContainerStatus, baseline v1alpha1.ContainerBaseline) *corev1.ContainerStateTerminated {
	for _, t := range Terminations(status) {
		if t.Reason == OOMKilled && EndedSince(status, t, baseline) {
			return t
		}
	}
	return nil
}

// EndedSince reports whether a container's end happened after the baseline was taken. It decides by the container
// id and by the number of the run: the run of the baseline cannot have ended before the baseline, and later runs
// cannot either. It compares no node time with the time of this process, since a node's clock may be hours off.
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

// numberOf is the number of the run that ended, counted from 0. RestartCount is the number of the newest run that
// was started; while the container waits to be started again, that run is the one that ended.
func numberOf(status *corev1.ContainerStatus, t *corev1.ContainerStateTerminated) int32 {
	if t == status.State.Terminated || status.State.Waiting != nil {
		return status.RestartCount
	}
	return status.RestartCount - 1
}

// Terminations are the ends of a container that its status remembers: of the current one, where a kill
// shows first, and of the one before.
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

// Evidence identifies one end of a container: its id and the time at which it finished.
func Evidence(t *corev1.ContainerStateTerminated) string {
	return t.ContainerID + "@" + t.FinishedAt.UTC().Format(time.RFC3339)
}

// KillingLimit is the limit in bytes at which the kernel kills a container of this size: its own, or that of the
// pod where the pod's is behind (PodLimitLags).
func KillingLimit(pod *corev1.Pod, size recommender.Size) recommender.Amount {
	if PodLimitLags(pod) {
		return min(LimitOrRequest(size[recommender.Memory]), PodLimit(pod))
	}
	return LimitOrRequest(size[recommender.Memory])
}

// LimitOrRequest is the limit, or the request where there is none.
func LimitOrRequest(a recommender.Allocation) recommender.Amount {
	return cmp.Or(a.Limit, a.Request)
}

// PodLimit is the memory limit of the pod's own cgroup in bytes, as the pod's status reports it (Kubernetes 1.36
// and newer); 0 where there is none or where it is not reported.
func PodLimit(pod *corev1.Pod) recommender.Amount {
	if pod.Status.Resources == nil {
		return 0
	}
	return WholeLimit(recommender.Memory, pod.Status.Resources.Limits)
}

// PodLimitLags reports whether the limit of the pod's own cgroup is behind those of its containers: no resize is
// under way, and the pod as a whole may use at least one page less memory than its containers may use together.
// Pods with resources of their own are never behind, since their limit is what the user set
// (kubernetes/kubernetes#138760).
func PodLimitLags(pod *corev1.Pod) bool {
	limit := PodLimit(pod)
	if limit == 0 || pod.Spec.Resources != nil || pod.Status.Phase != corev1.PodRunning || ResizeUnderway(pod) {
		return false
	}
	together := WholeLimit(recommender.Memory, helpers.PodLimits(pod, helpers.PodResourcesOptions{}))
	return limit <= together-Page
}
