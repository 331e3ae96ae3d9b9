package workload

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// decision is what one pass comes to: the status to store, then the resizes to send, and what to tell.
type decision struct {
	status v1alpha1.AttuneRecommendationStatus
	writes []write
	events []event.Event
	counts []count
	// after is when to look again if nothing happens before; 0: only when something does.
	after time.Duration

	// evictions are pods whose records say that they are being evicted; evictionCounts what became of others.
	evictions      []*corev1.Pod
	evictionCounts []resize.EvictionOutcome
	// pending are pods that are to have their old size back and do not get it, as sentences.
	pending []string
	// moving is the pod that is resized although its node seems to have no room; empty: none.
	moving types.UID

	// asks are what it rests on without having looked.
	asks questions
	// lessons are what records say of their nodes.
	lessons []lesson
	// held are the pods that their nodes are to count as they are, and why (strategy Node).
	held map[types.UID]string
	// stays are the pods that may not be evicted whatever their nodes want, and why (strategy Node).
	stays map[types.UID]string
	// refused are why pods are not resized.
	refused refusals
	// promised is what the resizes that begin take of the namespace's quotas, promisedOn of each node.
	promised   recommender.Size
	promisedOn map[string]recommender.Size
	// ready is the number of ready pods, nil before it is asked for.
	ready *int
}

// write is one resize. Its record is stored before it is sent.
type write struct {
	pod  *corev1.Pod
	plan resize.Plan
}

// decide is the pass as a pure function: what open records come to first, reverts before anything new.
func decide(w world) decision {
	d := decision{status: *w.rec.Status.DeepCopy()}
	d.inOurTime(w)
	d.goneOrNot(w)
	d.resume(w)
	d.takeOver(w)
	d.learn(w)
	d.rememberOriginals(w)
	d.judgeBirths(w)
	d.advance(w)
	blocked := d.undo(w)
	if blocked == nil {
		blocked = d.begin(w)
	}
	d.hold(w)
	d.summarise(w, blocked)
	return d
}

// inOurTime takes what another replica wrote, with a clock that is ahead, as written just now.
func (d *decision) inOurTime(w world) {
	for i, record := range d.status.Records {
		d.status.Records[i] = resize.InOurTime(record, w.now)
	}
	d.status.CooldownFrom = resize.NotAhead(d.status.CooldownFrom, w.now)
}

// advance takes every open record one step.
func (d *decision) advance(w world) {
	records := d.status.Records
	d.status.Records = nil
	for _, record := range records {
		pod := w.pod(record.PodUID)
		state := resize.Assess(pod, record, w.now)
		state = state.With(resize.Judge(pod, record, w.now, w.settings.Resize, w.signals(record)))
		action := d.overrule(w, state, record, resize.Next(state, record, w.settings.Resize, w.now))
		if left := w.untilNextTry(record, action); left > 0 {
			d.wake(left)
			d.status.Records = append(d.status.Records, record)
			continue
		}
		d.learnOfNode(record, action, state)
		d.askLive(w, pod, action)
		d.perform(w, pod, record, action, state)
	}
}

// perform carries out an action on the decision: what needs the pod becomes a write.
func (d *decision) perform(w world, pod *corev1.Pod, record v1alpha1.ResizeRecord, action resize.Action, state resize.State) {
	d.wake(action.RequeueAfter)
	next := resize.Advance(record, action, w.now)
	if state.Kind == resize.Harmed {
		d.harmed(w, record, action, state.Verdict)
	}
	switch action.Kind {
	case resize.Forget:
		d.close(w, next, action)
		return
	case resize.Evict:
		if resize.Leaving(record) {
			d.leave(w, pod, record, next, action)
			return
		}
		d.evict(w, pod, record, next, action)
		return
	case resize.Revert, resize.Withdraw:
		if record.Phase != next.Phase && state.Kind != resize.Harmed {
			d.tell(event.Warning(v1alpha1.EventResizeFailed, "Taking back the resize of pod %s: %s: %s", record.PodName, action.Reason, action.Message))
		}
		d.putBackAsFar(w, pod, next)
	case resize.SendRest:
		d.writes = append(d.writes, write{pod, resize.RestPlan(pod, next)})
	case resize.StartWatch:
		d.succeeded(w, next)
	case resize.Wait:
		d.waitsToBePutBack(record, action)
		d.denied(pod, record)
	}
	d.status.Records = append(d.status.Records, next)
}

