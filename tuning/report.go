package tuning

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// RightsEvery is how often the operator checks missing permissions again. ServedEvery is how often it checks whether
// the API server serves pods/resize.
const RightsEvery, ServedEvery = 15 * time.Second, 5 * time.Minute

// reports own what a reconcile reports besides the status: refusals, events, metric
// increments, and when to reconcile again.
type reports struct {
	// refused become the condition ResizeBlocked.
	refused refusals
	events  []Event
	counts  []Count
	// pending has one sentence for each pod whose revert or restore is not complete. below has one for each pod that
	// was killed below its original resources and does not have them again yet.
	pending, below []string
	// due and after are Decision.Due and Decision.After.
	due   bool
	after time.Duration
}

// addEvent adds an event about the workload. A component is the subject of the text, and the fix stands at the end.
// The recorder sends the same text about the same object at most every 10 minutes (internal/event); an amount or a time
// in the text makes it a different event.
func (r *reports) addEvent(e event.Event) { r.events = append(r.events, Event{Event: e}) }

// addRecordEvent adds an event about the pod of a record. The pod may be deleted.
func (r *reports) addRecordEvent(record v1alpha1.ResizeRecord, e event.Event) {
	r.events = append(r.events, Event{Event: e, Pod: record.PodUID, Name: record.PodName})
}

// addPodEvent adds an event about a pod that has no record yet.
func (r *reports) addPodEvent(pod *corev1.Pod, e event.Event) {
	r.events = append(r.events, Event{Event: e, Pod: pod.UID, Name: pod.Name})
}

// addCounts adds the increments of a record's result. harm is the kind of regression of a revert, otherwise empty.
func (r *reports) addCounts(result string, record v1alpha1.ResizeRecord, harm string) {
	r.counts = append(r.counts, countsOf(result, record, harm)...)
}

func (r *reports) addPending(sentence string) { r.pending = append(r.pending, sentence) }

// addBelow adds a sentence about a pod that was killed below its original resources, and returns it.
func (r *reports) addBelow(pod *corev1.Pod, why string) string {
	sentence := "pod " + pod.Name + ": " + why
	r.below = append(r.below, sentence)
	return sentence
}

// belowOriginals returns the sentence about the first pod and the number of other pods; empty: no such pod.
func (r *reports) belowOriginals() string {
	if n := len(r.below); n > 1 {
		return fmt.Sprintf("%s (and %d more pods)", r.below[0], n-1)
	}
	return strings.Join(r.below, "")
}

// storeNow asks the loop to store the status in this reconcile, if due is true.
func (r *reports) storeNow(due bool) { r.due = r.due || due }

// requeueAfter asks for another reconcile after a duration. The shortest one counts; 0 and less change nothing.
func (r *reports) requeueAfter(after time.Duration) { r.after = Soonest(r.after, after) }

// goneOrNot stores since when the workload is deleted. The recommendation is deleted a week later, and the operator
// may restart in between. The Jobs of an identity come and go with each run, so the time stays for up to a day after
// the next Job came: two writes a day, not two a run.
func (d *deciders) goneOrNot() {
	const between = 24 * time.Hour
	switch {
	case d.view.Workload != nil && d.view.Workload.IsShared() && d.status.GoneSince != nil && d.view.Now.Sub(d.status.GoneSince.Time) < between:
	case d.view.Workload != nil:
		d.status.GoneSince = nil
	case d.status.GoneSince == nil:
		d.status.GoneSince = &metav1.Time{Time: d.view.Now}
	}
}

// summarise sets the phase and the conditions.
func (d *deciders) summarise() {
	d.status.Phase = d.phase()
	d.wakeFor()
	d.condition(d.resizing())
	d.condition(d.degraded())
	d.status.Pods = &v1alpha1.PodCounts{Total: int32(len(d.view.Live())), AtTarget: d.atTarget(), Open: int32(len(d.records.open))}
}

// wakeFor schedules the reconcile after which a block may be over: the cooldown, a refusal with a time, missing
// permissions, an API server without pods/resize.
func (d *deciders) wakeFor() {
	d.reports.requeueAfter(resize.CooldownLeft(d.watcher.cooldownFrom, d.watcher.backoff, d.view.Policy.Settings.Resize, d.view.Now))
	d.reports.requeueAfter(d.reports.refused.after(d.view.Now))
	if d.view.Operator.NoRights != "" || d.view.Operator.NoRightsUrgent != "" {
		d.reports.requeueAfter(RightsEvery)
	}
	if d.view.Operator.NoResize {
		d.reports.requeueAfter(ServedEvery)
	}
}

// phase derives status.phase from the records first, then from pauses and the cooldown. The most urgent record wins:
// Reverting, then Resizing, then Watching.
func (d *deciders) phase() v1alpha1.RecommendationPhase {
	phase := v1alpha1.PhaseIdle
	for _, r := range d.records.open {
		switch r.Phase {
		case v1alpha1.RecordReverting, v1alpha1.RecordWithdrawing, v1alpha1.RecordLeaving, v1alpha1.RecordEvictionDenied:
			return v1alpha1.PhaseReverting
		case v1alpha1.RecordWatching:
			if phase == v1alpha1.PhaseIdle {
				phase = v1alpha1.PhaseWatching
			}
		default:
			phase = v1alpha1.PhaseResizing
		}
	}
	switch {
	case phase != v1alpha1.PhaseIdle:
		return phase
	case d.pauses.paused != nil || len(d.view.Policy.Settings.Resize.Paused) > 0 || d.view.Workload != nil && d.view.Workload.Stopped():
		return v1alpha1.PhasePaused
	case resize.CooldownLeft(d.watcher.cooldownFrom, d.watcher.backoff, d.view.Policy.Settings.Resize, d.view.Now) > 0:
		return v1alpha1.PhaseCooldown
	}
	return phase
}

