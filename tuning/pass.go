// Package tuning decides one reconcile of one workload: how open resizes continue, which new resizes begin, which
// pods are evicted, and the resulting status of the AttuneRecommendation.
//
// The data flows in one direction:
//  1. The workload loop (controller/workload) fills a View: the recommendation, the pods, their nodes, the policy,
//     quotas.
//  2. Decide(View) returns a Decision. It is a pure function: no client, no clock, no global variable.
//  3. If the Decision has Unknowns, the loop reads them, adds them to the View and calls Decide again.
//  4. The loop stores Decision.Status, then sends Decision.Writes, then calls Answer with the API server's answers.
//
// The order of step 4 makes a crash safe: a process that stops between the two leaves a stored record, and the next
// process finishes or reverts the resize that the record describes.
//
// The package never calls the API server, never reads the time, and never changes its View. Other packages decide
// whether a single resize is allowed (the gates of resize), how a record continues (lifecycle.Next) and whether a
// resize caused a regression (resize/harm).
//
// Start reading with View (view.go) and Decision (decision.go), then decide in this file, then watcher (watch.go) for
// open resizes and starter (start.go) for new ones.
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

// Decide decides one reconcile of a workload as a pure function: the same View gives the same Decision. Open records
// come first, in their order; only then new resizes begin. No step reads the result of a later one.
//
// It returns no error: data that could not be read is part of the View (LookedView.Unread) and becomes a refusal.
// v.Rec must not be nil; v.Workload may be nil. The status in the Decision is a deep copy, so that the caller can
// compare it with the stored one.
func Decide(v View) Decision {
	d := newDeciders(v)
	d.decide()
	return d.out
}

// decide runs the deciders. The order matters:
//  1. notAhead comes first: every later step subtracts stored times from Now, and a time in the future would extend
//     each deadline.
//  2. readEnds comes before every step that reads an OOM kill in a pod. learnOOMFloors comes before advance and startResizes, so that no plan is below a floor that this reconcile has
//     just learned.
//  3. rememberOriginals comes before any resize: afterwards the pod no longer shows its original resources.
//  4. JudgeSuccessor comes before advance, which evicts pods.
//  5. advance comes before startResizes: a closed record makes room for a new one, and a regression extends the backoff
//     that startResizes waits for.
//  6. restore and restoreUnscheduled come before all other new resizes, in every Part. They do not wait for a usage
//     source, and reasons that stop attune do not stop them.
//  7. summarise comes last, because it reads the records, refusals and tries of all other steps.
func (d deciders) decide() {
	d.notAhead()
	d.goneOrNot()
	d.endPause()
	d.takeOver()
	d.pauseForOtherWriter()
	d.watcher.readEnds()
	d.watcher.learnOOMFloors()
	d.rememberOriginals()
	d.judgeBirths()
	d.judgeAdmission()
	d.out.Status.Tries = lifecycle.JudgeSuccessor(d.out.Status.Tries, d.out.Status.History, d.view.Pods, d.view.Rec.Spec.Seed, d.view.isSeeded, d.view.Now)
	d.watcher.advance()
	d.starter.restore()
	d.starter.restoreUnscheduled()
	switch {
	case d.view.Part == UrgentPart:
		d.starter.beginUrgent()
	case d.view.Part == WholePass && d.view.Begin.Wait > 0:
		d.requeueAfter(d.view.Begin.Wait)
	case d.view.Part == WholePass:
		d.starter.giveBack(d.watcher.closing.raised)
		blocked := d.beginOrUndo()
		d.reportRefusal(blocked)
		d.condition(blockedCondition(blocked))
		d.evictor.reportBlockedPods()
	}
	d.reverter.storeRevertTries()
	d.summarise()
	d.out.ByNode.WaitingSince = d.starter.stillWaiting()
	d.out.Topics = d.refused.topics
}

// deciders are the parts of one reconcile. They share its view and its decision. A decider calls only deciders in its
// own fields, so the calls form no cycle.
type deciders struct {
	*pass
	reverter *reverter
	watcher  *watcher
	evictor  *evictor
	starter  *starter
}

// newDeciders connects the deciders of one reconcile. All of them point to one pass, so that each sees at once what
// the others have decided. Each decider gets only deciders that were built before it.
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

