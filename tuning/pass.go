package tuning

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/resize"
)

// Decide is one pass over a workload as a pure function. What is open comes first, in the order of the records; only
// then something new begins. No step looks at what a later one decides.
func Decide(v View) Decision {
	d := newDeciders(v)
	d.decide()
	return d.out
}

func (d deciders) decide() {
	d.notAhead()
	d.reporter.goneOrNot()
	d.pauser.resume()
	d.pauser.takeOver()
	d.watcher.learn()
	d.originals.remember()
	d.births.judge()
	d.watcher.advance()
	switch {
	case d.view.Part == UrgentPart:
		d.starter.beginUrgent()
	case d.view.Part == WholePass && d.view.Begin.Wait > 0:
		d.wake(d.view.Begin.Wait)
	case d.view.Part == WholePass:
		blocked := d.beginOrUndo()
		d.reporter.skip(blocked)
		d.reporter.block(blocked)
		d.evictor.hold()
	}
	d.reverter.remember()
	d.reporter.summarise()
	d.out.ByNode.WaitingSince = d.starter.stillWaiting()
	d.out.Topics = d.refused.topics
}

// deciders of one pass. They share its view and its decision; each may call those that it names, never the other way
// round.
type deciders struct {
	*pass
	originals *originals
	births    *births
	pauser    *pauser
	reverter  *reverter
	watcher   *watcher
	evictor   *evictor
	starter   *starter
	undoer    *undoer
	reporter  *reporter
}

func newDeciders(v View) deciders {
	p := &pass{view: v}
	p.out.Status = *v.Rec.Status.DeepCopy()
	g, l, o, pauses := &gates{pass: p}, &lookup{p}, &originals{p}, &pauser{p}
	s := &sizes{p, o}
	b := &births{pass: p, originals: o}
	r := &reverter{p, g}
	c := &closing{pass: p, pauser: pauses, reverter: r}
	e := &evictor{p, g, c}
	start := &starter{pass: p, births: b, evictor: e, gates: g, lookup: l, pauser: pauses, sizes: s}
	return deciders{
		pass: p, originals: o, births: b, pauser: pauses, reverter: r, evictor: e, starter: start,
		watcher:  &watcher{pass: p, births: b, closing: c, evictor: e, lookup: l, reverter: r},
		undoer:   &undoer{p, g, l, s, start},
		reporter: &reporter{p, s},
	}
}

// beginOrUndo begins what is new, or undoes. It returns why pods are not resized, or nil.
func (d deciders) beginOrUndo() *resize.Refusal {
	if d.view.Begin.Closed != nil && d.view.sizesPods() {
		return d.view.Begin.Closed
	}
	if undone := d.undoer.undo(); undone != nil {
		return undone
	}
	return d.starter.begin()
}

// pass is what the deciders of one pass share: what they see, what they decide, and why pods are not resized.
type pass struct {
	view    View
	out     Decision
	refused refusals
}

// notAhead takes what another replica wrote, with a clock that is ahead, as written just now.
func (d *pass) notAhead() {
	for i, record := range d.out.Status.Records {
		d.out.Status.Records[i] = resize.Named(resize.InOurTime(record, d.view.Now))
	}
	d.out.Status.CooldownFrom, d.out.Status.GoneSince = resize.NotAhead(d.out.Status.CooldownFrom, d.view.Now), resize.NotAhead(d.out.Status.GoneSince, d.view.Now)
	if p := d.out.Status.Paused; p != nil {
		p.Since = *resize.NotAhead(&p.Since, d.view.Now)
	}
	if b := d.out.Status.Backoff; b != nil {
		b.Since = *resize.NotAhead(&b.Since, d.view.Now)
	}
	d.out.Status.Tries = resize.TriesInOurTime(d.out.Status.Tries, d.view.Now)
}

// tooLarge: a pod has more containers than are sized, or than are known, and is not being resized either. Anybody can give a
// workload such pods; what is kept of its own does not grow with them.
func (d *pass) tooLarge(pod *corev1.Pod) bool {
	return (policy.TooManyContainers(&pod.Spec) || workload.Incomplete(pod.Annotations)) && !hasRecord(d.out.Status.Records, pod)
}

func hasRecord(records []v1alpha1.ResizeRecord, pod *corev1.Pod) bool {
	return slices.ContainsFunc(records, func(r v1alpha1.ResizeRecord) bool { return r.PodUID == pod.UID })
}

// tell of the workload as a whole.
func (d *pass) tell(e event.Event) { d.out.Events = append(d.out.Events, Event{Event: e}) }

// tellOf a record's pod.
func (d *pass) tellOf(record v1alpha1.ResizeRecord, e event.Event) {
	d.out.Events = append(d.out.Events, Event{e, record.PodUID, record.PodName})
}

func (d *pass) tellOfPod(pod *corev1.Pod, e event.Event) {
	d.out.Events = append(d.out.Events, Event{e, pod.UID, pod.Name})
}

func (d *pass) count(result string, record v1alpha1.ResizeRecord, harm string) {
	d.out.Counts = append(d.out.Counts, countsOf(result, record, harm)...)
}

func (d *pass) condition(c metav1.Condition) {
	c.ObservedGeneration = d.view.Rec.Generation
	meta.SetStatusCondition(&d.out.Status.Conditions, c)
}

// undoing is the time of an undo that is asked for and not carried out yet; false: there is none.
func (d *pass) undoing() (string, bool) {
	if d.view.Workload == nil {
		return "", false
	}
	at, asked, err := d.view.Workload.Undo()
	if !asked || err != nil {
		return "", false
	}
	text := at.Format(time.RFC3339Nano)
	return text, text != d.out.Status.UndoneAt
}

// wake asks for another look after a while.
func (d *pass) wake(after time.Duration) { d.out.Wake(after) }
