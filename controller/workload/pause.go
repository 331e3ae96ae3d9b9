package workload

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
)

const (
	// mostSupersessions of ours within supersededFor pause the workload: another writer is never fought.
	mostSupersessions = 2
	supersededFor     = 7 * 24 * time.Hour
	// pausedFor is how long that pause lasts where nobody ends it: long enough to find the other writer.
	pausedFor = 24 * time.Hour
)

// supersede counts another writer's resize over ours, and pauses the workload after the second.
func (d *decision) supersede(w world, record v1alpha1.ResizeRecord) {
	d.tellOf(record, event.Warning(v1alpha1.EventResizeFailed, "Pod %s was resized by somebody else; leaving it alone", record.PodName))
	d.superseded(w, fmt.Sprintf(
		"another writer changed the size of pods that attune had resized, twice: find it (kubectl get pod %s --show-managed-fields -o yaml)", record.PodName))
}

// superseded counts, and pauses the workload after the second time, saying why.
func (d *decision) superseded(w world, why string) {
	if last := d.status.LastSuperseded; last != nil && w.now.Sub(last.Time) > supersededFor {
		d.status.Supersessions = 0
	}
	d.status.Supersessions++
	d.status.LastSuperseded = &metav1.Time{Time: w.now}
	if d.status.Supersessions < mostSupersessions || d.status.Paused != nil {
		return
	}
	d.status.Paused = &v1alpha1.PausedState{
		Since: metav1.Time{Time: w.now}, Resumed: w.resumed(),
		Reason: fmt.Sprintf("%s, then end the pause with kubectl attune resume %s; attune tries again by itself at %s",
			why, w.commandLine(), w.now.Add(pausedFor).UTC().Format(time.RFC3339)),
	}
	d.tell(event.Warning(v1alpha1.EventResizeSkipped, "Paused: %s", d.status.Paused.Reason))
}

// takeOver notes which operator looks after the workload. One that finds another's name there has taken its place,
// or runs beside it: then they take turns at undoing each other's work, which two turns show. While that is paused
// neither begins anything, and both go on putting back what does harm.
func (d *decision) takeOver(w world) {
	before := d.status.Operator
	if w.operator == "" || before == w.operator || before != "" && d.status.Paused != nil {
		return
	}
	d.status.Operator = w.operator
	if before == "" {
		return
	}
	// It is not put off: until it is stored, the two undo each other's work with each look. The second one pauses.
	d.due = true
	d.tell(event.Warning(v1alpha1.EventResizeSkipped, "The operator in namespace %s looks after this workload now; it was that in namespace %s", w.operator, before))
	d.superseded(w, fmt.Sprintf("operators in the namespaces %s and %s size this workload by turns: uninstall one of them", before, w.operator))
}

// resume ends the loop's own pause when a person says so, or after a while.
func (d *decision) resume(w world) {
	if d.status.Paused == nil {
		return
	}
	left := d.status.Paused.Since.Add(pausedFor).Sub(w.now)
	if leak := resize.Leaks(d.status.Tries); leak != nil {
		left = leak.Until.Sub(w.now)
	}
	if left > 0 && w.resumed() == d.status.Paused.Resumed {
		d.wake(left)
		return
	}
	d.status.Paused, d.status.Supersessions, d.status.LastSuperseded = nil, 0, nil
	d.status.Tries = resize.Forgiven(d.status.Tries)
}

// pauseLeak pauses a workload whose memory is raised after OOM kills without an end. Running pods stay as they are, and
// what is open is finished.
func (d *decision) pauseLeak(w world) {
	leak := resize.Leaks(d.status.Tries)
	if leak == nil || d.status.Paused != nil {
		return
	}
	d.status.Paused = &v1alpha1.PausedState{
		Since: metav1.Time{Time: w.now}, Resumed: w.resumed(),
		Reason: fmt.Sprintf("container %s was given more memory %d times after OOM kills since %s, up to %s, and needs still more, which looks like a leak: "+
			"mend it, or give it a maxAllowed; kubectl attune resume %s lets it be given more", leak.Container, leak.Times,
			leak.Since.UTC().Format(time.RFC3339), leak.Amount.String(), w.commandLine()),
	}
	d.tell(event.Warning(v1alpha1.EventResizeSkipped, "Paused: %s", d.status.Paused.Reason))
}

// pausedItself says so whether or not there is anything to resize: a person has to look.
func (d *decision) pausedItself() *resize.Refusal {
	if d.status.Paused == nil {
		return nil
	}
	return resize.PausedItself(*d.status.Paused)
}

// resumed is the workload's annotation that kubectl attune resume writes, as far as it is worth remembering.
func (w world) resumed() string {
	const most = 64
	if w.workload == nil {
		return ""
	}
	text := w.workload.Annotations[v1alpha1.ResumedAnnotation]
	return text[:min(len(text), most)]
}

// commandLine names the workload as a person types it.
func (w world) commandLine() string {
	return fmt.Sprintf("%s/%s -n %s", strings.ToLower(string(w.rec.Spec.Workload.Kind)), w.rec.Spec.Workload.Name, w.rec.Namespace)
}
