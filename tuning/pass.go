// Package tuning decides one pass over one workload: which open resizes go one step further, which new
// resizes begin, which pods are evicted, and what the status of the AttuneRecommendation says afterwards.
//
// The flow of data has one direction:
//  1. The workload loop (controller/workload) fills a View: the recommendation, the pods, their nodes, the
//     policy, quotas.
//  2. Decide(View) returns a Decision. It is a pure function: no client, no clock, no global variable.
//  3. Where the Decision has Unknowns, the loop reads them, adds them to the View and calls Decide again.
//  4. The loop stores Decision.Status, then sends Decision.Writes, then calls Answer with what the API
//     server returned.
//
// The order of step 4 is the safety of the whole: a process that stops between the two leaves a stored
// record, and the next process finishes or takes back what that record describes.
//
// The package never calls the API server, never reads the time, and never changes the View that it is
// given. What it does not decide itself: whether a single resize is allowed (resize, the gates), what a
// pod shows of a record (lifecycle.Next) and whether a resize did harm (resize/harm).
//
// Start reading with View (view.go) and Decision (decision.go), then decide in this file, then watcher
// (watch.go) for what is open and starter (start.go) for what is new.
package tuning

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// Decide is one pass over a workload as a pure function: the same View gives the same Decision, but for
// the order of Decision.Counts. What is open comes first, in the order of the records; only then something
// new begins. No step looks at what a later one decides.
//
// There is no error: what could not be read is part of the View (LookedView.Unread) and becomes a refusal.
// v.Rec must not be nil; v.Workload may be nil. The status in the Decision is a deep copy, so that the
// caller can compare it with the one that was read.
func Decide(v View) Decision {
	d := newDeciders(v)
	d.decide()
	return d.out
}

// decide runs the deciders. The order is knowledge:
//  1. notAhead comes first: every later step subtracts stored times from Now, and a time in the future
//     would stretch each deadline.
//  2. learn comes before advance and begin, so that a size below a floor that this pass has just learned is
//     not planned.
//  3. rememberOriginals comes before anything is resized: afterwards the pod no longer shows its first
//     size.
//  4. advance comes before begin: a record that closes makes room for a new one, and harm raises the
//     backoff that begin waits for.
//  5. restore comes before all else that begins, in each part of a pass: it waits for no usage source and for none of
//     what stops attune. The same goes for pods that fit no node with what admission gave them.
//  6. summarise comes last, as it reads the records, the refusals and the tries of all others.
func (d deciders) decide() {
	d.notAhead()
	d.goneOrNot()
	d.endPause()
	d.takeOver()
	d.pauseForOtherWriter()
	d.watcher.learn()
	d.rememberOriginals()
	d.judgeBirths()
	d.judgeAdmission()
	d.watcher.advance()
	d.starter.restore()
	d.starter.restoreUnscheduled()
	switch {
	case d.view.Part == UrgentPart:
		d.starter.beginUrgent()
	case d.view.Part == WholePass && d.view.Begin.Wait > 0:
		d.wake(d.view.Begin.Wait)
	case d.view.Part == WholePass:
		d.starter.giveBack(d.watcher.closing.raised)
		blocked := d.beginOrUndo()
		d.skip(blocked)
		d.condition(blockedCondition(blocked))
		d.evictor.hold()
	}
	d.reverter.remember()
	d.summarise()
	d.out.ByNode.WaitingSince = d.starter.stillWaiting()
	d.out.Topics = d.refused.topics
}

// deciders are the parts of one pass, and report its result. They share its view and its decision. A decider may call those that
// it names as fields, never the other way round, so that the calls form no cycle.
type deciders struct {
	*pass
	reverter *reverter
	watcher  *watcher
	evictor  *evictor
	starter  *starter
}

// newDeciders connects the deciders of one pass. All of them point to one pass, so that each sees at once
// what the others have decided. The deciders form no cycle: a decider gets only those that are built
// before it.
func newDeciders(v View) deciders {
	p := &pass{view: v}
	p.out.Status = *v.Rec.Status.DeepCopy()
	g := &gates{pass: p}
	up := &climber{pass: p, ahead: &gates{pass: p}}
	r := &reverter{p, g}
	c := &closing{pass: p, reverter: r}
	e := &evictor{p, g, c}
	start := &starter{pass: p, evictor: e, gates: g, climber: up}
	return deciders{
		pass: p, reverter: r, evictor: e, starter: start,
		watcher: &watcher{pass: p, closing: c, climber: up, evictor: e, reverter: r},
	}
}

// beginOrUndo begins what is new, or puts pods back to their originals where an undo is asked for. It
// returns why pods are not resized, or nil. An undo excludes all new resizes: one would take a pod away
// from the size that the person asked for.
func (d deciders) beginOrUndo() *resize.Refusal {
	if d.view.Begin.Closed != nil && d.view.sizesPods() {
		return d.view.Begin.Closed
	}
	if undone := d.starter.undo(); undone != nil {
		return undone
	}
	return d.starter.begin()
}

