package tuning

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
)

// watcher advances every record: its pod is observed, verified, reverted or evicted, or the record is closed.
// harm.Assess assesses the pod, and only lifecycle.Next chooses the action, so that a step after a crash is the same
// as before it.
type watcher struct {
	*pass
	closing  *closing
	climber  *climber
	evictor  *evictor
	reverter *reverter
	// hurt are the records whose pods showed a regression in this reconcile. storeVerifiedSizes reads them, so that a size
	// that harmed one pod is not verified because another pod survived it.
	hurt []v1alpha1.ResizeRecord
}

// advance advances every record. It empties the list first: each step appends its record again unless it is closed.
// In between, the list has only the records that were already advanced.
func (d *watcher) advance() {
	records := d.out.Status.Records
	d.out.Status.Records = nil
	for _, record := range records {
		d.step(record)
	}
	d.storeVerifiedSizes()
}

// storeVerifiedSizes stores the verified sizes (status.verified), after all records are advanced: a size that harmed a
// sibling is not stored, whichever of the two records comes first. A success without any regression in the reconcile
// ends the backoff.
func (d *watcher) storeVerifiedSizes() {
	for _, record := range d.closing.survivors {
		if !d.view.ByNode() {
			d.out.Status.Verified = harm.AddVerified(d.out.Status.Verified, record, d.out.Status.Floors, d.view.Now)
		}
		if len(d.hurt) == 0 && lifecycle.EndsBackoff(d.out.Status.Backoff, record) {
			d.out.Status.Backoff = nil
		}
	}
	for _, record := range d.out.Status.Records {
		if record.Phase == v1alpha1.RecordReverting {
			d.out.Status.Verified = harm.DropVerified(d.out.Status.Verified, record)
		}
	}
	for _, record := range d.hurt {
		d.out.Status.Verified = harm.DropVerified(d.out.Status.Verified, record)
	}
}

// step advances one record. If the API server's answer was lost (Adopt) and the pod shows that its resize was
// accepted, the record is updated first and assessed again. A record stays as it is if it is in backoff (Pause), if
// only the whole reconcile can assess it, or if its pod could not be read.
func (d *watcher) step(record v1alpha1.ResizeRecord) {
	pod := d.view.Pod(record.PodUID)
	state, action := d.assess(pod, record)
	if action.Kind == lifecycle.Adopt {
		record = lifecycle.Advance(record, action, d.view.Now)
		d.out.Status.Tries = resize.Accepted(d.out.Status.Tries, record)
		state, action = d.assess(pod, record)
	}
	if action.Kind == lifecycle.Pause {
		d.requeueAfter(action.RequeueAfter)
		d.out.Status.Records = append(d.out.Status.Records, record)
		return
	}
	if d.leftForLater(record, state) || d.unsure(record, action, state) {
		d.out.Status.Records = append(d.out.Status.Records, record)
		return
	}
	d.learnOfNode(pod, record, action, state)
	d.reverter.noteTries(record, action, state)
	d.askLive(pod, record, action)
	d.applyAction(pod, record, action, state)
}

// assess returns the state of a record's pod (nil pod: deleted), and the next action.
func (d *watcher) assess(pod *corev1.Pod, record v1alpha1.ResizeRecord) (lifecycle.State, lifecycle.Action) {
	state := harm.Assess(pod, record, d.view.capabilitiesOn(record.Node), d.view.Now, d.view.Policy.Settings.Resize, d.view.signals(record))
	return state, lifecycle.Next(state, record, d.view.Policy.Settings.Resize, d.circumstances(pod, record), d.view.Now)
}

// circumstances returns the inputs of lifecycle.Next that do not come from the pod: a deleted policy or workload, an
// undo, a raise before an OOM kill or the end of its spike, and the backoff of a revert.
func (d *watcher) circumstances(pod *corev1.Pod, record v1alpha1.ResizeRecord) lifecycle.Circumstances {
	c := lifecycle.Circumstances{Orphaned: d.view.orphaned(), Tries: d.out.Status.Tries}
	_, c.Undo = d.undoing()
	c.Climbs, c.Spike = d.climber.circumstances(pod, record)
	if resize.PuttingBack(record) {
		c.Pause = d.reverter.backoffBeforeRevert(record)
		_, asked := d.view.Past.AskedAt[record.PodUID]
		c.Untried = !asked && d.reverter.canPutBack(pod, record)
	}
	return c
}

