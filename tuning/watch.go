package tuning

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
)

// watcher takes every open record one step: it is watched, verified, put back or closed.
type watcher struct {
	*pass
	births   *births
	closing  *closing
	evictor  *evictor
	lookup   *lookup
	reverter *reverter
	// hurt are records whose pods were harmed.
	hurt []v1alpha1.ResizeRecord
}

// advance takes every open record one step.
func (d *watcher) advance() {
	records := d.out.Status.Records
	d.out.Status.Records = nil
	for _, record := range records {
		d.step(record)
	}
	d.keep()
}

// keep takes what pods survived for good, after all records were looked at: what harmed a sibling is not, whichever
// of the two comes first.
func (d *watcher) keep() {
	for _, record := range d.closing.survivors {
		if !d.view.ByNode() {
			d.out.Status.Kept = harm.Keep(d.out.Status.Kept, record, d.out.Status.Floors, d.view.Now)
		}
		if len(d.hurt) == 0 && resize.EndsBackoff(d.out.Status.Backoff, record) {
			d.out.Status.Backoff = nil
		}
	}
	for _, record := range d.out.Status.Records {
		if record.Phase == v1alpha1.RecordReverting {
			d.out.Status.Kept = harm.Unkeep(d.out.Status.Kept, record)
		}
	}
	for _, record := range d.hurt {
		d.out.Status.Kept = harm.Unkeep(d.out.Status.Kept, record)
	}
}

// step takes an open record one step. One whose answer was lost is first told what it was.
func (d *watcher) step(record v1alpha1.ResizeRecord) {
	pod := d.view.Pod(record.PodUID)
	state, action := d.assess(pod, record)
	if action.Kind == resize.Adopt {
		record = resize.Advance(record, action, d.view.Now)
		d.out.Status.Tries = resize.Accepted(d.out.Status.Tries, record)
		state, action = d.assess(pod, record)
	}
	if action.Kind == resize.Pause {
		d.wake(action.RequeueAfter)
		d.out.Status.Records = append(d.out.Status.Records, record)
		return
	}
	if d.leftForLater(record, state) || d.unsure(record, action, state) {
		d.out.Status.Records = append(d.out.Status.Records, record)
		return
	}
	d.learnOfNode(pod, record, action, state)
	d.reverter.noteTries(record, action, state)
	d.lookup.live(pod, record, action)
	d.perform(pod, record, action, state)
}

// assess is what a pod shows of its record, and what is to be done about that.
func (d *watcher) assess(pod *corev1.Pod, record v1alpha1.ResizeRecord) (resize.State, resize.Action) {
	state := harm.Assess(pod, record, d.view.capabilitiesOn(record.Node), d.view.Now, d.view.Policy.Settings.Resize, d.view.signals(record))
	return state, resize.Next(state, record, d.view.Policy.Settings.Resize, d.circumstances(pod, record), d.view.Now)
}

// circumstances of a record, beside what its pod shows.
func (d *watcher) circumstances(pod *corev1.Pod, record v1alpha1.ResizeRecord) resize.Circumstances {
	c := resize.Circumstances{Orphaned: d.view.orphaned(), Tries: d.out.Status.Tries}
	_, c.Undo = d.undoing()
	if resize.PuttingBack(record) {
		c.Pause = d.reverter.pause(record)
		_, asked := d.view.Past.AskedAt[record.PodUID]
		c.Untried = !asked && d.reverter.canPutBack(pod, record)
	}
	return c
}

// perform carries out an action on the decision: what needs the pod becomes a write.
func (d *watcher) perform(pod *corev1.Pod, record v1alpha1.ResizeRecord, action resize.Action, state resize.State) {
	d.out.Due = d.out.Due || !slices.Contains([]resize.ActionKind{resize.Wait, resize.MarkVerified, resize.Adopt}, action.Kind)
	next := resize.Advance(record, action, d.view.Now)
	if state.Kind == resize.Harmed {
		d.harmed(record, action, state.Verdict)
	}
	switch action.Kind {
	case resize.Forget:
		d.closing.close(next, action)
		return
	case resize.Evict:
		d.wake(action.RequeueAfter)
		if resize.Leaving(record) {
			d.evictor.finishEviction(pod, record, next, action)
			return
		}
		d.evictor.evict(pod, record, next, action)
		return
	case resize.Revert, resize.Withdraw:
		if record.Phase != next.Phase && state.Kind != resize.Harmed {
			d.tellOf(record, takingBack(record, action))
		}
		if !d.reverter.putBackAsFar(pod, record, next) {
			action.RequeueAfter = lookAgain
		}
	case resize.SendRest:
		d.out.Writes = append(d.out.Writes, Write{Pod: pod, Plan: resize.RestPlan(pod, next)})
	case resize.StartWatch:
		d.succeeded(next, state)
	case resize.Wait:
		d.reverter.waitsToBePutBack(record, action, state)
		d.evictor.denied(pod, record)
	}
	d.wake(action.RequeueAfter)
	d.out.Status.Records = append(d.out.Status.Records, next)
}

