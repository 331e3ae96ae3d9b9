package podview

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

// OOMKilled is the reason of a container's end that a kubelet reports of an OOM kill.
const OOMKilled = "OOMKilled"

// OOM is one kill of a container by the kernel's OOM killer.
type OOM struct {
	Container string
	At        time.Time
	// Limit is the memory limit that killed, the pod's own where that is lower; without a limit it is the request.
	Limit recommender.Amount
	// Evidence names this kill among all others.
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
				kills = append(kills, OOM{Container: c.Name, At: t.FinishedAt.Time, Limit: KillingLimit(pod, c.Size), Evidence: Evidence(t)})
			}
		}
	}
	return kills
}

// KilledSince finds an OOM kill that came after the record.
func KilledSince(status *corev1.ContainerStatus, baseline v1alpha1.ContainerBaseline) *corev1.ContainerStateTerminated {
	for _, t := range Terminations(status) {
		if t.Reason == OOMKilled && EndedSince(status, t, baseline) {
			return t
		}
	}
	return nil
}

// EndedSince: the container that ran when the baseline was taken cannot have ended before, nor can a later one.
// Which one it is, its id and its number say. No time is compared with ours: a node's clock may be hours off.
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

// numberOf counts a pod's runs of a container from 0. The status counts the newest run that there was: one that
// waits to be started again is not among them.
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

// Evidence names one end of a container among all others.
func Evidence(t *corev1.ContainerStateTerminated) string {
	return t.ContainerID + "@" + t.FinishedAt.UTC().Format(time.RFC3339)
}

// KillingLimit is the limit that kills a container of a size: its own, or its pod's where that is behind.
func KillingLimit(pod *corev1.Pod, size recommender.Size) recommender.Amount {
	if PodLimitLags(pod) {
		return min(LimitOrRequest(size[recommender.Memory]), PodLimit(pod))
	}
	return LimitOrRequest(size[recommender.Memory])
}

// LimitOrRequest is the limit, or the request where there is none.
func LimitOrRequest(a recommender.Allocation) recommender.Amount {
	if a.Limit > 0 {
		return a.Limit
	}
	return a.Request
}