// beginOrUndo begins new resizes, or restores the original resources if a user asked for an undo. It returns why pods
// are not resized, or nil. An undo excludes all new resizes, because one would change the size that the user asked
// for.
func (d deciders) beginOrUndo() *resize.Refusal {
	if d.view.Begin.Closed != nil && d.view.sizesPods() {
		return d.view.Begin.Closed
	}
	if undone := d.starter.undo(); undone != nil {
		return undone
	}
	return d.starter.startResizes()
}

// pass is the state that the deciders of one reconcile share: the view, the decision, and the reasons why pods are
// not resized. Its methods are the steps without state of their own.
type pass struct {
	// view is the input. No decider changes it.
	view View
	// out is the Decision so far. out.Status begins as a copy of the stored status.
	out Decision
	// refused are the refusals of this reconcile, counted by reason. They become the condition ResizeBlocked.
	refused refusals
	// crashed are the pods in a crash loop since they were created. judgeBirths fills it; starter.restoreBirths reads
	// it.
	crashed []crash
	// unscheduled are pods that fit no node with their admission resources, or no node has room now. judgeAdmission
	// fills it; starter.restoreUnscheduled reads it.
	unscheduled []*corev1.Pod
	// below has one sentence for each pod that was killed below its original resources and does not have them again
	// yet.
	below []string
}

// notAhead treats a stored time later than Now as Now. Another replica with a fast clock may have written it.
// Otherwise an observation period or a cooldown would last longer by the difference of the clocks.
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

// tooLarge reports whether a pod without a record has more containers than policy.MostContainers, or containers that
// the cache does not keep. Users of the namespace can add such pods to a workload, and they must not make its status
// grow. A pod with a record is never skipped, because the record has to be finished.
func (d *pass) tooLarge(pod *corev1.Pod) bool {
	return (policy.TooManyContainers(&pod.Spec) || workload.Incomplete(pod.Annotations)) && !hasRecord(d.out.Status.Records, pod)
}

// hasRecord reports whether a pod has a record. A pod has at most one: a second resize begins only after the first is
// closed.
func hasRecord(records []v1alpha1.ResizeRecord, pod *corev1.Pod) bool {
	return recordAt(records, pod) >= 0
}

// recordEvent adds an event about the workload. A component is the subject of the text, and the fix stands at the end.
// The recorder sends the same text about the same object at most every 10 minutes (internal/event); an amount or a time
// in the text makes it a different event.
func (d *pass) recordEvent(e event.Event) { d.out.Events = append(d.out.Events, Event{Event: e}) }

// tellOf adds an event about the pod of a record. The pod may be deleted.
func (d *pass) tellOf(record v1alpha1.ResizeRecord, e event.Event) {
	d.out.Events = append(d.out.Events, Event{Event: e, Pod: record.PodUID, Name: record.PodName})
}

// tellOfPod adds an event about a pod that has no record yet.
func (d *pass) tellOfPod(pod *corev1.Pod, e event.Event) {
	d.out.Events = append(d.out.Events, Event{Event: e, Pod: pod.UID, Name: pod.Name})
}

// count adds the increments of a record's result. harm is the kind of regression of a revert, otherwise empty.
func (d *pass) count(result string, record v1alpha1.ResizeRecord, harm string) {
	d.out.Counts = append(d.out.Counts, countsOf(result, record, harm)...)
}

// condition sets a condition. Its lastTransitionTime changes only with its status (meta.SetStatusCondition).
func (d *pass) condition(c metav1.Condition) {
	c.ObservedGeneration, c.LastTransitionTime = d.view.Rec.Generation, metav1.NewTime(d.view.Now)
	meta.SetStatusCondition(&d.out.Status.Conditions, c)
}

// undoing returns the time of an undo that was requested and is not complete; false: no such undo. The text of the
// time is compared with status.undoneAt, so that one annotation is carried out once, also after a restart.
func (d *pass) undoing() (string, bool) {
	at, asked, err := d.view.owner().Undo()
	if !asked || err != nil {
		return "", false
	}
	text := at.Format(time.RFC3339Nano)
	return text, text != d.out.Status.UndoneAt
}

// requeueAfter asks for another reconcile after a duration. The shortest one counts; 0 and less change nothing.
func (d *pass) requeueAfter(after time.Duration) { d.out.Wake(after) }