// pass is what the deciders of one pass share: what they see, what they decide, and why pods are not resized;
// and all steps that keep nothing of their own.
type pass struct {
	// view is the input. No decider changes it.
	view View
	// out is the Decision so far. out.Status begins as a copy of the stored status.
	out Decision
	// refused are the refusals of this pass, counted by reason; they become the condition ResizeBlocked.
	refused refusals
	// crashed are the pods that crash since their birth. judgeBirths fills it; starter.restoreBirths reads it.
	crashed []crash
	// unscheduled are pods that fit no node, or none now, with what admission gave them. judgeAdmission fills it;
	// starter.restoreUnscheduled reads it.
	unscheduled []*corev1.Pod
	// below are sentences about pods that were killed below their originals and do not have them back yet.
	below []string
}

// notAhead treats a stored time that is later than Now as Now. Another replica with a fast clock may have
// written it: without this step a watch or a cooldown would last longer by the difference of the clocks.
func (d *pass) notAhead() {
	for i, record := range d.out.Status.Records {
		d.out.Status.Records[i] = lifecycle.InOurTime(record, d.view.Now)
	}
	d.out.Status.CooldownFrom, d.out.Status.GoneSince = lifecycle.NotAhead(d.out.Status.CooldownFrom, d.view.Now), lifecycle.NotAhead(d.out.Status.GoneSince, d.view.Now)
	if p := d.out.Status.Paused; p != nil {
		p.Since = *lifecycle.NotAhead(&p.Since, d.view.Now)
	}
	if last := d.out.Status.LastSuperseded; last != nil && last.After(d.view.Now.Add(clocksDiffer)) {
		d.out.Status.LastSuperseded = &metav1.Time{Time: d.view.Now}
	}
	if b := d.out.Status.Backoff; b != nil {
		b.Since = *lifecycle.NotAhead(&b.Since, d.view.Now)
	}
	d.out.Status.Tries = resize.TriesInOurTime(d.out.Status.Tries, d.view.Now)
}

// tooLarge reports whether a pod has more containers than are sized (policy.MostContainers), or containers
// that the cache does not keep, and has no open record. Users of the namespace can add such pods to a
// workload; what the status stores of the workload must not grow with them. A pod with an open record is
// never left out, because the record has to be finished.
func (d *pass) tooLarge(pod *corev1.Pod) bool {
	return (policy.TooManyContainers(&pod.Spec) || workload.Incomplete(pod.Annotations)) && !hasRecord(d.out.Status.Records, pod)
}

// hasRecord reports whether a pod has an open record. A pod has at most one: a second resize begins only
// after the first is closed.
func hasRecord(records []v1alpha1.ResizeRecord, pod *corev1.Pod) bool {
	return recordAt(records, pod) >= 0
}

// tell adds an event about the workload as a whole. The texts of events are read in kubectl describe: a component is
// the subject, and what a person can do stands at the end. The recorder sends the same text about the same
// object at most every 10 minutes (internal/event); an amount or a time in a text makes it another event.
func (d *pass) tell(e event.Event) { d.out.Events = append(d.out.Events, Event{Event: e}) }

// tellOf adds an event about the pod of a record; the pod itself may be gone.
func (d *pass) tellOf(record v1alpha1.ResizeRecord, e event.Event) {
	d.out.Events = append(d.out.Events, Event{Event: e, Pod: record.PodUID, Name: record.PodName})
}

// tellOfPod adds an event about a pod that has no record yet.
func (d *pass) tellOfPod(pod *corev1.Pod, e event.Event) {
	d.out.Events = append(d.out.Events, Event{Event: e, Pod: pod.UID, Name: pod.Name})
}

// count adds the increments of a record's result. harm is the reason of a revert, empty for none.
func (d *pass) count(result string, record v1alpha1.ResizeRecord, harm string) {
	d.out.Counts = append(d.out.Counts, countsOf(result, record, harm)...)
}

// condition sets a condition. The time of its last transition changes only when its status changes
// (meta.SetStatusCondition).
func (d *pass) condition(c metav1.Condition) {
	c.ObservedGeneration = d.view.Rec.Generation
	meta.SetStatusCondition(&d.out.Status.Conditions, c)
}

// undoing returns the time of an undo that is asked for and not yet carried out; false: there is none. The
// text of the time is compared with status.undoneAt, so that one annotation is carried out once, also
// after a restart.
func (d *pass) undoing() (string, bool) {
	at, asked, err := d.view.owner().Undo()
	if !asked || err != nil {
		return "", false
	}
	text := at.Format(time.RFC3339Nano)
	return text, text != d.out.Status.UndoneAt
}

// wake asks for another pass after a duration; 0 and less ask for nothing, and the shortest duration
// counts.
func (d *pass) wake(after time.Duration) { d.out.Wake(after) }
