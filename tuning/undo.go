package tuning

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// undoer puts pods back to what they had before attune, when a person asks for it with an annotation
// (kubectl attune undo). It is carried out once for each time in the annotation.
type undoer struct {
	*pass
	gates   *gates
	lookup  *lookup
	sizes   *sizes
	starter *starter
}

// Reasons of an annotation that asks for an undo.
const (
	reasonUndone  = "Undone"
	reasonBadUndo = "InvalidUndo"
)

// undo puts pods back to their originals, once for each requested time, and blocks everything new as long
// as the annotation is there. It returns why nothing new begins, or nil where no undo is asked for. The
// undo counts as done (status.undoneAt) only when no pod is left, no record is open and the policy loop
// has removed the seed: otherwise the next new pod would be born with the size that was undone.
func (d *undoer) undo() *resize.Refusal {
	if d.view.Workload == nil {
		return nil
	}
	at, asked, err := d.view.Workload.Undo()
	switch {
	case !asked:
		return nil
	case err != nil:
		refusal := &resize.Refusal{Reason: reasonBadUndo, Message: err.Error(), PodWide: true}
		return refusal
	}
	text, undoing := d.undoing()
	if !undoing {
		return d.undone(at, "its running pods were put back to the sizes from before attune")
	}
	left := d.putBack()
	if len(left) > 0 || len(d.out.Status.Records) > 0 || d.view.Rec.Spec.Seed != nil {
		return d.undone(at, d.underway(left))
	}
	d.out.Status.UndoneAt = text
	d.tell(undone(at))
	return d.undone(at, "its running pods were put back to the sizes from before attune")
}

// putBack begins to put back the pods without an open record, as many as there is room for records. It
// returns why others have to wait; empty: none waits.
func (d *undoer) putBack() (left []*resize.Refusal) {
	for _, pod := range d.view.Live() {
		if hasRecord(d.out.Status.Records, pod) {
			continue
		}
		if why := d.view.Looked.Unread.of(pod); why != nil {
			left = append(left, d.notPutBack(pod, why)...)
			continue
		}
		plan, refusal := lifecycle.UndoPlan(pod, d.sizes.originalSizes(pod), d.gates.capabilities(pod), d.view.Now)
		d.lookup.unknownMemory(pod, plan)
		if plan, refusal = d.gates.admit(pod, plan, refusal); refusal != nil {
			left = append(left, d.notPutBack(pod, refusal)...)
			continue
		}
		d.starter.start(pod, plan)
		d.lookup.loweredMemory([]resize.Plan{plan}, []resize.Plan{plan})
	}
	return left
}

// notPutBack reports why a pod is not put back. The undo waits for a refusal that may pass or that a
// person can remove; it goes on without a pod that the platform will never change.
func (d *undoer) notPutBack(pod *corev1.Pod, refusal *resize.Refusal) []*resize.Refusal {
	switch {
	case refusal.Reason == resize.ReasonNoChange:
		return nil
	case refusal.Transient, refusal.Reason == resize.ReasonSkipped, refusal.Reason == resize.ReasonTooLarge, refusal.Reason == resize.ReasonVPA:
		d.refused.add(pod, refusal)
		refusal.Message = "pod " + pod.Name + ": " + refusal.Message
		return []*resize.Refusal{refusal}
	}
	d.tellOfPod(pod, notUndone(pod, refusal))
	return nil
}

// underway describes how far the undo is, for the condition.
func (d *undoer) underway(left []*resize.Refusal) string {
	text := fmt.Sprintf("%d pods are being put back to the sizes from before attune", len(d.out.Status.Records))
	if len(left) > 0 {
		text += fmt.Sprintf(", %d wait: %s", len(left), left[0].Message)
	}
	return text
}

// undone is the refusal of everything new while the annotation is there, with the command that removes it.
func (d *undoer) undone(at time.Time, how string) *resize.Refusal {
	return &resize.Refusal{Reason: reasonUndone, PodWide: true, Message: fmt.Sprintf(
		"undone as asked for at %s: %s; kubectl attune resume %s lets attune size it again", at.Format(time.RFC3339), how, d.view.commandLine())}
}
