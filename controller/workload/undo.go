package workload

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

// Reasons of an annotation that asks for an undo.
const (
	reasonUndone  = "Undone"
	reasonBadUndo = "InvalidUndo"
)

// undoing is the time of an undo that is asked for and not carried out yet; false: there is none.
func (d *decision) undoing(w world) (string, bool) {
	if w.workload == nil {
		return "", false
	}
	at, asked, err := w.workload.Undo()
	if !asked || err != nil {
		return "", false
	}
	text := at.Format(time.RFC3339Nano)
	return text, text != d.status.UndoneAt
}

// overrule has an undo decide about open records, which else would go on towards what is undone.
func (d *decision) overrule(w world, state resize.State, record v1alpha1.ResizeRecord, next resize.Action) resize.Action {
	if _, undoing := d.undoing(w); undoing {
		return resize.NextUndoing(state, record, next)
	}
	return resize.NextResumed(state, record, next)
}

// undo puts pods back to their originals, once for each time that is asked for, and has nothing new begun
// as long as the annotation is there. It returns why nothing is begun, or nil where nobody asked.
func (d *decision) undo(w world) *resize.Refusal {
	if w.workload == nil {
		return nil
	}
	at, asked, err := w.workload.Undo()
	switch {
	case !asked:
		return nil
	case err != nil:
		refusal := &resize.Refusal{Reason: reasonBadUndo, Message: err.Error(), PodWide: true}
		return refusal
	}
	text, undoing := d.undoing(w)
	if !undoing {
		return undone(w, at, "its running pods were put back to the sizes from before attune")
	}
	left := d.putBack(w)
	if len(left) > 0 || len(d.status.Records) > 0 || w.rec.Spec.Seed != nil {
		return undone(w, at, d.underway(left))
	}
	d.status.UndoneAt = text
	d.tell(event.Normal(v1alpha1.EventUndone, "Undone as asked for at %s: running pods have the sizes from before attune", at.Format(time.RFC3339)))
	return undone(w, at, "its running pods were put back to the sizes from before attune")
}

// putBack begins to put back what has no open record, as many pods as there is room for records. It returns
// why others have to wait.
func (d *decision) putBack(w world) (left []*resize.Refusal) {
	for _, pod := range w.live() {
		if hasRecord(d.status.Records, pod) {
			continue
		}
		if why := w.unread.of(pod); why != nil {
			left = append(left, d.notPutBack(pod, why)...)
			continue
		}
		plan, refusal := resize.UndoPlan(pod, d.originalSizes(w, pod), d.capabilities(w, pod), w.now)
		d.askUnknown(w, pod, plan)
		if refusal == nil {
			plan, refusal = resize.Admit(pod, plan, d.gateWorld(w, pod))
		}
		if refusal != nil {
			left = append(left, d.notPutBack(pod, refusal)...)
			continue
		}
		d.start(w, pod, plan)
		d.askMemory(w, []resize.Plan{plan}, []resize.Plan{plan})
	}
	return left
}

// notPutBack tells why a pod is not put back: the undo waits for what may pass and for what a person can
// take back, and goes on without what the platform will never do.
func (d *decision) notPutBack(pod *corev1.Pod, refusal *resize.Refusal) []*resize.Refusal {
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

// putBackDone tells of a pod that was verified to have its original size.
func (d *decision) putBackDone(w world, record v1alpha1.ResizeRecord) {
	for _, row := range resize.HistoryRows(w.rec.Spec.Workload.Name, record, resize.ResultUndone, "", w.now) {
		d.tellOf(record, event.Normal(v1alpha1.EventResized, "Put %s of %s/%s back: %s -> %s", row.Resource, record.PodName, row.Container, row.From, row.To))
	}
	d.count(countSuccess, record, "")
}

func (d *decision) originalSizes(w world, pod *corev1.Pod) []podview.Container {
	var out []podview.Container
	for name, size := range d.originalsOf(pod) {
		out = append(out, podview.Container{Name: name, Size: size, MemoryUsage: w.memory[pod.UID][name]})
	}
	slices.SortFunc(out, func(a, b podview.Container) int { return slices.Compare([]string{a.Name}, []string{b.Name}) })
	return out
}

func (d *decision) underway(left []*resize.Refusal) string {
	text := fmt.Sprintf("%d pods are being put back to the sizes from before attune", len(d.status.Records))
	if len(left) > 0 {
		text += fmt.Sprintf(", %d wait: %s", len(left), left[0].Message)
	}
	return text
}

func undone(w world, at time.Time, how string) *resize.Refusal {
	return &resize.Refusal{Reason: reasonUndone, PodWide: true, Message: fmt.Sprintf(
		"undone as asked for at %s: %s; kubectl attune resume %s lets attune size it again", at.Format(time.RFC3339), how, w.commandLine())}
}
