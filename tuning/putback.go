package tuning

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// reverter puts pods back to what they had before a resize, as far as the API server accepts it. A record
// in the phase Reverting stays open until all of the old size is back or it is given up; it survives
// restarts.
type reverter struct {
	*pass
	// gates supplies the node's capabilities and what LimitRanges and quotas leave.
	gates *gates
}

// putBackAsFar sends what puts a pod back, as far as the API server accepts it; the record stays open
// until all of it is back. false: nothing is within reach, so that nothing is sent; a change of what is in
// the way wakes the workload. true with nothing to put back: the pod already has its old size.
//
// before is the record as it was, record the one after this step. A pod that is already being put back is
// read from the API server before its next patch.
func (d *reverter) putBackAsFar(pod *corev1.Pod, before, record v1alpha1.ResizeRecord) (sends bool) {
	plan, nothing := lifecycle.RevertPlan(pod, record, d.gates.capabilities(pod))
	if nothing != nil {
		return true
	}
	plan, limit := d.gates.withinReach(pod, plan)
	if limit != nil {
		d.refused.waitFor(pod, limit)
		d.stillToPutBack(record, limit.Reason, limit.Reason+": "+limit.Message)
	}
	if plan.Empty() {
		return false
	}
	d.out.Writes = append(d.out.Writes, Write{Pod: pod, Plan: plan})
	if resize.PuttingBack(before) && !d.view.Looked.Live[pod.UID] && d.view.Looked.Unread.Pods[pod.UID] == nil {
		d.out.Unknowns.Live = append(d.out.Unknowns.Live, pod.UID)
	}
	return true
}