// harmed learns from harm, once: the record is put back or closed with it.
func (d *decision) harmed(w world, record v1alpha1.ResizeRecord, action resize.Action, verdict resize.Verdict) {
	d.status.Floors = resize.LearnHarm(d.status.Floors, verdict, record, w.now)
	d.status.Kept = resize.Unkeep(d.status.Kept, record)
	d.markSeedOf(record, verdict, w)
	if action.Kind != resize.Revert {
		d.tell(event.Warning(v1alpha1.EventResizeFailed, "The resize of pod %s did harm and is not taken back (%s): %s: %s",
			record.PodName, whyKept(w, record), action.Reason, action.Message))
		return
	}
	d.status.Backoff = resize.MoreBackoff(d.status.Backoff, w.now)
	d.tell(event.Warning(v1alpha1.EventReverted, "Reverting the resize of pod %s: %s: %s", record.PodName, action.Reason, action.Message))
	d.count("reverted", record, action.Reason)
}

// whyKept is why harm is only reported and learned from.
func whyKept(w world, record v1alpha1.ResizeRecord) string {
	switch {
	case record.Wave == resize.WaveUndo:
		return "a person asked for this size"
	case !w.settings.Resize.AutoRevert:
		return "autoRevert is off"
	}
	return "nothing would do good if it were put back"
}

// close ends a record: its rows go to the history, a survived size is kept.
func (d *decision) close(w world, record v1alpha1.ResizeRecord, action resize.Action) {
	rows := resize.HistoryRows(w.rec.Spec.Workload.Name, record, action.Result, action.Reason, w.now)
	d.status.History = resize.AddHistory(d.status.History, rows)
	d.survived(record, action)
	if action.Keep {
		if !w.byNode() {
			d.status.Kept = resize.Keep(d.status.Kept, record, w.now)
		}
		d.status.Backoff = nil
	}
	if action.Result == resize.ResultUndone {
		d.putBackDone(w, record)
	}
	if action.Result == resize.ResultEvicted {
		d.evicted(w, record)
	}
	if action.Result == resize.ResultSuperseded {
		d.supersede(w, record.PodName)
	}
	birth := record.Wave == resize.WaveBoost && action.Result == resize.ResultSuccess
	if len(rows) > 0 && !birth && (!w.byNode() || d.status.Backoff != nil) && resize.CoolsDown(record, action, w.settings.Resize) {
		d.status.CooldownFrom = &metav1.Time{Time: w.now}
	}
}

// survived tells what the end of a watch left open.
func (d *decision) survived(record v1alpha1.ResizeRecord, action resize.Action) {
	tell := event.Normal
	if action.Alert {
		tell = event.Warning
	}
	if action.Result == resize.ResultSuccess && action.Message != "" {
		d.tell(tell(v1alpha1.EventResized, "The watch of pod %s is over: %s", record.PodName, action.Message))
	}
}

func (d *decision) succeeded(w world, record v1alpha1.ResizeRecord) {
	for _, row := range resize.HistoryRows(w.rec.Spec.Workload.Name, record, resize.ResultSuccess, "", w.now) {
		d.tell(event.Normal(v1alpha1.EventResized, "Resized %s %s/%s: %s -> %s; watching it", row.Resource, record.PodName, row.Container, row.From, row.To))
	}
	d.count("success", record, "")
	d.counts = append(d.counts, tookOf(record)...)
}

// learn takes floors from every OOM kill that the workload's pods show, whether or not they were ever
// resized: the next seed and the siblings are raised too.
func (d *decision) learn(w world) {
	for _, pod := range w.pods {
		d.status.Floors = resize.LearnKills(d.status.Floors, pod, d.status.Records, w.now)
	}
}

// rememberOriginals notes what the pods of each template had before attune.
func (d *decision) rememberOriginals(w world) {
	for _, pod := range w.pods {
		hash := resize.TemplateHash(pod)
		known := slices.ContainsFunc(d.status.Originals, func(o v1alpha1.Originals) bool { return o.TemplateHash == hash })
		if known || hasRecord(d.status.Records, pod) {
			continue
		}
		d.status.Originals = append(d.status.Originals, v1alpha1.Originals{TemplateHash: hash, Since: &metav1.Time{Time: w.now}, Containers: originals(w, pod)})
	}
	d.status.Originals = d.status.Originals[max(0, len(d.status.Originals)-v1alpha1.MaxOriginals):]
}

