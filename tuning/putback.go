package tuning

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// putBackAsFar sends the part of a revert that the API server accepts. The record stays open until the whole old size
// is restored. false: nothing can be restored now, so nothing is sent; a change of the blocking object triggers a
// reconcile. true without a write: the pod already has its old size.
//
// before is the record as it was, record the one after this step. A pod whose revert is already in progress is read
// from the API server before its next patch.
func (d *watcher) putBackAsFar(pod *corev1.Pod, before, record v1alpha1.ResizeRecord) (sends bool) {
	plan, nothing := lifecycle.RevertPlan(pod, record, d.gates.capabilities(pod))
	if nothing != nil {
		return true
	}
	plan, limit := d.gates.withinReach(pod, plan)
	if limit != nil {
		d.reports.refused.waitFor(pod, limit)
		d.stillToPutBack(record, limit.Reason, limit.Reason+": "+limit.Message)
	}
	if plan.Empty() {
		return false
	}
	d.writes.add(Write{Pod: pod, Plan: plan})
	if resize.PuttingBack(before) {
		d.unknowns.askPod(d.view, pod.UID)
	}
	return true
}

// stepBack lowers the requests of a pod that is being restored to what its node has allocated, and reports that they wait.
func (d *watcher) stepBack(pod *corev1.Pod, record v1alpha1.ResizeRecord, action lifecycle.Action) {
	d.stillToPutBack(record, action.Reason, action.Message)
	if plan := lifecycle.StepBackPlan(pod, record, d.gates.capabilities(pod)); !plan.Empty() {
		d.writes.add(Write{Pod: pod, Plan: plan})
	}
}

// canPutBack reports whether at least a part of a pod's prior size can be restored now.
func (d *watcher) canPutBack(pod *corev1.Pod, record v1alpha1.ResizeRecord) bool {
	if pod == nil {
		return false
	}
	plan, nothing := lifecycle.RevertPlan(pod, record, d.gates.capabilities(pod))
	if nothing != nil {
		return false
	}
	plan, _ = d.gates.withinReach(pod, plan)
	return !plan.Empty()
}

// waitsToBePutBack reports a pod whose node has accepted but not applied the old size. It reports after the alert
// time of the record, and at once if the node is not ready: a stopped kubelet will not apply it soon.
func (d *watcher) waitsToBePutBack(record v1alpha1.ResizeRecord, action lifecycle.Action, state lifecycle.State) {
	switch {
	case action.Alert:
		d.stillToPutBack(record, string(state.Kind), action.Message)
	case resize.PuttingBack(record) && state.Kind != lifecycle.Applied && d.view.nodeNotReady(record.Node):
		d.stillToPutBack(record, downNode, fmt.Sprintf("node %s is not ready: %s", record.Node, action.Message))
	}
}

// downNode is the reason of the obstacle "the pod's node is not ready".
const downNode = "NodeNotReady"

// stillToPutBack reports an obstacle to a revert in three places: the tries (so that its start time survives a
// restart), the condition Degraded, and an event. The operator keeps retrying.
func (d *watcher) stillToPutBack(record v1alpha1.ResizeRecord, reason, why string) {
	why = d.tries.addObstacle(record, reason, why)
	d.reports.addPending(fmt.Sprintf("pod %s does not have its previous resources yet: %s", record.PodName, why))
	d.reports.addRecordEvent(record, event.Warning(v1alpha1.EventRevertPending, "Pod %s does not have its previous resources yet, and attune tries again: %s", record.PodName, why))
}

// giveUp stores and reports a revert that was given up: a user has to restore the pod, or delete it.
func (d *watcher) giveUp(record v1alpha1.ResizeRecord, why string) {
	d.tries.giveUpRevert(record, why)
	d.reports.addEvent(event.Warning(v1alpha1.EventRevertPending, "%s", leftAt(record.PodName, why)))
}

// leftAt explains why a pod is no longer restored, and the fix. An empty name stands for an unknown pod: an older try
// may not have it.
func leftAt(pod, why string) string {
	return fmt.Sprintf("attune gave up restoring pod %s: %s. Fix the cause, "+
		"or delete the pod: the new pod does not get the resources that caused the regression", cmp.Or(pod, "(name not known)"), why)
}

// fails reports whether an action means that a resize is not carried out, or only without a memory limit. A record
// that is already being reverted does not fail a second time.
func fails(record v1alpha1.ResizeRecord, action lifecycle.Action) bool {
	switch action.Kind {
	case lifecycle.Withdraw, lifecycle.Revert:
		return !resize.PuttingBack(record)
	case lifecycle.SendRest:
		return action.Reason == resize.ReasonActuation
	}
	return false
}

