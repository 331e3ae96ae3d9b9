package tuning

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
)

// restore restores the original resources of containers that are killed with less (harm.LossOf) while attune is
// stopped for their pods. Otherwise a stopped attune could not answer kills by sizes that attune set. While attune is
// not stopped, reverts and growth after OOM kills answer them.
//
// It begins the restores that are due, once for each pod and kill. Only the gates of its wave and autoRevert: false
// block one. Pods whose containers cannot start because of a resize (startContainers) come first, whether attune is
// stopped or not: only another resize or their deletion ends that.
func (d *starter) restore() {
	for _, pod := range d.view.Live() {
		record := d.records.of(pod)
		if record != nil && record.Wave == resize.WaveRestore {
			d.reports.addBelow(pod, "attune requested its original resources at "+record.WrittenAt.UTC().Format(time.RFC3339))
		}
		if record != nil || !anyContainerTerminated(pod) || d.records.tooLarge(pod) {
			continue
		}
		if d.startContainers(pod) {
			continue
		}
		if loss, lost := harm.LossOf(pod, d.learned.originalsOf(pod), d.view.seededBy(pod) != nil, d.view.Now); lost {
			d.restoreOrExplain(pod, loss)
		}
	}
}

// startContainers begins a resize.StartPlan. It returns false if the pod needs none, or if autoRevert: false or a gate
// blocks it.
func (d *starter) startContainers(pod *corev1.Pod) bool {
	if !d.view.Policy.Settings.Resize.AutoRevert || !resize.CannotStart(pod) || d.view.Looked.Unread.of(pod) != nil || d.view.Looked.outOfDate(pod) {
		return false
	}
	return d.startAdmitted(pod, resize.StartPlan(pod), nil, event.Warning(v1alpha1.EventReverted,
		"Lowering the CPU limit of pod %s until its containers run: the runtime could not start them, and their CPU limit is above the limit of the pod's cgroup", pod.Name))
}

// restoreOrExplain restores one pod, or reports why it is not restored and what lifts the block.
func (d *starter) restoreOrExplain(pod *corev1.Pod, loss harm.Loss) {
	stopped := d.stopped(pod, loss.Container)
	if autoRevert := d.view.Policy.Settings.Resize.AutoRevert; !autoRevert && (stopped != nil || pod.Generation > 1) { // see urgent
		d.reports.addBelow(pod, fmt.Sprintf("%s; not restored, because autoRevert is false. Set it to true, or run kubectl attune undo %s", loss.Message, d.view.commandLine()))
		return
	}
	if stopped == nil {
		return
	}
	plan, refusal := harm.RestorePlan(pod, loss, d.gates.capabilities(pod), d.view.Now)
	switch unread := d.view.Looked.Unread.of(pod); {
	case unread != nil:
		refusal = unread
	case d.view.Looked.outOfDate(pod):
		refusal = resize.RefuseForNow(resize.ReasonResizeUnderway, "the cached pod is older than its last resize")
	}
	if plan, refusal = d.gates.admit(pod, plan, refusal); refusal != nil {
		d.reports.refused.add(pod, refusal)
		d.reports.requeueAfter(lookAgain) // the end of a crash loop causes no event
		d.reports.addPending(d.reports.addBelow(pod, loss.Message+"; not restored yet: "+refusal.Reason+": "+refusal.Message))
		return
	}
	d.reports.addBelow(pod, loss.Message+"; attune requested its original resources")
	d.reports.addPodEvent(pod, event.Warning(v1alpha1.EventReverted, "Restoring the original resources of pod %s: %s. attune is stopped for the pod: %s. "+
		"It does not react to further kills at the original resources", pod.Name, loss.Message, stopped.Message))
	d.startResize(pod, plan)
	d.reports.addCounts(countReverted, d.records.open[len(d.records.open)-1], string(loss.Harm))
}

// stopped returns why attune is stopped for a container of a pod; nil: it is not stopped.
func (d *starter) stopped(pod *corev1.Pod, container string) *resize.Refusal {
	if d.view.orphaned() || !d.view.Policy.Usable {
		return resize.Refuse(v1alpha1.ReasonBelowOriginal, "the policy is deleted or invalid, or the workload is deleted")
	}
	if refusal := cmp.Or(resize.Stopped(pod, d.gates.input(pod)), d.view.Autoscalers.Refusal()); refusal != nil {
		return refusal
	}
	if _, asked, _ := d.view.owner().Undo(); asked {
		return resize.Refuse(ReasonUndone, "the workload has the annotation %s", v1alpha1.UndoAnnotation)
	}
	rules := &d.view.Policy.Settings.Resize
	if field := rules.Of(container).Uncontrolled[recommender.Memory]; field != "" {
		return resize.Refuse(v1alpha1.ReasonBelowOriginal, "%s does not name memory", field)
	}
	if d.view.target(container).Name != "" && !rules.Excludes(container) {
		return nil
	}
	return resize.Refuse(v1alpha1.ReasonBelowOriginal, "container %s has no target", container)
}