func hasRecord(records []v1alpha1.ResizeRecord, pod *corev1.Pod) bool {
	return slices.ContainsFunc(records, func(r v1alpha1.ResizeRecord) bool { return r.PodUID == pod.UID })
}

// wake asks for another look after a while.
func (d *decision) wake(after time.Duration) {
	if after > 0 && (d.after == 0 || after < d.after) {
		d.after = after
	}
}

func (d *decision) tell(e event.Event) { d.events = append(d.events, e) }

func (d *decision) count(result string, record v1alpha1.ResizeRecord, reason string) {
	d.counts = append(d.counts, countsOf(result, record, reason)...)
}

// summarise sets the phase and the conditions.
func (d *decision) summarise(w world, blocked *resize.Refusal) {
	d.status.Phase = d.phase(w)
	d.wakeFor(w)
	for _, c := range []metav1.Condition{d.resizing(), d.degraded(), blockedCondition(blocked)} {
		c.ObservedGeneration = w.rec.Generation
		meta.SetStatusCondition(&d.status.Conditions, c)
	}
	d.status.Pods = &v1alpha1.PodCounts{Total: int32(len(w.live())), AtTarget: atTarget(w), Open: int32(len(d.status.Records))}
}

// wakeFor looks again when what blocks may be over.
func (d *decision) wakeFor(w world) {
	d.wake(resize.CooldownLeft(d.status.CooldownFrom, d.status.Backoff, w.settings.Resize, w.now))
	d.wake(d.refused.after(w.now))
	if w.noRights != "" {
		d.wake(rightsLost)
	}
}

func (d *decision) phase(w world) v1alpha1.RecommendationPhase {
	phase := v1alpha1.PhaseIdle
	for _, r := range d.status.Records {
		switch r.Phase {
		case v1alpha1.RecordReverting, v1alpha1.RecordWithdrawing:
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
	case d.status.Paused != nil || len(w.settings.Resize.Paused) > 0 || w.workload != nil && w.workload.Stopped():
		return v1alpha1.PhasePaused
	case resize.CooldownLeft(d.status.CooldownFrom, d.status.Backoff, w.settings.Resize, w.now) > 0:
		return v1alpha1.PhaseCooldown
	}
	return phase
}

func (d *decision) resizing() metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionResizing, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonIdle}
	switch {
	case len(d.status.Records) > 0:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonInProgress
	case d.status.Phase == v1alpha1.PhaseCooldown:
		c.Reason = v1alpha1.ReasonCooldownActive
	}
	return c
}

func (d *decision) degraded() metav1.Condition {
	if len(d.pending) > 0 {
		return metav1.Condition{
			Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRevertPending, Message: d.pending[0],
		}
	}
	if resize.Degraded(d.status.History) {
		return metav1.Condition{
			Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHighRevertRate,
			Message: "3 or more of the last 5 resizes were reverted: raise overhead or minAllowed",
		}
	}
	return metav1.Condition{Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonHealthy}
}

func blockedCondition(blocked *resize.Refusal) metav1.Condition {
	if blocked == nil {
		return metav1.Condition{Type: v1alpha1.ConditionResizeBlocked, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotBlocked}
	}
	return metav1.Condition{
		Type: v1alpha1.ConditionResizeBlocked, Status: metav1.ConditionTrue, Reason: blocked.Reason, Message: blocked.Message,
	}
}

// atTarget counts the pods whose every container has what it would be given.
func atTarget(w world) int32 {
	var n int32
	for _, pod := range w.live() {
		if plan, _ := resize.PlanFor(pod, targets(w, pod), w.capabilities(pod), w.now); plan.Empty() {
			n++
		}
	}
	return n
}

// targets are the sizes that a pod's containers are heading to, without the resources that are held.
func targets(w world, pod *corev1.Pod) []resize.Container {
	if w.byNode() {
		return w.grantedTo(pod)
	}
	var out []resize.Container
	for _, t := range w.rec.Spec.Containers {
		if size := unheld(t); size != (recommender.Size{}) {
			out = append(out, resize.Container{Name: t.Name, Size: size})
		}
	}
	return out
}

// unheld is a target without the resources that are held.
func unheld(t v1alpha1.ContainerTarget) recommender.Size {
	size := resize.FromResources(t.Target)
	for _, r := range recommender.Resources {
		if slices.ContainsFunc(t.Holds, func(h v1alpha1.Hold) bool { return h.Resource == r.String() }) {
			size[r] = recommender.Allocation{}
		}
	}
	return size
}
