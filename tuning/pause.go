package tuning

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

// attune pauses a workload by itself (status.paused) if another field manager or another operator also resizes its
// pods, or if its memory seems to leak. A pause by annotation or by policy is separate (resize, the gates). During a
// pause no new resize begins except restores and an undo, and open records are finished.
const (
	// mostSupersessions is how many of attune's resizes another field manager may overwrite before the workload is
	// paused: attune never fights with another controller. The count starts again after supersededFor without one.
	mostSupersessions = 2
	supersededFor     = 7 * 24 * time.Hour
	// pausedFor is how long that pause lasts unless a user ends it: long enough to find the other field manager.
	pausedFor = 24 * time.Hour
	// writtenLately is how old another field manager's resize may be to pause a workload. A running operator sees
	// each change within seconds, so an older resize happened while the operator was down.
	writtenLately = time.Hour
	// clocksDiffer is how far the API server's clock may be ahead of this one.
	clocksDiffer = 5 * time.Minute
)

// pauses own status.paused and the fields of the status from which a pause follows.
type pauses struct {
	view           *View
	tries          *tries
	reports        *reports
	paused         *v1alpha1.PausedState
	supersessions  int32
	lastSuperseded *metav1.Time
	operator       string
}

// countSupersession counts another field manager's resize that replaced one of attune's.
func (d *pauses) countSupersession(record v1alpha1.ResizeRecord) {
	d.reports.addRecordEvent(record, event.Warning(v1alpha1.EventResizeFailed, "Another field manager resized pod %s; attune dropped its own resize of the pod", record.PodName))
	if slices.ContainsFunc(d.view.Pods, func(p *corev1.Pod) bool { return p.UID == record.PodUID && d.view.foreignStart(p) }) {
		return
	}
	d.pauseAfterSupersessions(fmt.Sprintf(
		"another field manager twice changed the resources of pods that attune had resized. Find it (kubectl get pod %s --show-managed-fields -o yaml)", record.PodName))
}

// pauseAfterSupersessions counts one supersession, and pauses the workload after mostSupersessions. why begins the
// sentence that the user reads. The count starts again after supersededFor without one. A workload that is already
// paused keeps its reason.
func (d *pauses) pauseAfterSupersessions(why string) {
	if last := d.lastSuperseded; last != nil && d.view.Now.Sub(last.Time) > supersededFor {
		d.supersessions = 0
	}
	d.supersessions++
	d.lastSuperseded = &metav1.Time{Time: d.view.Now}
	if d.supersessions < mostSupersessions || d.paused != nil {
		return
	}
	d.pauseBecause(why)
}

// pauseBecause pauses the workload for pausedFor. why begins the sentence that the user reads.
func (d *pauses) pauseBecause(why string) {
	d.setPaused("%s. Then run kubectl attune resume %s, or wait: attune tries again at %s",
		why, d.view.commandLine(), d.view.Now.Add(pausedFor).UTC().Format(time.RFC3339))
}

// setPaused pauses the workload from now on, and sends an event with the reason.
func (d *pauses) setPaused(format string, args ...any) {
	d.paused = &v1alpha1.PausedState{Since: metav1.Time{Time: d.view.Now}, Resumed: d.view.resumed(), Reason: fmt.Sprintf(format, args...)}
	d.reports.addEvent(event.Warning(v1alpha1.EventResizeSkipped, "Paused: %s", d.paused.Reason))
}

// pauseForOtherWriter pauses a workload if another field manager has just resized its pods, also if attune had not
// resized them. A controller that resizes its own pods in place would undo each step, and a user who resized a pod
// had a reason. managedFields names the field manager. Workloads that attune does not resize are skipped. A resize
// older than writtenLately is accepted.
func (d *pauses) pauseForOtherWriter() {
	if d.paused != nil || !d.view.resizesPods() || len(d.view.Rec.Spec.Containers) == 0 || d.view.Autoscalers.VPA() != "" {
		return
	}
	if _, skipped := d.view.Workload.Skipped(); skipped {
		return
	}
	pod, by, at := d.view.lastWriter()
	since := d.view.Now.Add(-writtenLately)
	if last := d.lastSuperseded; last != nil && last.After(since) {
		since = last.Time
	}
	if !at.After(since) {
		return
	}
	d.seenWriters(at)
	d.pauseBecause(fmt.Sprintf("field manager %q resized pod %s in place at %s. Let only one of the two size this workload, for example by setting the annotation %s=true on it",
		by, pod, at.UTC().Format(time.RFC3339), v1alpha1.SkipAnnotation))
}

