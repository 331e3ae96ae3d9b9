package workload

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/policy"
	"attune.io/attune/internal/workload"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// decision is what one pass comes to: the status to store, then the resizes to send, and what to tell.
type decision struct {
	status v1alpha1.AttuneRecommendationStatus
	writes []write
	events []told
	counts []count
	// begins is how many of the writes are new and answer no OOM kill.
	begins int
	// turns are taken of what may begin now in all workloads; those of writes that are not sent are given back.
	turns int
	// due: a record was taken a step that is to be stored now.
	due bool
	// after is when to look again if nothing happens before; 0: only when something does.
	after time.Duration

	// evictions are pods whose records say that they are being evicted; evictionCounts what became of others.
	evictions      []*corev1.Pod
	evictionCounts []resize.EvictionOutcome
	// pending are pods that are to have their old size back and do not get it, as sentences.
	pending []string
	// moving is the pod that is resized although its node seems to have no room; empty: none.
	moving types.UID

	// survivors are records whose pods were well to the end of their watch, hurt those that harmed theirs.
	survivors, hurt []v1alpha1.ResizeRecord

	// crashed are pods that crash since their births.
	crashed []crash

	// asks are what it rests on without having looked.
	asks questions
	// lessons are what records say of their nodes.
	lessons []lesson
	// waits is since when pods wait for their turn to be resized (strategy Node).
	waits map[types.UID]time.Time
	// held are the pods that their nodes are to freeze, and why (strategy Node).
	held map[types.UID]string
	// stays are the pods that may not be evicted whatever their nodes want, and why (strategy Node).
	stays map[types.UID]string
	// refused are why pods are not resized.
	refused refusals
	// promised is what the resizes that begin take of the namespace's quotas, promisedOn of each node.
	promised   recommender.Size
	promisedOn map[string]recommender.Size
	// other is what the object takes without its records, 0 before it is asked for.
	other int
	// ready is the number of ready pods, nil before it is asked for.
	ready *int
}

// told is an event about a pod, or about the workload as a whole where it names none.
type told struct {
	event.Event
	pod types.UID
	// name of the pod.
	name string
}

// write is one resize. Its record is stored before it is sent.
type write struct {
	pod  *corev1.Pod
	plan resize.Plan
	// begins: it is new and answers no OOM kill.
	begins bool
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
	switch {
	case w.part == urgentPart:
		d.beginUrgent(w)
	case w.part == wholePass && w.full > 0:
		d.wake(w.full)
	case w.part == wholePass:
		blocked := d.beginOrUndo(w)
		d.skip(blocked)
		d.block(w, blocked)
		d.hold(w)
	}
	d.remember(w)
	d.summarise(w)
	return d
}

// beginOrUndo begins what is new, or undoes. It returns why pods are not resized, or nil.
func (d *decision) beginOrUndo(w world) *resize.Refusal {
	if w.closed != nil && w.sizesPods() {
		return w.closed
	}
	if undone := d.undo(w); undone != nil {
		return undone
	}
	return d.begin(w)
}

// inOurTime takes what another replica wrote, with a clock that is ahead, as written just now.
func (d *decision) inOurTime(w world) {
	for i, record := range d.status.Records {
		d.status.Records[i] = resize.InOurTime(record, w.now)
	}
	d.status.CooldownFrom, d.status.GoneSince = resize.NotAhead(d.status.CooldownFrom, w.now), resize.NotAhead(d.status.GoneSince, w.now)
	if p := d.status.Paused; p != nil {
		p.Since = *resize.NotAhead(&p.Since, w.now)
	}
	if b := d.status.Backoff; b != nil {
		b.Since = *resize.NotAhead(&b.Since, w.now)
	}
	d.status.Tries = resize.TriesInOurTime(d.status.Tries, w.now)
}

// advance takes every open record one step.
func (d *decision) advance(w world) {
	records := d.status.Records
	d.status.Records = nil
	for _, record := range records {
		d.step(w, record)
	}
	d.keep(w)
}

// keep takes what pods survived for good, after all records were looked at: what harmed a sibling is not, whichever
// of the two comes first.
func (d *decision) keep(w world) {
	for _, record := range d.survivors {
		if !w.byNode() {
			d.status.Kept = resize.Keep(d.status.Kept, record, d.status.Floors, w.now)
		}
		if len(d.hurt) == 0 && resize.EndsBackoff(d.status.Backoff, record) {
			d.status.Backoff = nil
		}
	}
	for _, record := range d.status.Records {
		if record.Phase == v1alpha1.RecordReverting {
			d.status.Kept = resize.Unkeep(d.status.Kept, record)
		}
	}
	for _, record := range d.hurt {
		d.status.Kept = resize.Unkeep(d.status.Kept, record)
	}
}

