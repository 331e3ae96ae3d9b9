package harm

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// Loss is an OOM kill or a crash loop of containers that have less than their original resources because of attune.
type Loss struct {
	// Container is the first such container, Harm its regression, Message the sentence about it.
	Container, Message string
	Harm               resize.Harm
	// Wishes are the containers at their original resources. No amount is lowered, and no limit is added.
	Wishes []podview.Container
	// Behind is true if the memory of the containers was restored but the limit of the pod's own cgroup lags
	// (resize.CatchUp): the restore came while they waited for a restart, and they are still OOM killed.
	Behind bool
}

// LossOf returns the loss of a pod below its originals, by container name, since attune last changed its size; false:
// no loss. seeded reports that attune sized the pod at admission. A pod that attune did not size, or that another
// writer has resized since, has no loss: its size is not attune's.
//
// An OOM kill counts for a container with less memory than its original, a crash loop for a container with less of any
// resource. Only events after attune's last resize count, so that each kill is answered once.
func LossOf(pod *corev1.Pod, originals map[string]recommender.Size, seeded bool, now time.Time) (loss Loss, lost bool) {
	since, ours := sizedSince(pod, seeded)
	if !ours {
		return Loss{}, false
	}
	statuses := podview.Statuses(pod)
	for _, has := range podview.Read(pod) {
		wish := has
		for r := range wish.Size {
			wish.Size[r] = atLeast(has.Size[r], originals[has.Name][r])
		}
		what, harm := lossOf(statuses[has.Name], since, now)
		if wish.Size == has.Size || harm == "" || harm == resize.HarmOOM && wish.Size[recommender.Memory] == has.Size[recommender.Memory] {
			continue
		}
		if loss.Wishes = append(loss.Wishes, wish); loss.Container == "" {
			loss.Container, loss.Harm = has.Name, harm
			loss.Message = fmt.Sprintf("container %s %s with less than its original resources (%s)", has.Name, what, shortfall(has.Size, wish.Size))
		}
	}
	if kills := podview.OOMKills(pod); len(loss.Wishes) == 0 && len(kills) > 0 && podview.PodLimitLags(pod) {
		return Loss{Container: kills[0].Container, Harm: resize.HarmOOM, Behind: true,
			Message: "the memory limit of the pod's cgroup is below the limits of its containers"}, true
	}
	return loss, len(loss.Wishes) > 0
}

// sizedSince returns since when a pod has the size that attune set, by the clock of the API server; false: its size is
// not attune's.
func sizedSince(pod *corev1.Pod, seeded bool) (time.Time, bool) {
	at := podview.ResizedByAttune(pod)
	_, other := podview.ResizedBy(pod)
	switch {
	case other.After(at):
		return time.Time{}, false
	case at.IsZero():
		return pod.CreationTimestamp.Time, seeded && pod.Generation <= 1
	}
	return at, true
}

// loopEnds is how long a container has to run until the kubelet resets its crash backoff: twice the longest backoff.
const loopEnds = 10 * time.Minute

// lossOf returns the event of a container since a time; an empty harm: no event. An OOM kill counts if the container
// ended after that time; if the node's clock lags, the next kill counts. A crash loop is a second end with an error
// within loopEnds, by a container that has not run for that long since.
func lossOf(status *corev1.ContainerStatus, since, now time.Time) (what string, harm resize.Harm) {
	ends := podview.Terminations(status)
	for _, t := range ends {
		if podview.Killed(t) && t.FinishedAt.After(since) {
			return "was OOM-killed at " + t.FinishedAt.UTC().Format(time.RFC3339), resize.HarmOOM
		}
	}
	if len(ends) == 0 || status.RestartCount < harmfulRestarts {
		return "", ""
	}
	last, running := ends[0], status.State.Running
	again := last.ExitCode != 0 && !killedByNode(status) && !last.StartedAt.Time.Before(since) && last.FinishedAt.Sub(last.StartedAt.Time) < loopEnds
	if !again || running != nil && now.Sub(running.StartedAt.Time) >= loopEnds {
		return "", ""
	}
	return "is in a crash loop", resize.HarmRestart
}

// shortfall lists the amounts of a container below its original ones, such as memory limit 258Mi of 1Gi.
func shortfall(has, original recommender.Size) string {
	var parts []string
	for _, r := range recommender.Resources {
		for what, of := range [][2]recommender.Amount{{has[r].Request, original[r].Request}, {has[r].Limit, original[r].Limit}} {
			if of[0] < of[1] {
				parts = append(parts, fmt.Sprintf("%s %s %s of %s", r, [2]string{"request", "limit"}[what], recommender.Format(r, of[0]), recommender.Format(r, of[1])))
			}
		}
	}
	return strings.Join(parts, ", ")
}

// RestorePlan plans the restore of a loss. It waits for a container that has just terminated: the kubelet restarts it
// at once. Only a running container can get its CPU back, and its pod the matching memory limit
// (kubernetes/kubernetes#138760). A container that waits in a crash loop gets its memory while it waits, which ends its
// backoff.
func RestorePlan(pod *corev1.Pod, loss Loss, caps resize.Capabilities, now time.Time) (resize.Plan, *resize.Refusal) {
	wishes, reason := loss.Wishes, v1alpha1.ReasonBelowOriginal
	if loss.Behind {
		raised, refusal := resize.CatchUp(pod)
		if refusal != nil {
			return resize.Plan{PodUID: pod.UID, PodName: pod.Name}, refusal
		}
		wishes, reason = raised, resize.ReasonPodLimitBehind
	}
	statuses := podview.Statuses(pod)
	for _, c := range wishes {
		if s := statuses[c.Name]; s != nil && s.State.Terminated != nil {
			return resize.Plan{PodUID: pod.UID, PodName: pod.Name}, resize.RefuseForNow(reason, "waiting for the kubelet to start container %s again", c.Name)
		}
	}
	plan, refusal := resize.PlanFor(pod, wishes, caps, now)
	plan.Wave, plan.Reason = resize.WaveRestore, reason
	return plan, refusal
}