// applyAction applies an action to the decision. Calls to the API server become writes or evictions. Regressions are
// learned first, whatever the action is: one that is not reverted also raises floors. Due stays false for steps that
// every reconcile can derive again from the pod; they are stored with the next write.
func (d *watcher) applyAction(pod *corev1.Pod, record v1alpha1.ResizeRecord, action lifecycle.Action, state lifecycle.State) {
	d.out.Due = d.out.Due || !slices.Contains([]lifecycle.ActionKind{lifecycle.Wait, lifecycle.MarkVerified, lifecycle.Adopt}, action.Kind)
	next := lifecycle.Advance(record, action, d.view.Now)
	if state.Kind == lifecycle.Harmed {
		d.learnFromRegression(record, action, state.Verdict)
	}
	switch action.Kind {
	case lifecycle.Forget:
		d.closing.closeRecord(next, action)
		return
	case lifecycle.Evict:
		d.requeueAfter(action.RequeueAfter)
		if lifecycle.Leaving(record) {
			d.evictor.finishEviction(pod, record, next, action)
			return
		}
		d.evictor.evict(pod, record, next, action)
		return
	case lifecycle.Revert, lifecycle.Withdraw:
		if record.Phase != next.Phase && state.Kind != lifecycle.Harmed {
			d.tellOf(record, event.Warning(v1alpha1.EventResizeFailed, "Reverting the failed resize of pod %s: %s: %s", record.PodName, action.Reason, action.Message))
		}
		if !d.reverter.putBackAsFar(pod, record, next) {
			action.RequeueAfter = lookAgain
		}
	case lifecycle.SendRest:
		d.out.Writes = append(d.out.Writes, Write{Pod: pod, Plan: lifecycle.RestPlan(pod, next)})
	case lifecycle.StartWatch:
		d.reportVerified(next, state)
	case lifecycle.Wait:
		d.reverter.waitsToBePutBack(record, action, state)
		d.evictor.denied(pod, record)
	}
	d.requeueAfter(action.RequeueAfter)
	d.out.Status.Records = append(d.out.Status.Records, next)
}

// learnFromRegression learns from a regression: floors, dropped verified sizes, a bad seed, a longer backoff. It runs
// once per record, because the record is reverted or closed in the same reconcile. A regression that is not reverted is
// reported with the reason (whyKept).
func (d *watcher) learnFromRegression(record v1alpha1.ResizeRecord, action lifecycle.Action, verdict resize.Verdict) {
	d.hurt = append(d.hurt, record)
	d.out.Status.Floors = harm.LearnHarm(d.out.Status.Floors, verdict, record, d.view.Now)
	d.out.Status.Verified = harm.DropVerified(d.out.Status.Verified, record)
	// Without this, the revert fixes one pod while each new replica is created with the same size.
	if seed := d.view.Rec.Spec.Seed; harm.HarmsNewborn(seed, record) {
		d.markBad(seed.Revision, record, verdict)
	}
	if action.Kind != lifecycle.Revert {
		d.tellOf(record, event.Warning(v1alpha1.EventResizeFailed, "The resize of pod %s caused a regression and is not reverted (%s): %s: %s",
			record.PodName, d.whyKept(record), action.Reason, action.Message))
		return
	}
	d.out.Status.Backoff = lifecycle.MoreBackoff(d.out.Status.Backoff, record, d.view.Now)
	d.tellOf(record, event.Warning(v1alpha1.EventReverted, "Reverting the resize of pod %s: %s: %s", record.PodName, action.Reason, action.Message))
	d.count(countReverted, record, action.Reason)
}

// whyKept explains why a regression is reported and learned from, but not reverted.
func (d *watcher) whyKept(record v1alpha1.ResizeRecord) string {
	switch {
	case record.Wave == resize.WaveUndo:
		return "a user requested these resources"
	case !d.view.Policy.Settings.Resize.AutoRevert:
		return "autoRevert is false"
	}
	return "no previous amount would help"
}