// harmed learns from harm, once: the record is put back or closed with it.
func (d *watcher) harmed(record v1alpha1.ResizeRecord, action resize.Action, verdict resize.Verdict) {
	d.hurt = append(d.hurt, record)
	d.out.Status.Floors = harm.LearnHarm(d.out.Status.Floors, verdict, record, d.view.Now)
	d.out.Status.Kept = harm.Unkeep(d.out.Status.Kept, record)
	d.births.markSeedOf(record, verdict)
	if action.Kind != resize.Revert {
		d.tellOf(record, harmNotReverted(record, d.whyKept(record), action))
		return
	}
	d.out.Status.Backoff = resize.MoreBackoff(d.out.Status.Backoff, record, d.view.Now)
	d.tellOf(record, reverting(record, action))
	d.count(countReverted, record, action.Reason)
}

// whyKept is why harm is only reported and learned from.
func (d *watcher) whyKept(record v1alpha1.ResizeRecord) string {
	switch {
	case record.Wave == resize.WaveUndo:
		return "a person asked for this size"
	case !d.view.Policy.Settings.Resize.AutoRevert:
		return "autoRevert is off"
	}
	return "nothing would do good if it were put back"
}

func (d *watcher) succeeded(record v1alpha1.ResizeRecord, state resize.State) {
	drift := ""
	if state.Drift {
		drift = state.Message
	}
	if changed := changedBy(resize.HistoryRows(d.view.Rec.Spec.Workload.Name, record, resize.ResultSuccess, "", d.view.Now)); changed != "" {
		d.tellOf(record, resized(record, changed, drift))
	}
	d.count(countSuccess, record, "")
	d.out.Counts = append(d.out.Counts, tookOf(record)...)
}

// changedBy is what history rows of one pod say, in one sentence.
func changedBy(rows []v1alpha1.HistoryEntry) string {
	parts := make([]string, 0, len(rows))
	for _, row := range rows {
		parts = append(parts, fmt.Sprintf("%s of container %s %s -> %s", row.Resource, row.Container, row.From, row.To))
	}
	return strings.Join(parts, "; ")
}

// learn takes floors from every OOM kill that the workload's pods show, whether or not they were ever
// resized: the next seed and the siblings are raised too, and what killed is not kept.
func (d *watcher) learn() {
	for _, pod := range d.view.Pods {
		if d.tooLarge(pod) {
			continue
		}
		d.out.Status.Floors = harm.LearnKills(d.out.Status.Floors, pod, d.out.Status.Records, d.view.Now)
	}
	d.out.Status.Kept = harm.KeptAbove(d.out.Status.Floors, d.out.Status.Kept, d.view.Now)
}

// unsure: an action needs the pod as the API server has it, and that could not be read. What has done harm is taken
// back all the same, and so is what is on its way back already.
func (d *watcher) unsure(record v1alpha1.ResizeRecord, action resize.Action, state resize.State) bool {
	return d.view.Looked.Unread.Pods[record.PodUID] != nil && state.Kind != resize.Harmed && !action.PutsBackAgain(record) && needsLivePod(action)
}

// leftForLater: the end of a record's watch is judged in the whole pass, by what a source measured of the pod.
func (d *watcher) leftForLater(record v1alpha1.ResizeRecord, state resize.State) bool {
	judged := state.Kind == resize.Settled || state.Kind == resize.Watching
	return d.view.Part != WholePass && judged && d.view.WatchEnded(record)
}

// learnOfNode notes what a record says of its node that did not carry it out. A record is believed only of the node that
// its pod is on: whoever writes records must not have nodes blocked that the workload has nothing to do with.
func (d *watcher) learnOfNode(pod *corev1.Pod, record v1alpha1.ResizeRecord, action resize.Action, state resize.State) {
	if fails(record, action) && isOn(pod, record.Node) {
		d.out.Lessons = append(d.out.Lessons, Lesson{d.view.Rec.Namespace, record, action.Reason, state.Message})
	}
}

func isOn(pod *corev1.Pod, node string) bool { return pod != nil && pod.Spec.NodeName == node }