// resizing is the condition Resizing: True while a record is open.
func (d *deciders) resizing() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionResizing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonIdle}
	switch {
	case len(d.records.open) > 0:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonInProgress
	case d.status.Phase == v1alpha1.PhaseCooldown:
		c.Reason = v1alpha1.ReasonCooldownActive
	}
	return c
}

// degraded is the condition Degraded. Reasons in this order: a pod that was killed below its original resources, a
// revert that is not complete, a revert that was given up, withdrawn admission resources, a high rate of reverts in
// the history.
func (d *deciders) degraded() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue}
	below, w := d.reports.belowOriginals(), d.status.AdmissionWithdrawn
	// The tries store that a revert was given up, so Degraded stays True after a restart.
	left := slices.IndexFunc(d.tries.list, func(t v1alpha1.Try) bool { return t.What == v1alpha1.TryGivenUp })
	switch {
	case below != "":
		c.Reason, c.Message = v1alpha1.ReasonBelowOriginal, below
	case len(d.reports.pending) > 0:
		c.Reason, c.Message = v1alpha1.ReasonRevertPending, d.reports.pending[0]
	case left >= 0:
		c.Reason, c.Message = v1alpha1.ReasonRevertPending, leftAt(d.tries.list[left].Pod, d.tries.list[left].Message)
	case w != nil && !w.RejectedWithout:
		c.Reason = w.Reason
		c.Message = fmt.Sprintf("new pods are created without admission resources until %s: %s", w.Until.UTC().Format(time.RFC3339), w.Message)
	case lifecycle.Degraded(d.watcher.history):
		c.Reason, c.Message = v1alpha1.ReasonHighRevertRate, "3 or more of the last 5 resizes were reverted. Raise overhead or minAllowed"
	default:
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonHealthy
	}
	return c
}

// nextResize returns when the next resize may start, from the counts of pods, the open records and the refusal; nil:
// nothing is left to resize. It has only times that stay the same from one reconcile to the next, with the resolution
// of a stored time, so that it changes only if what it waits for changes.
func nextResize(pods *v1alpha1.PodCounts, open []v1alpha1.ResizeRecord, blocked *resize.Refusal) *v1alpha1.NextResize {
	switch {
	case pods.AtTarget >= pods.Total:
		return nil
	case len(open) > 0:
		next := &v1alpha1.NextResize{Reason: v1alpha1.ReasonObservation}
		for _, r := range open {
			if r.Phase != v1alpha1.RecordWatching || r.WatchUntil == nil {
				return &v1alpha1.NextResize{Reason: v1alpha1.ReasonInProgress}
			}
			if next.At == nil || next.At.Before(r.WatchUntil) {
				next.At = &metav1.Time{Time: r.WatchUntil.UTC().Truncate(time.Second)}
			}
		}
		return next
	case blocked == nil:
		return nil
	case blocked.Until.IsZero() || blocked.Reason == resize.ReasonMemoryUnknown:
		// The time until memory is measured moves with each reconcile.
		return &v1alpha1.NextResize{Reason: blocked.Reason}
	}
	return &v1alpha1.NextResize{Reason: blocked.Reason, At: &metav1.Time{Time: blocked.Until.UTC().Truncate(time.Second)}}
}

// blockedCondition is the condition ResizeBlocked of a refusal; nil: nothing is blocked.
func blockedCondition(blocked *resize.Refusal) metav1.Condition {
	if blocked == nil {
		return metav1.Condition{Type: v1alpha1.ConditionResizeBlocked, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotBlocked}
	}
	return metav1.Condition{Type: v1alpha1.ConditionResizeBlocked, Status: metav1.ConditionTrue, Reason: blocked.Reason, Message: blocked.Message}
}

// atTarget counts the live pods without a planned change. A pod with a resize in flight is not at its target; a pod
// under observation may be.
func (d *deciders) atTarget() int32 {
	var n int32
	for _, pod := range d.view.Live() {
		if record := d.records.of(pod); record != nil && record.Phase != v1alpha1.RecordWatching {
			continue
		}
		if plan, _ := resize.PlanFor(pod, d.view.targets(pod), d.view.capabilitiesOn(pod.Spec.NodeName), d.view.Now); plan.Empty() {
			n++
		}
	}
	return n
}

// reportRefusal sends an event about a refusal that may need attention, and repeats it only when the condition
// ResizeBlocked changes. A transient refusal appears only in the condition. Quotas are an exception, because they pass
// only when other objects are removed. Their numbers change all the time and do not count as a change.
func (d *deciders) reportRefusal(refusal *resize.Refusal) {
	if refusal == nil || slices.Contains(asked, refusal.Reason) || refusal.Transient && refusal.Reason != resize.ReasonQuota {
		return
	}
	known := meta.FindStatusCondition(d.status.Conditions, v1alpha1.ConditionResizeBlocked)
	same := known != nil && known.Status == metav1.ConditionTrue && known.Reason == refusal.Reason
	if same && (refusal.Transient || known.Message == refusal.Message) {
		return
	}
	d.reports.addEvent(event.Warning(v1alpha1.EventResizeSkipped, "%s", refusal.Message))
}

// asked are reasons of refusals that a user or the operator caused on purpose, and that are reported in other places:
// a pause, a mode, an annotation, an undo.
var asked = []string{resize.ReasonPaused, resize.ReasonWorkloadPaused, resize.ReasonMode, resize.ReasonSkipped, ReasonUndone}