// reportVerified reports a verified resize whose observation begins, and any difference from the wanted size
// (State.Drift).
func (d *watcher) reportVerified(record v1alpha1.ResizeRecord, state lifecycle.State) {
	var parts []string
	for _, row := range lifecycle.HistoryRows(d.view.Rec.Spec.Workload.Name, record, lifecycle.ResultSuccess, "", d.view.Now) {
		parts = append(parts, fmt.Sprintf("%s of container %s %s -> %s", row.Resource, row.Container, row.From, row.To))
	}
	switch changed := strings.Join(parts, "; "); {
	case changed == "":
	case state.Drift:
		d.tellOf(record, event.Warning(v1alpha1.EventResized, "Resized pod %s: %s, but %s; observing it", record.PodName, changed, state.Message))
	default:
		d.tellOf(record, event.Normal(v1alpha1.EventResized, "Resized pod %s: %s; observing it", record.PodName, changed))
	}
	if !state.Drift { // the metrics count only amounts that the runtime reports
		d.count(countSuccess, record, "")
		d.out.Counts = append(d.out.Counts, tookOf(record)...)
	}
}

// readEnds replaces pods of the view by copies with corrected reasons of their terminations (harm.ReadEnds), and reports
// each OOM kill of a node once.
func (d *watcher) readEnds() {
	nothing := func(f v1alpha1.Floor) bool { return f.Amount.IsZero() } // an earlier kill of the node
	if len(d.view.Usage.Ends) == 0 && !slices.ContainsFunc(d.out.Status.Floors, nothing) {
		return
	}
	d.view.Pods = slices.Clone(d.view.Pods)
	for i, pod := range d.view.Pods {
		if d.tooLarge(pod) || !anyContainerTerminated(pod) {
			continue
		}
		ends := harm.Ends{Facts: d.view.Usage.Ends, Node: d.view.Nodes[pod.Spec.NodeName].Node, Records: d.out.Status.Records, Originals: d.before(pod)}
		read, floors, messages, unsure := harm.ReadEnds(pod, d.out.Status.Floors, ends, d.view.Now)
		d.view.Pods[i], d.out.Status.Floors = read, floors
		for _, message := range messages {
			d.tellOfPod(pod, event.Warning(v1alpha1.EventNodeOOM, "%s", message))
		}
		if unsure {
			d.requeueAfter(harm.NodeKillWithin)
		}
	}
}

// learnOOMFloors learns floors from every OOM kill that the workload's pods show, also of pods that were never resized.
// So siblings and the next seed are raised too, and a size that was killed does not stay verified.
func (d *watcher) learnOOMFloors() {
	for _, pod := range d.view.Pods {
		if d.tooLarge(pod) || !Killed(pod) {
			continue
		}
		d.out.Status.Floors = harm.LearnKills(d.out.Status.Floors, pod, d.out.Status.Records, d.before(pod), d.view.Now)
	}
	d.out.Status.Verified = harm.DropBelowFloors(d.out.Status.Floors, d.out.Status.Verified, d.view.Now)
}

// before returns the original resources of a pod's containers by name: from the stored generation, or from the
// template.
func (d *watcher) before(pod *corev1.Pod) map[string]recommender.Size {
	sizes := d.originalsOf(pod)
	for _, c := range podview.Resizable(pod) {
		if size, ok := podview.TemplateSize(d.view.owner().Template, c.Name); ok && sizes[c.Name] == (recommender.Size{}) {
			sizes[c.Name] = size
		}
	}
	return sizes
}

// unsure reports that an action needs the pod from the API server, and that it could not be read. Regressions are
// reverted anyway, and reverts in progress continue: waiting would be worse than an unnecessary patch.
func (d *watcher) unsure(record v1alpha1.ResizeRecord, action lifecycle.Action, state lifecycle.State) bool {
	return d.view.Looked.Unread.Pods[record.PodUID] != nil && state.Kind != lifecycle.Harmed && !action.PutsBackAgain(record) && needsLivePod(action)
}

// leftForLater reports that only the whole reconcile assesses the end of a record's observation, because it has the
// measurements of a usage source.
func (d *watcher) leftForLater(record v1alpha1.ResizeRecord, state lifecycle.State) bool {
	judged := state.Kind == lifecycle.Settled || state.Kind == lifecycle.Watching
	return d.view.Part != WholePass && judged && d.view.WatchEnded(record)
}

// learnOfNode stores a node limitation if the node did not carry out a record's resize. A record counts only for its
// pod's current node: a user who can write records must not be able to block other nodes.
func (d *watcher) learnOfNode(pod *corev1.Pod, record v1alpha1.ResizeRecord, action lifecycle.Action, state lifecycle.State) {
	if fails(record, action) && pod != nil && pod.Spec.NodeName == record.Node {
		d.out.Lessons = append(d.out.Lessons, Lesson{d.view.Rec.Namespace, record, action.Reason, state.Message})
	}
}