// step takes an open record one step. One whose answer was lost is first told what it was.
func (d *decision) step(w world, record v1alpha1.ResizeRecord) {
	pod := w.pod(record.PodUID)
	state, action := d.assess(w, pod, record)
	if action.Kind == resize.Adopt {
		record = resize.Advance(record, action, w.now)
		d.status.Tries = resize.Accepted(d.status.Tries, record)
		state, action = d.assess(w, pod, record)
	}
	left := w.untilNextTry(record, action)
	if d.wake(left); left > 0 || w.leftForLater(record, state) || w.unsure(record, action, state) {
		d.status.Records = append(d.status.Records, record)
		return
	}
	d.learnOfNode(w, pod, record, action, state)
	d.noteTries(w, record, action, state)
	d.askLive(w, pod, record, action)
	d.perform(w, pod, record, action, state)
}

// assess is what a pod shows of its record, and what is to be done about that.
func (d *decision) assess(w world, pod *corev1.Pod, record v1alpha1.ResizeRecord) (resize.State, resize.Action) {
	state := resize.Assess(pod, record, w.capabilitiesOn(record.Node), w.now)
	state = state.With(resize.Judge(pod, record, w.now, w.settings.Resize, w.signals(record)))
	action := d.overrule(w, state, record, resize.Next(state, record, w.settings.Resize, w.now))
	end := resize.InVain(state, record, action, d.status.Tries, w.orphaned(), w.now)
	if _, asked := w.tried[record.PodUID]; end.Kind == resize.Forget && !asked && d.canPutBack(w, pod, record, action) {
		return state, action
	}
	return state, end
}

// perform carries out an action on the decision: what needs the pod becomes a write.
func (d *decision) perform(w world, pod *corev1.Pod, record v1alpha1.ResizeRecord, action resize.Action, state resize.State) {
	d.due = d.due || !slices.Contains([]resize.ActionKind{resize.Wait, resize.MarkVerified, resize.Adopt}, action.Kind)
	next := resize.Advance(record, action, w.now)
	if state.Kind == resize.Harmed {
		d.harmed(w, record, action, state.Verdict)
	}
	switch action.Kind {
	case resize.Forget:
		d.close(w, next, action)
		return
	case resize.Evict:
		d.wake(action.RequeueAfter)
		if resize.Leaving(record) {
			d.leave(w, pod, record, next, action)
			return
		}
		d.evict(w, pod, record, next, action)
		return
	case resize.Revert, resize.Withdraw:
		if record.Phase != next.Phase && state.Kind != resize.Harmed {
			d.tellOf(record, event.Warning(v1alpha1.EventResizeFailed, "Taking back the resize of pod %s: %s: %s", record.PodName, action.Reason, action.Message))
		}
		if !d.putBackAsFar(w, pod, record, next) {
			action.RequeueAfter = lookAgain
		}
	case resize.SendRest:
		d.writes = append(d.writes, write{pod: pod, plan: resize.RestPlan(pod, next)})
	case resize.StartWatch:
		d.succeeded(w, next, state)
	case resize.Wait:
		d.waitsToBePutBack(w, record, action, state)
		d.denied(pod, record)
	}
	d.wake(action.RequeueAfter)
	d.status.Records = append(d.status.Records, next)
}

// harmed learns from harm, once: the record is put back or closed with it.
func (d *decision) harmed(w world, record v1alpha1.ResizeRecord, action resize.Action, verdict resize.Verdict) {
	d.hurt = append(d.hurt, record)
	d.status.Floors = resize.LearnHarm(d.status.Floors, verdict, record, w.now)
	d.status.Kept = resize.Unkeep(d.status.Kept, record)
	d.markSeedOf(record, verdict, w)
	if action.Kind != resize.Revert {
		d.tellOf(record, event.Warning(v1alpha1.EventResizeFailed, "The resize of pod %s did harm and is not taken back (%s): %s: %s",
			record.PodName, whyKept(w, record), action.Reason, action.Message))
		return
	}
	d.status.Backoff = resize.MoreBackoff(d.status.Backoff, record, w.now)
	d.tellOf(record, event.Warning(v1alpha1.EventReverted, "Reverting the resize of pod %s: %s: %s", record.PodName, action.Reason, action.Message))
	d.count(countReverted, record, action.Reason)
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
	if result := endOf(record, action); result != "" {
		d.count(result, record, "")
	}
	if action.Reason == v1alpha1.ReasonRevertPending {
		d.giveUp(w, record, action.Message)
	}
	if action.Keep {
		d.survivors = append(d.survivors, record)
	}
	if action.Result == resize.ResultUndone {
		d.putBackDone(w, record)
	}
	if action.Result == resize.ResultEvicted {
		d.evicted(w, record)
	}
	if action.Result == resize.ResultSuperseded {
		d.supersede(w, record)
	}
	birth := record.Wave == resize.WaveBoost && action.Result == resize.ResultSuccess
	backedOff := d.status.Backoff != nil && !action.Keep
	if len(rows) > 0 && !birth && (!w.byNode() || backedOff) && resize.CoolsDown(record, action, w.settings.Resize) {
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
		d.tellOf(record, tell(v1alpha1.EventResized, "The watch of pod %s is over: %s", record.PodName, action.Message))
	}
}

