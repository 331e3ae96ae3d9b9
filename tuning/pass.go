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
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
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
	return newDeciders(v, storedStatus(v)).decide()
}

// decide runs the deciders. The order matters:
//  1. readEnds comes before every step that reads an OOM kill in a pod. learnOOMFloors comes before advance and
//     startResizes, so that no plan is below a floor that this reconcile has just learned.
//  2. rememberOriginals comes before any resize: afterwards the pod no longer shows its original resources.
//  3. judgeSuccessor comes before advance, which evicts pods.
//  4. advance comes before startResizes: a closed record makes room for a new one, and a regression extends the backoff
//     that startResizes waits for.
//  5. restore and restoreCreated come before all other new resizes, in every Part. They do not wait for a usage
//     source, and reasons that stop attune do not stop them.
//  6. summarise comes last, because it reads the records, refusals and tries of all other steps.
func (d *deciders) decide() Decision {
	d.goneOrNot()
	d.pauses.endPause()
	d.pauses.takeOver()
	d.pauses.pauseForOtherWriter()
	d.learned.readEnds()
	d.learned.learnOOMFloors()
	d.learned.rememberOriginals()
	d.learned.promote()
	d.learned.judgeBirths()
	unscheduled, stuck, deletions := d.judgeAdmission()
	d.tries.judgeSuccessor(d.soFar())
	d.watcher.advance()
	d.starter.restore()
	d.starter.restoreCreated(unscheduled, stuck)
	var byNode NodeNews
	var blocked *resize.Refusal
	whole := false
	switch {
	case d.view.Part == UrgentPart:
		d.starter.beginUrgent()
	case d.view.Part == WholePass && d.view.Begin.Wait > 0:
		d.reports.requeueAfter(d.view.Begin.Wait)
	case d.view.Part == WholePass:
		d.starter.giveBack(d.watcher.raised)
		blocked, whole = d.beginOrUndo(), true
		d.reportRefusal(blocked)
		d.condition(blockedCondition(blocked))
		byNode.Held, byNode.NotEvictable = d.evictor.blockedPods()
	}
	d.tries.storeReverts(d.records.open)
	d.summarise()
	if whole { // only a complete reconcile knows what the pods wait for
		d.status.NextResize = nextResize(d.status.Pods, d.records.open, blocked)
	}
	byNode.WaitingSince = d.starter.stillWaiting()
	return Decision{
		Status: d.soFar(), Writes: d.writes.list, Evictions: d.evictor.evictions, EvictionOutcomes: d.watcher.evicted,
		Events: d.reports.events, Counts: d.reports.counts, Unknowns: d.unknowns, Lessons: d.lessons,
		Topics: d.reports.refused.topics, Pending: d.reports.pending, ByNode: byNode, Deletions: deletions, Due: d.reports.due, After: d.reports.after,
	}
}

// deciders are the parts of one reconcile: first the owners, each with its fields of the decision, then the deciders.
// A decider reads the view and calls only the owners and deciders in its own fields, so the calls form no cycle.
type deciders struct {
	// view is the input. No decider changes it.
	view View
	// status has the fields of the status that no owner has.
	status v1alpha1.AttuneRecommendationStatus

	records  records
	tries    tries
	writes   writes
	reports  reports
	unknowns Unknowns
	lessons  []Lesson
	learned  learned
	pauses   pauses

	gates   gates
	climber climber
	evictor evictor
	starter starter
	watcher watcher
}