// lastWriter returns the pod that another field manager resized last, the field manager and the time; zero: no such
// resize. A time more than clocksDiffer ahead is ignored, because the API server did not set it. A resize that is part
// of a pod's start is ignored too: it is where the pod begins (rememberOriginals).
func (v *View) lastWriter() (pod, by string, at time.Time) {
	for _, p := range v.Pods {
		if manager, when := podview.ResizedBy(p); when.After(at) && !when.After(v.Now.Add(clocksDiffer)) && !v.foreignStart(p) {
			pod, by, at = p.Name, manager, when
		}
	}
	return pod, by, at
}

// seenWriters stores that resizes up to now, or up to a later time by the API server's clock, do not pause the
// workload again.
func (d *pauses) seenWriters(at time.Time) {
	if at.Before(d.view.Now) {
		at = d.view.Now
	}
	d.lastSuperseded = &metav1.Time{Time: at}
}

// takeOver stores which operator manages the workload (status.operator). An operator that finds another name there
// has either replaced that operator or runs at the same time. If both run, each writes its own name in turn and
// undoes the other's work. A process whose own name was replaced counts that, and the second time pauses the workload.
// A release that moves to another namespace, and back, counts nothing: each time it is a new process. While the workload
// is paused, neither begins a resize, and both still revert regressions.
func (d *pauses) takeOver() {
	before := d.operator
	if d.view.Operator.Namespace == "" || before == d.view.Operator.Namespace || before != "" && d.paused != nil {
		return
	}
	d.operator = d.view.Operator.Namespace
	if before == "" {
		return
	}
	// Not delayed: until this is stored, both operators undo each other's work in every reconcile.
	d.reports.storeNow(true)
	d.reports.addEvent(event.Warning(v1alpha1.EventResizeSkipped, "The operator in namespace %s manages this workload now; before, the operator in namespace %s managed it",
		d.view.Operator.Namespace, before))
	if !d.view.Past.TookOver {
		return
	}
	d.pauseAfterSupersessions(fmt.Sprintf("the operators in namespaces %s and %s both size this workload. Uninstall one of them", before, d.view.Operator.Namespace))
}

// endPause ends a pause by attune itself: when kubectl attune resume has changed its annotation since the pause
// began, or after pausedFor (for a leak: when the try expires). It also drops the tries, so that the workload starts
// fresh.
func (d *pauses) endPause() {
	if d.paused == nil {
		return
	}
	left := d.paused.Since.Add(pausedFor).Sub(d.view.Now)
	if leak := resize.Leaks(d.tries.list); leak != nil {
		left = leak.Until.Sub(d.view.Now)
	}
	if left > 0 && d.view.resumed() == d.paused.Resumed {
		d.reports.requeueAfter(left)
		return
	}
	d.paused, d.supersessions = nil, 0
	_, _, at := d.view.lastWriter()
	d.seenWriters(at)
	d.tries.forgive()
}

// pauseLeak pauses a workload whose memory was raised again and again after OOM kills. Otherwise each raise would
// take more of the node until other pods are killed. Running pods keep their size, and open records are finished.
func (d *pauses) pauseLeak() {
	leak := resize.Leaks(d.tries.list)
	if leak == nil || d.paused != nil {
		return
	}
	d.setPaused("container %s got more memory %d times after OOM kills since %s, up to %s, and still needs more, which looks like a memory leak. "+
		"Fix the leak, or set maxAllowed. Then run kubectl attune resume %s to allow further raises", leak.Container, leak.Times,
		leak.Since.UTC().Format(time.RFC3339), leak.Amount.String(), d.view.commandLine())
}

// foreignStart reports whether the last foreign resize of a pod is part of its start: attune had not resized the pod, or
// a booster has ended and restored the template's requests. A pod's generation is 1 at its creation, and grows with each
// resize.
func (v *View) foreignStart(pod *corev1.Pod) bool {
	if !podview.ResizedAtStart(pod) || v.owner().Template == nil {
		return false
	}
	if pod.Generation <= 2 && podview.ResizedByAttune(pod).IsZero() {
		return true
	}
	return !slices.ContainsFunc(podview.Read(pod), func(c podview.Container) bool {
		template, ok := podview.TemplateSize(v.owner().Template, c.Name)
		return ok && requestsOf(asBorn(template, c.Size)) != requestsOf(c.Size)
	})
}