func (d *decision) succeeded(w world, record v1alpha1.ResizeRecord, state resize.State) {
	tell, but := event.Normal, ""
	if state.Drift {
		tell, but = event.Warning, ", but "+state.Message
	}
	if changed := changedBy(resize.HistoryRows(w.rec.Spec.Workload.Name, record, resize.ResultSuccess, "", w.now)); changed != "" {
		d.tellOf(record, tell(v1alpha1.EventResized, "Resized pod %s: %s%s; watching it", record.PodName, changed, but))
	}
	d.count(countSuccess, record, "")
	d.counts = append(d.counts, tookOf(record)...)
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
func (d *decision) learn(w world) {
	for _, pod := range w.pods {
		if d.tooLarge(pod) {
			continue
		}
		d.status.Floors = resize.LearnKills(d.status.Floors, pod, d.status.Records, w.now)
	}
	d.status.Kept = resize.KeptAbove(d.status.Floors, d.status.Kept, w.now)
}

// tooLarge: a pod has more containers than are sized, or than are known, and is not being resized either. Anybody can give a
// workload such pods; what is kept of its own does not grow with them.
func (d *decision) tooLarge(pod *corev1.Pod) bool {
	return (policy.TooManyContainers(&pod.Spec) || workload.Incomplete(pod.Annotations)) && !hasRecord(d.status.Records, pod)
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

// tell of the workload as a whole.
func (d *decision) tell(e event.Event) { d.events = append(d.events, told{Event: e}) }

// tellOf a record's pod.
func (d *decision) tellOf(record v1alpha1.ResizeRecord, e event.Event) {
	d.events = append(d.events, told{e, record.PodUID, record.PodName})
}

func (d *decision) tellOfPod(pod *corev1.Pod, e event.Event) {
	d.events = append(d.events, told{e, pod.UID, pod.Name})
}

func (d *decision) count(result string, record v1alpha1.ResizeRecord, harm string) {
	d.counts = append(d.counts, countsOf(result, record, harm)...)
}

// block says in a condition why pods are not resized, or that nothing is in the way.
func (d *decision) block(w world, blocked *resize.Refusal) {
	d.condition(w, blockedCondition(blocked))
}

func (d *decision) condition(w world, c metav1.Condition) {
	c.ObservedGeneration = w.rec.Generation
	meta.SetStatusCondition(&d.status.Conditions, c)
}

// summarise sets the phase and the conditions.
func (d *decision) summarise(w world) {
	d.status.Phase = d.phase(w)
	d.wakeFor(w)
	d.condition(w, d.resizing())
	d.condition(w, d.degraded())
	d.status.Pods = &v1alpha1.PodCounts{Total: int32(len(w.live())), AtTarget: d.atTarget(w), Open: int32(len(d.status.Records))}
}

// wakeFor looks again when what blocks may be over.
func (d *decision) wakeFor(w world) {
	d.wake(resize.CooldownLeft(d.status.CooldownFrom, d.status.Backoff, w.settings.Resize, w.now))
	d.wake(d.refused.after(w.now))
	if w.noRights != "" || w.noRightsUrgent != "" {
		d.wake(rightsLost)
	}
	if w.noResize {
		d.wake(servedEvery)
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
	if why := d.leftBehind(); why != "" {
		return metav1.Condition{
			Type: v1alpha1.ConditionDegraded, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonRevertPending, Message: why,
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

// atTarget counts the pods whose every container has what it would be given. One whose resize is under way has not.
func (d *decision) atTarget(w world) int32 {
	var n int32
	for _, pod := range w.live() {
		if d.underWay(pod) {
			continue
		}
		if plan, _ := resize.PlanFor(pod, targets(w, pod), w.capabilities(pod), w.now); plan.Empty() {
			n++
		}
	}
	return n
}

// underWay: the pod has a record, and is not yet watched.
func (d *decision) underWay(pod *corev1.Pod) bool {
	return slices.ContainsFunc(d.status.Records, func(r v1alpha1.ResizeRecord) bool {
		return r.PodUID == pod.UID && r.Phase != v1alpha1.RecordWatching
	})
}

// targets are the sizes that a pod's containers are heading to, without the resources that are held.
func targets(w world, pod *corev1.Pod) []podview.Container {
	if w.byNode() {
		return w.grantedTo(pod)
	}
	var out []podview.Container
	for _, t := range w.rec.Spec.Containers {
		if size := unheld(t); size != (recommender.Size{}) {
			out = append(out, podview.Container{Name: t.Name, Size: size})
		}
	}
	return out
}

// unheld is a target without the resources that are held.
func unheld(t v1alpha1.ContainerTarget) recommender.Size {
	size := podview.FromResources(t.Target)
	for _, r := range recommender.Resources {
		if slices.ContainsFunc(t.Holds, func(h v1alpha1.Hold) bool { return h.Resource == r.String() }) {
			size[r] = recommender.Allocation{}
		}
	}
	return size
}