// newDeciders gives each owner its fields of a status, and each decider the owners and deciders that it may use.
func newDeciders(of View, s v1alpha1.AttuneRecommendationStatus) *deciders {
	d := &deciders{view: of, status: s, records: records{s.Records}}
	v, r, w, q := &d.view, &d.records, &d.writes, &d.unknowns
	d.tries = tries{v, s.Tries}
	d.learned = learned{v, r, &d.reports, s.Originals, s.Floors, s.Verified, s.BadSeeds, s.FailedStarts, nil}
	d.pauses = pauses{v, &d.tries, &d.reports, s.Paused, s.Supersessions, s.LastSuperseded, s.Operator}
	d.gates = gates{view: v, lessons: &d.lessons, status: d.soFar}
	d.climber = climber{v, &d.tries, &d.learned, &d.pauses, &d.reports, d.gates}
	d.evictor = evictor{v, r, &d.tries, q, &d.reports, &d.gates, nil}
	d.starter = starter{v, r, &d.tries, w, q, &d.reports, &d.learned, &d.pauses, &d.gates, &d.climber, &d.evictor, nil}
	d.watcher = watcher{
		view: v, records: r, tries: &d.tries, writes: w, unknowns: q, reports: &d.reports, learned: &d.learned, pauses: &d.pauses,
		gates: &d.gates, climber: &d.climber, evictor: &d.evictor, history: s.History, cooldownFrom: s.CooldownFrom, backoff: s.Backoff,
	}
	return d
}

// soFar returns the status as decided so far. The gates read it.
func (d *deciders) soFar() v1alpha1.AttuneRecommendationStatus {
	s := d.status
	s.Records, s.Tries, s.Originals = d.records.open, d.tries.list, d.learned.originals
	s.Floors, s.Verified, s.BadSeeds, s.FailedStarts = d.learned.floors, d.learned.verified, d.learned.badSeeds, d.learned.failedStarts
	s.Paused, s.Supersessions, s.LastSuperseded, s.Operator = d.pauses.paused, d.pauses.supersessions, d.pauses.lastSuperseded, d.pauses.operator
	s.History, s.CooldownFrom, s.Backoff = d.watcher.history, d.watcher.cooldownFrom, d.watcher.backoff
	return s
}

// beginOrUndo begins new resizes, or restores the original resources if a user asked for an undo. It returns why pods
// are not resized, or nil. An undo excludes all new resizes, because one would change the size that the user asked
// for.
func (d *deciders) beginOrUndo() *resize.Refusal {
	if d.view.Begin.Closed != nil && d.view.sizesPods() {
		return d.view.Begin.Closed
	}
	undone, completed := d.starter.undo()
	d.status.UndoneAt = cmp.Or(completed, d.status.UndoneAt)
	if undone != nil {
		return undone
	}
	return d.starter.startResizes()
}

// storedStatus returns a copy of the stored status. A stored time later than Now counts as Now, because another replica
// with a fast clock may have written it. Otherwise an observation period or a cooldown would last longer by the
// difference of the clocks.
func storedStatus(v View) v1alpha1.AttuneRecommendationStatus {
	s := *v.Rec.Status.DeepCopy()
	for i, record := range s.Records {
		s.Records[i] = lifecycle.InOurTime(record, v.Now)
	}
	s.CooldownFrom, s.GoneSince = lifecycle.NotAhead(s.CooldownFrom, v.Now), lifecycle.NotAhead(s.GoneSince, v.Now)
	if p := s.Paused; p != nil {
		p.Since = *lifecycle.NotAhead(&p.Since, v.Now)
	}
	if last := s.LastSuperseded; last != nil && last.After(v.Now.Add(clocksDiffer)) {
		s.LastSuperseded = &metav1.Time{Time: v.Now}
	}
	if b := s.Backoff; b != nil {
		b.Since = *lifecycle.NotAhead(&b.Since, v.Now)
	}
	s.Tries = resize.TriesInOurTime(s.Tries, v.Now)
	return s
}

// condition sets a condition at the time of the view.
func (d *deciders) condition(c metav1.Condition) {
	v1alpha1.SetCondition(&d.status.Conditions, c, d.view.Rec.Generation, d.view.Now)
}

// undoing returns the time of an undo that was requested and is not complete; false: no such undo. The text of the
// time is compared with status.undoneAt, so that one annotation is carried out once, also after a restart.
func (v *View) undoing() (string, bool) {
	at, asked, err := v.owner().Undo()
	if !asked || err != nil {
		return "", false
	}
	text := at.Format(time.RFC3339Nano)
	return text, text != v.Rec.Status.UndoneAt
}
