package tuning

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

// standsAfter is how long a rollout makes no progress before the ready pods of its newest template are resized.
const standsAfter = 30 * time.Minute

// standing is a rollout without progress: a user paused or partitioned it, its controller gave up, or the pods that it
// has to replace are on nodes that are not ready. The zero value: no rollout, or one that progresses.
type standing struct {
	// since is when the rollout last made progress. It comes from the objects, so that it survives a restart.
	since time.Time
	// newest has the pods of the newest template.
	newest map[types.UID]bool
}

// blocks returns why a rollout blocks resize steps of a pod; empty: it does not. reason is the progress of the rollout;
// empty: no rollout is in progress.
func (s standing) blocks(pod *corev1.Pod, reason string) string {
	switch {
	case s.newest == nil || reason == "":
		return reason
	case s.newest[pod.UID] && podview.IsReady(pod):
		return ""
	}
	return fmt.Sprintf("%s; the rollout has made no progress since %s: attune resizes the pods of the newest template", reason, s.since.UTC().Format(time.RFC3339))
}

// standingRollout returns the workload's rollout if it has made no progress for standsAfter, and if its newest pods are
// known. Argo Rollouts never stand: a paused canary step is a part of the rollout.
func (v *View) standingRollout() standing {
	rollout := v.owner().Rollout
	if !rollout.InProgress || rollout.Updated == 0 {
		return standing{}
	}
	newest := v.newestPods()
	since := rollout.HaltedSince
	if since.IsZero() {
		dead, all := v.olderOnDeadNodes(newest)
		if rollout.Progresses && !rollout.Halted && !all {
			return standing{}
		}
		// If all older pods are on dead nodes, new pods come from scaling, not from the rollout.
		if since = dead; !all {
			since = newestCreation(v.Live())
		}
	}
	if len(newest) == 0 || since.IsZero() || v.Now.Sub(since) < standsAfter {
		return standing{}
	}
	return standing{since, newest}
}

// newestPods returns the live pods of the newest template: by the label that the workload names, or else the one
// generation with the program of the template and with as many pods as the controller counts. Empty: they cannot be
// told apart.
func (v *View) newestPods() map[types.UID]bool {
	rollout, generations := v.owner().Rollout, map[string][]*corev1.Pod{}
	for _, pod := range v.Live() {
		switch {
		case rollout.Label != "":
			generations[pod.Labels[rollout.Label]] = append(generations[pod.Labels[rollout.Label]], pod)
		case podview.GenerationNamed(pod):
			generations[podview.TemplateHash(pod)] = append(generations[podview.TemplateHash(pod)], pod)
		}
	}
	var found []*corev1.Pod
	if rollout.Label != "" {
		found = generations[rollout.Newest]
	} else {
		for _, pods := range generations {
			if len(pods) != int(rollout.Updated) || v.Workload.Template == nil || !podview.SameProgram(pods[0], &v.Workload.Template.Spec) {
				continue
			}
			if found != nil {
				return nil
			}
			found = pods
		}
	}
	uids := map[types.UID]bool{}
	for _, pod := range found {
		uids[pod.UID] = true
	}
	return uids
}

// olderOnDeadNodes reports whether all pods that a rollout has to replace are on nodes that are not ready, and since
// when.
func (v *View) olderOnDeadNodes(newest map[types.UID]bool) (since time.Time, all bool) {
	for _, pod := range v.Pods {
		if newest[pod.UID] || resize.Finished(pod) {
			continue
		}
		if !v.nodeNotReady(pod.Spec.NodeName) {
			return time.Time{}, false
		}
		all = true
		if at := resize.ReadySince(v.Nodes[pod.Spec.NodeName].Node); at.After(since) {
			since = at
		}
	}
	return since, all && !since.IsZero()
}

// newestCreation returns when the newest pod was created.
func newestCreation(pods []*corev1.Pod) (at time.Time) {
	for _, pod := range pods {
		if pod.CreationTimestamp.After(at) {
			at = pod.CreationTimestamp.Time
		}
	}
	return at
}