// canPutBack reports whether at least a part of a pod's prior size is within reach now.
func (d *reverter) canPutBack(pod *corev1.Pod, record v1alpha1.ResizeRecord) bool {
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

// waitsToBePutBack reports a pod whose old size was accepted but not applied by its node: after the alert
// time of the record, and at once where the node is not ready, since a stopped kubelet will not apply it
// soon.
func (d *reverter) waitsToBePutBack(record v1alpha1.ResizeRecord, action lifecycle.Action, state lifecycle.State) {
	switch {
	case action.Alert:
		d.stillToPutBack(record, string(state.Kind), action.Message)
	case resize.PuttingBack(record) && state.Kind != lifecycle.Applied && d.view.nodeNotReady(record.Node):
		d.stillToPutBack(record, downNode, fmt.Sprintf("node %s is not ready: %s", record.Node, action.Message))
	}
}

// downNode is the reason of the obstacle "the pod's node is not ready".
const downNode = "NodeNotReady"

// stillToPutBack reports an obstacle to a revert in three places: the tries (so that the time since when
// it lasts survives a restart), the condition Degraded, and an event. The operator goes on trying.
func (d *reverter) stillToPutBack(record v1alpha1.ResizeRecord, reason, why string) {
	d.out.Status.Tries, why = lifecycle.Obstacle(d.out.Status.Tries, record.PodUID, reason, why)
	d.out.Pending = append(d.out.Pending, fmt.Sprintf("pod %s does not have its old size back: %s", record.PodName, why))
	d.tellOf(record, event.Warning(v1alpha1.EventRevertPending, "Pod %s does not have its old size back, and it is asked for again: %s", record.PodName, why))
}

// giveUp remembers and reports a revert that did not come about: a person has to restore the pod, or
// delete it.
func (d *reverter) giveUp(record v1alpha1.ResizeRecord, why string) {
	d.out.Status.Tries = lifecycle.NotPutBack(d.out.Status.Tries, record, why, d.view.Now)
	d.tell(event.Warning(v1alpha1.EventRevertPending, "%s", leftAt(record.PodName, why)))
}

// leftAt explains what became of a pod that is not put back any more, and what a person can do. An empty
// name stands for an unknown pod: a try that was stored earlier may not have it.
func leftAt(pod, why string) string {
	return fmt.Sprintf("pod %s was to have its old size back and keeps the one it has, as that was given up: %s; remove what is in the way, "+
		"or delete the pod: its successor is not born with the size that did harm", cmp.Or(pod, "of the workload"), why)
}

// remember keeps exactly one try for each pod that is being put back, and drops the tries of pods that are
// gone.
func (d *reverter) remember() {
	live := func(uid types.UID) bool { return d.view.Pod(uid) != nil }
	d.out.Status.Tries = lifecycle.PutBacks(d.out.Status.Tries, d.out.Status.Records, live, d.view.Now)
}

// noteTries remembers what a record shows did not work, as soon as that is known and at the latest when
// the record closes. Without it the next pass would plan the same resize again.
func (d *reverter) noteTries(record v1alpha1.ResizeRecord, action lifecycle.Action, state lifecycle.State) {
	switch {
	case fails(record, action), resize.PuttingBack(record) && action.Kind == lifecycle.Forget:
		d.out.Status.Tries = resize.NotDone(d.out.Status.Tries, record, action.Reason, state.Message, d.view.Policy.Settings.Resize, d.view.Now)
	case action.Kind == lifecycle.Forget && action.Reason == resize.ReasonNotSent:
		d.out.Status.Tries = resize.Unheard(d.out.Status.Tries, record, d.view.Now)
	}
}

// fails reports whether an action means that a resize is not carried out, or only without a memory limit.
// A record that is already being put back does not fail a second time.
func fails(record v1alpha1.ResizeRecord, action lifecycle.Action) bool {
	switch action.Kind {
	case lifecycle.Withdraw, lifecycle.Revert:
		return !resize.PuttingBack(record)
	case lifecycle.SendRest:
		return action.Reason == resize.ReasonActuation
	}
	return false
}

// pause returns how long to wait before a pod is asked again to be put back; 0: now. The time grows with
// the number of attempts (lifecycle.PutBackEvery). The moment of the last attempt is only in memory: after a
// restart there is one attempt more.
func (d *reverter) pause(record v1alpha1.ResizeRecord) time.Duration {
	if d.view.Operator.NoRightsUrgent != "" {
		return RightsEvery
	}
	last, asked := d.view.Past.AskedAt[record.PodUID]
	if !asked {
		return 0
	}
	return max(0, last.Add(lifecycle.PutBackEvery(record, d.view.Rec.Status.Tries, d.view.Now)).Sub(d.view.Now))
}

// Reasons of an annotation that asks for an undo.
const (
	ReasonUndone  = "Undone"
	ReasonBadUndo = "InvalidUndo"
)

// undo puts pods back to their originals, once for each requested time, and blocks everything new as long
// as the annotation is there. It returns why nothing new begins, or nil where no undo is asked for. The
// undo counts as done (status.undoneAt) only when no pod is left, no record is open and the policy loop
// has removed the seed: otherwise the next new pod would be born with the size that was undone.
func (d *starter) undo() *resize.Refusal {
	at, asked, err := d.view.owner().Undo()
	switch {
	case !asked:
		return nil
	case err != nil:
		return resize.Refuse(ReasonBadUndo, "%s", err)
	}
	text, undoing := d.undoing()
	if undoing {
		left := d.putBack()
		if len(left) > 0 || len(d.out.Status.Records) > 0 || d.view.Rec.Spec.Seed != nil {
			return d.undone(at, d.underway(left))
		}
		d.out.Status.UndoneAt = text
		d.tell(event.Normal(v1alpha1.EventUndone, "Undone as asked for at %s: running pods have the sizes from before attune", at.Format(time.RFC3339)))
	}
	return d.undone(at, "its running pods were put back to the sizes from before attune")
}

// putBack begins to put back the pods without an open record, as many as there is room for records. It
// returns why others have to wait; empty: none waits.
func (d *starter) putBack() (left []*resize.Refusal) {
	for _, pod := range d.view.Live() {
		if hasRecord(d.out.Status.Records, pod) {
			continue
		}
		if why := d.view.Looked.Unread.of(pod); why != nil {
			left = append(left, d.notPutBack(pod, why)...)
			continue
		}
		plan, refusal := resize.PlanBack(pod, d.originalSizes(pod), d.gates.capabilities(pod), d.view.Now, resize.WaveUndo, lifecycle.ReasonUndo)
		d.askUnknownMemory(pod, plan)
		if plan, refusal = d.gates.admit(pod, plan, refusal); refusal != nil {
			left = append(left, d.notPutBack(pod, refusal)...)
			continue
		}
		d.start(pod, plan)
		d.askLoweredMemory([]resize.Plan{plan}, []resize.Plan{plan})
	}
	return left
}

// notPutBack reports why a pod is not put back. The undo waits for a refusal that may pass or that a
// person can remove; it goes on without a pod that the platform will never change.
func (d *starter) notPutBack(pod *corev1.Pod, refusal *resize.Refusal) []*resize.Refusal {
	switch {
	case refusal.Reason == resize.ReasonNoChange:
		return nil
	case refusal.Transient, refusal.Reason == resize.ReasonSkipped, refusal.Reason == resize.ReasonTooLarge, refusal.Reason == resize.ReasonVPA:
		d.refused.add(pod, refusal)
		refusal.Message = "pod " + pod.Name + ": " + refusal.Message
		return []*resize.Refusal{refusal}
	}
	d.tellOfPod(pod, event.Warning(v1alpha1.EventResizeSkipped, "Pod %s cannot be put back to its original size: %s: %s", pod.Name, refusal.Reason, refusal.Message))
	return nil
}

// underway describes how far the undo is, for the condition.
func (d *starter) underway(left []*resize.Refusal) string {
	text := fmt.Sprintf("%d pods are being put back to the sizes from before attune", len(d.out.Status.Records))
	if len(left) > 0 {
		text += fmt.Sprintf(", %d wait: %s", len(left), left[0].Message)
	}
	return text
}

// undone is the refusal of everything new while the annotation is there, with the command that removes it.
func (d *starter) undone(at time.Time, how string) *resize.Refusal {
	return resize.Refuse(ReasonUndone, "undone as asked for at %s: %s; kubectl attune resume %s lets attune size it again",
		at.Format(time.RFC3339), how, d.view.commandLine())
}
