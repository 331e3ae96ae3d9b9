package tuning

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// dueEvery is how often the recent usage of a pod is read while its raise waits for a cooldown.
const dueEvery = 30 * time.Second

// lookForDue asks for the recent usage of a pod if that decides about a raise: one that the cooldown blocks, or one
// that a resize step caps. While it waits for the cooldown, the usage is read again and again.
func (d *starter) lookForDue(pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal) {
	if d.view.Usage.NoRecent || d.view.Part != WholePass || d.view.ByNode() || d.gates.status().Backoff != nil || refusal != nil && refusal.Reason != resize.ReasonCooldown {
		return
	}
	waits := refusal != nil || slices.ContainsFunc(plan.LeftOut, func(r resize.Refusal) bool { return r.Reason == resize.ReasonCooldown })
	if !d.raiseLeft(pod, plan, refusal != nil) {
		return
	}
	d.unknowns.askLately(d.view, pod)
	if waits {
		d.reports.requeueAfter(dueEvery)
	}
}

// raiseLeft reports whether a request of the pod stays below its target after the plan, which is refused or not.
func (d *starter) raiseLeft(pod *corev1.Pod, plan resize.Plan, refused bool) bool {
	live := podview.ByName(podview.Read(pod))
	for _, m := range plan.Moves {
		if has, there := live[m.Container]; there && !refused {
			has.Size = m.To
			live[m.Container] = has
		}
	}
	return slices.ContainsFunc(d.view.targets(pod), func(t podview.Container) bool {
		has, there := live[t.Name]
		return there && !d.view.Policy.Settings.Resize.Excludes(t.Name) && slices.ContainsFunc(recommender.Resources[:], func(r recommender.Resource) bool {
			to, at := t.Size[r].Request, has.Size[r].Request
			return at > 0 && to > at && !recommender.WithinDeadBand(at, to)
		})
	})
}

// askLately asks for the recent usage of a pod once, and not again if there is an answer, even an empty one.
func (q *Unknowns) askLately(v *View, pod *corev1.Pod) {
	if _, known := v.Usage.Lately[pod.UID]; !known && !slices.Contains(q.Lately, pod.UID) {
		q.Lately = append(q.Lately, pod.UID)
	}
}