// backoffBeforeRevert returns the backoff before the next attempt to revert a pod; 0: retry now. It grows with the
// number of attempts (lifecycle.PutBackEvery). The time of the last attempt is only in memory, so a restart causes one
// extra attempt.
func (d *watcher) backoffBeforeRevert(record v1alpha1.ResizeRecord) time.Duration {
	if d.view.Operator.NoRightsUrgent != "" {
		return RightsEvery
	}
	last, asked := d.view.Past.AskedAt[record.PodUID]
	if !asked {
		return 0
	}
	return max(0, last.Add(lifecycle.PutBackEvery(record, d.view.Rec.Status.Tries, d.view.Now)).Sub(d.view.Now))
}

// Reasons of refusals because of the undo annotation.
const (
	ReasonUndone  = resize.ReasonUndone
	ReasonBadUndo = resize.ReasonBadUndo
)

// undo restores the original resources of pods, once for each requested time, and blocks all new resizes while the
// annotation is set. It returns why no resize begins, or nil if no undo is requested, and status.undoneAt of an undo
// that is complete now. The undo is complete only when no pod is left, no record is open and the policy loop has
// removed the seed. Otherwise the next new pod would be created with the size that was undone.
func (d *starter) undo() (why *resize.Refusal, completed string) {
	at, asked, err := d.view.owner().Undo()
	switch {
	case !asked:
		return nil, ""
	case err != nil:
		return resize.Refuse(ReasonBadUndo, "%s", err), ""
	}
	text, undoing := d.view.undoing()
	if undoing {
		left := d.putBack()
		if len(left) > 0 || len(d.records.open) > 0 || d.view.Rec.Spec.Seed != nil {
			return d.undone(at, d.underway(left)), ""
		}
		completed = text
		d.reports.addEvent(event.Normal(v1alpha1.EventUndone, "The undo requested at %s is complete: running pods have their original resources", at.Format(time.RFC3339)))
	}
	return d.undone(at, "running pods have their original resources"), completed
}

// putBack begins to restore pods without a record, up to the maximum number of records. It returns why other pods
// have to wait; empty: none waits.
func (d *starter) putBack() (left []*resize.Refusal) {
	for _, pod := range d.view.Live() {
		if d.records.has(pod) {
			continue
		}
		if why := d.view.Looked.Unread.of(pod); why != nil {
			left = append(left, d.notPutBack(pod, why)...)
			continue
		}
		plan, refusal := resize.PlanBack(pod, d.learned.originalSizes(pod), d.gates.capabilities(pod), d.view.Now, resize.WaveUndo, lifecycle.ReasonUndo)
		d.unknowns.askUnknownMemory(d.view, pod, plan)
		if plan, refusal = d.gates.admit(pod, plan, refusal); refusal != nil {
			left = append(left, d.notPutBack(pod, refusal)...)
			continue
		}
		d.startResize(pod, plan)
		d.unknowns.askLoweredMemory(d.view, []resize.Plan{plan}, []resize.Plan{plan})
	}
	return left
}

// notPutBack reports why a pod is not restored. The undo waits if the refusal is transient or a user can lift it. It
// continues without a pod that the platform will never change.
func (d *starter) notPutBack(pod *corev1.Pod, refusal *resize.Refusal) []*resize.Refusal {
	switch {
	case refusal.Reason == resize.ReasonNoChange:
		return nil
	case refusal.Transient, refusal.Reason == resize.ReasonSkipped, refusal.Reason == resize.ReasonTooLarge, refusal.Reason == resize.ReasonVPA:
		d.reports.refused.add(pod, refusal)
		refusal.Message = "pod " + pod.Name + ": " + refusal.Message
		return []*resize.Refusal{refusal}
	}
	d.reports.addPodEvent(pod, event.Warning(v1alpha1.EventResizeSkipped, "Cannot restore the original resources of pod %s: %s: %s", pod.Name, refusal.Reason, refusal.Message))
	return nil
}

// underway describes the progress of the undo, for the condition.
func (d *starter) underway(left []*resize.Refusal) string {
	text := fmt.Sprintf("restoring the original resources of %d pods", len(d.records.open))
	if len(left) > 0 {
		text += fmt.Sprintf(", %d pods wait: %s", len(left), left[0].Message)
	}
	return text
}

// undone returns the refusal of all new resizes while the annotation is set, with the command that removes it.
func (d *starter) undone(at time.Time, how string) *resize.Refusal {
	return resize.Refuse(ReasonUndone, "undo requested at %s: %s. Run kubectl attune resume %s to let attune size the workload again",
		at.Format(time.RFC3339), how, d.view.commandLine())
}
