package resize

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
)

const oomKilled = "OOMKilled"

// OOM is one kill of a container by the kernel's OOM killer.
type OOM struct {
	Container string
	At        time.Time
	// Limit is the memory limit that killed; without a limit it is the request.
	Limit recommender.Amount
	// Evidence names this kill among all others.
	Evidence string
}

// OOMKills are the kills that a pod shows, whether or not it was ever resized: at most the last two of
// each container.
func OOMKills(pod *corev1.Pod) []OOM {
	statuses := statusesOf(pod)
	var kills []OOM
	for _, c := range Read(pod) {
		for _, t := range terminations(statuses[c.Name]) {
			if t.Reason == oomKilled {
				kills = append(kills, OOM{Container: c.Name, At: t.FinishedAt.Time, Limit: memoryCeiling(c.Size), Evidence: evidence(t)})
			}
		}
	}
	return kills
}

// killedSince finds an OOM kill that came after the record. Times have whole seconds, so a kill in the
// record's own second is told by the container that died: the one that ran when the record was written
// cannot have died before.
func killedSince(status *corev1.ContainerStatus, baseline v1alpha1.ContainerBaseline, written time.Time) *corev1.ContainerStateTerminated {
	for _, t := range terminations(status) {
		if t.Reason != oomKilled {
			continue
		}
		ran := baseline.StartedAt != nil
		switch {
		case t.ContainerID == baseline.ContainerID && t.ContainerID != "":
			if ran {
				return t
			}
		case ran && t.StartedAt.Time.Before(baseline.StartedAt.Time):
		case !t.FinishedAt.Time.Before(written.Truncate(time.Second)):
			return t
		}
	}
	return nil
}

// terminations are the ends of a container that its status remembers: of the current one, where a kill
// shows first, and of the one before.
func terminations(status *corev1.ContainerStatus) []*corev1.ContainerStateTerminated {
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

func evidence(t *corev1.ContainerStateTerminated) string {
	return t.ContainerID + "@" + t.FinishedAt.UTC().Format(time.RFC3339)
}

func memoryCeiling(size recommender.Size) recommender.Amount {
	if limit := size[recommender.Memory].Limit; limit > 0 {
		return limit
	}
	return size[recommender.Memory].Request
}
