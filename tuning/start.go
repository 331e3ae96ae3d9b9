package tuning

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/policy"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
)

// starter begins new resizes: restores, undos, the end of boosts and of raises, fixes of pods that crash since
// creation, answers to OOM kills, and waves towards the targets. It runs only after the watcher has processed all
// records.
type starter struct {
	view     *View
	records  *records
	tries    *tries
	writes   *writes
	unknowns *Unknowns
	reports  *reports
	learned  *learned
	pauses   *pauses
	gates    *gates
	climber  *climber
	evictor  *evictor
	// waits is since when pods wait to be resized (strategy Node).
	waits map[types.UID]time.Time
}

// startResizes starts new resizes that the gates and the wave allow. It returns why pods are not resized although they
// are not at their targets, or nil.
//
// The order matters. Pods that crash since creation are fixed even while the workload is paused, and boosts end
// whatever stops attune. They end before a wave begins, because both need records, and the number of records is
// bounded.
func (d *starter) startResizes() *resize.Refusal {
	if refusal := d.view.Autoscalers.Refusal(); refusal != nil && d.view.sizesPods() {
		return refusal
	}
	if d.view.resizesPods() {
		d.restoreBirths()
	}
	d.takeBoostsBack()
	if !d.view.resizesPods() {
		return nil
	}
	// Reported even if no pod needs a resize, because a pause needs attention.
	if d.pauses.paused != nil {
		return resize.PausedItself(*d.pauses.paused)
	}
	d.evictor.evictForRoom()
	// Pods of Jobs and CronJobs are sized at admission, because a regression would lose their work. Here only
	// OOM-killed ones are resized; beginUrgent also raises them before an OOM kill.
	waits := func(pod *corev1.Pod) bool { return d.view.batch() && !Killed(pod) }
	d.startWave(d.plans(slices.DeleteFunc(d.view.Live(), waits)))
	d.boostAgain()
	return d.reports.refused.summary()
}

// beginUrgent begins only answers to OOM kills, raises before an OOM kill, and startup boosts after a restart. It runs in
// UrgentPart, before usage sources are queried.
func (d *starter) beginUrgent() {
	_, undone := d.view.undoing()
	if d.view.Begin.Closed != nil || undone || d.view.Autoscalers.Refusal() != nil || !d.view.resizesPods() || d.pauses.paused != nil {
		return
	}
	plans := d.plans(slices.DeleteFunc(d.view.Live(), func(pod *corev1.Pod) bool { return !Killed(pod) && !d.climber.climbs(pod) }))
	d.startWave(slices.DeleteFunc(plans, func(p resize.Plan) bool { return !p.Urgent }))
	d.boostAgain()
}

// startWave starts the plans of this wave. It calls Fits again for each plan, because earlier plans of the wave have
// reserved room.
func (d *starter) startWave(plans []resize.Plan) {
	going := d.wave(plans)
	d.unknowns.askLoweredMemory(d.view, going, plans)
	for _, plan := range going {
		pod := d.view.Pod(plan.PodUID)
		if refusal := resize.Fits(pod, plan, d.gates.input(pod)); refusal != nil {
			d.reports.refused.add(pod, refusal)
			continue
		}
		d.startResize(pod, plan)
	}
}

// startResize begins a resize: its record is stored before its patch is sent. If the plan has two parts (resize.Split:
// a risky decrease of a memory limit gets its own patch), it sends only the first; the second follows when the first is
// verified. A plan for another node (Elsewhere) sends nothing; its record leads to an eviction.
func (d *starter) startResize(pod *corev1.Pod, plan resize.Plan) {
	d.gates.reserve(pod, plan)
	d.unknowns.askBefore(d.view, plan)
	d.tries.begin(plan)
	if plan.Reason == resize.ReasonClimb {
		d.climber.reportRaise(pod, plan)
	}
	d.pauses.pauseLeak()
	parts := resize.Split(plan)
	record := lifecycle.NewRecord(parts[0], pod, d.view.Now, d.view.Policy.Settings.Resize)
	record.Measured = harm.Measured(d.view.Policy.Settings.Resize, d.view.Looked.Before)
	if len(parts) > 1 {
		record = lifecycle.WithSecond(record, parts[1], pod)
	}
	if plan.Elsewhere {
		d.records.add(lifecycle.GivenUp(record))
		d.reports.requeueAfter(time.Second)
		return
	}
	d.records.add(record)
	d.writes.add(Write{Pod: pod, Plan: parts[0], Begins: !plan.Urgent && plan.Wave != resize.WaveRestore})
}

// startAdmitted starts a plan that the gates admit, and sends the events. Otherwise it adds the refusal and returns
// false.
func (d *starter) startAdmitted(pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal, told ...event.Event) bool {
	if plan, refusal = d.gates.admit(pod, plan, refusal); refusal != nil {
		d.reports.refused.add(pod, refusal)
		return false
	}
	for _, e := range told {
		d.reports.addPodEvent(pod, e)
	}
	d.startResize(pod, plan)
	return true
}

// plans returns the plans of pods without a record. Pods whose data could not be read are refused, not planned.
func (d *starter) plans(pods []*corev1.Pod) (plans []resize.Plan) {
	for _, pod := range pods {
		if d.records.has(pod) {
			continue
		}
		if why := d.view.Looked.Unread.of(pod); why != nil {
			d.reports.refused.add(pod, why)
			continue
		}
		plan, refusal := d.plan(pod)
		d.unknowns.askRoom(d.view, pod, plan, refusal)
		d.queueUp(pod, plan, refusal)
		switch {
		case refusal == nil && !plan.Empty():
			plans = append(plans, plan)
		case refusal != nil && refusal.Reason != resize.ReasonNoChange:
			d.reports.refused.add(pod, refusal)
		}
	}
	return plans
}

// plan returns one pod's next resize, after all gates.
//  1. If the cache is older than the pod's last resize, it is not used: the plan would repeat that resize.
//  2. A pod-level limit below its containers' limits is raised first (resize.CatchUp).
//  3. PlanFor applies the platform's capabilities. Its result decides whether the plan is urgent.
//  4. If no OOM kill needs an answer, a container that is about to be killed is raised (raise).
//  5. Pods of Jobs get only urgent plans.
//  6. Admit applies the gates. A refusal for lack of room may lead to another node (tryElsewhere).
func (d *starter) plan(pod *corev1.Pod) (resize.Plan, *resize.Refusal) {
	if d.view.Looked.outOfDate(pod) {
		return resize.Plan{}, resize.RefuseForNow(resize.ReasonResizeUnderway, "the cached pod is older than its last resize")
	}
	// While the pod's own cgroup limit is below its containers' limits, raising the containers has no effect.
	behind, refusal := resize.CatchUp(pod)
	if refusal != nil {
		return resize.Plan{}, refusal
	}
	if behind != nil {
		return d.gates.planUrgent(pod, behind, resize.ReasonPodLimitBehind, d.gates.input(pod))
	}
	wishes := besideBoosts(d.nextSizes(pod), d.view.boosted(pod))
	plan, refusal := resize.PlanFor(pod, wishes, d.gates.capabilities(pod), d.view.Now)
	plan.Urgent = refusal == nil && d.urgent(pod, plan)
	if !plan.Urgent {
		if raise, climbs := d.raise(pod); climbs {
			return raise, nil
		}
	}
	if refusal != nil {
		return d.evictor.tryElsewhere(pod, plan, refusal)
	}
	if young := tooYoung(plan); young != nil && !plan.Urgent {
		d.reports.requeueAfter(youngFor)
		return plan, young
	}
	if d.view.batch() && !plan.Urgent {
		return resize.Plan{}, nil
	}
	admitted, refusal := resize.Admit(pod, plan, d.gates.input(pod))
	d.lookForDue(pod, admitted, refusal)
	if refusal != nil {
		return d.evictor.tryElsewhere(pod, admitted, refusal)
	}
	return admitted, nil
}

// raise plans a raise before an OOM kill for containers that climb towards their limits; false: no container climbs,
// or none may be raised. Then the pod is planned as usual.
func (d *starter) raise(pod *corev1.Pod) (resize.Plan, bool) {
	wishes, refused := d.climber.wishes(pod)
	for _, refusal := range refused {
		d.reports.refused.add(pod, refusal)
	}
	if len(wishes) == 0 {
		return resize.Plan{}, false
	}
	plan, refusal := d.gates.planUrgent(pod, wishes, resize.ReasonClimb, d.gates.input(pod))
	if refusal != nil {
		d.reports.refused.add(pod, refusal)
		return resize.Plan{}, false
	}
	return plan, true
}

// youngFor is how long after its start a container's memory usage may be unknown to the kubelet.
const youngFor = 30 * time.Second

// tooYoung returns why a plan waits 30s: a part of it was left out only because a container has just started. If the
// rest were sent now, that part would have to wait for the observation and the cooldown of this resize.
func tooYoung(plan resize.Plan) *resize.Refusal {
	return podview.FirstIn(plan.LeftOut, func(r *resize.Refusal) bool { return r.Reason == resize.ReasonStartedJustNow })
}

// wave returns the plans that start now: by policy (canary, maxConcurrentResizes) or, under strategy Node, by waiting
// time.
func (d *starter) wave(plans []resize.Plan) []resize.Plan {
	if d.view.ByNode() {
		return resize.Together(plans, d.waits, len(d.records.open), v1alpha1.MaxRecords)
	}
	return resize.Wave(d.promoted(plans), d.records.open, d.learned.verified, len(d.view.Live()), d.view.Policy.Settings.Resize, d.view.unreachable(d.records.open))
}

// takeBoostsBack begins to end the CPU boosts that are over, up to the maximum number of records. A deleted policy or
// another mode does not leave them: they were meant for minutes.
func (d *starter) takeBoostsBack() {
	if d.view.Workload == nil || d.view.Rec.DeletionTimestamp != nil {
		return
	}
	for _, pod := range d.view.Live() {
		boosted := d.view.boosted(pod)
		if len(boosted) == 0 || d.records.has(pod) || d.view.Looked.Unread.of(pod) != nil {
			continue
		}
		// If the policy no longer has a boost, a boost ends when the pod is ready.
		lasts := time.Duration(0)
		for _, c := range boosted {
			lasts = max(lasts, ptr.Deref(d.view.Policy.Settings.BoostOf(c.Name), policy.Boost{}).Duration)
		}
		left, known := lifecycle.BoostLeft(pod, boosted, lasts, d.view.Now)
		if known && left > 0 {
			d.reports.requeueAfter(left)
		}
		if !known || left > 0 {
			continue
		}
		plan, refusal := resize.PlanBack(pod, boosted, d.gates.capabilities(pod), d.view.Now, resize.WaveBoost, resize.ReasonBoost)
		d.startAdmitted(pod, plan, refusal)
	}
}

// boostAgain gives containers that restarted their startup boost again: they start as slowly as new ones. Answers to OOM
// kills take precedence, because a pod has one open resize.
func (d *starter) boostAgain() {
	if d.view.Policy.Settings.Resize.Boost == 0 {
		return
	}
	again := func(container string) *lifecycle.Reboost {
		b, cpu := d.view.Policy.Settings.BoostOf(container), &d.view.Policy.Settings.For(container).Of[recommender.CPU]
		if b == nil {
			return nil
		}
		return &lifecycle.Reboost{Multiplier: b.Multiplier, Duration: b.Duration, Most: cpu.MaxAllowed, LimitsFollow: cpu.LimitsFollow, Limits: cpu.Limits,
			Target: podview.FromPointer(recommender.CPU, d.view.target(container).Target.CPURequest)}
	}
	for _, pod := range d.view.Live() {
		if !restarted(pod) || d.records.has(pod) || len(d.view.boosted(pod)) > 0 || d.view.Looked.Unread.of(pod) != nil || d.view.Looked.outOfDate(pod) {
			continue
		}
		seeded := d.view.seededBy(pod)
		if seeded == nil {
			continue
		}
		// The stored block of an HPA outlives the HPA for a day.
		scaled := func(c podview.Container) bool {
			return resize.ScaledOn(d.view.target(c.Name), recommender.CPU)
		}
		if wishes := slices.DeleteFunc(lifecycle.Restarted(pod, *seeded, d.view.Now, again), scaled); len(wishes) > 0 {
			plan, refusal := resize.PlanFor(pod, wishes, d.gates.capabilities(pod), d.view.Now)
			plan.Wave, plan.Reason = resize.WaveReboost, resize.ReasonBoost
			d.unknowns.askRoom(d.view, pod, plan, refusal)
			d.startAdmitted(pod, plan, refusal)
		}
	}
}

// restarted reports whether a container of the pod restarted. It runs before the annotations are decoded.
func restarted(pod *corev1.Pod) bool {
	again := func(s corev1.ContainerStatus) bool { return s.RestartCount > 0 }
	return slices.ContainsFunc(pod.Status.ContainerStatuses, again) || slices.ContainsFunc(pod.Status.InitContainerStatuses, again)
}

// restoreBirths restores the template's resources of pods that crash since they were created, once. A rollout may
// wait for such a pod, so no other pod is created before it runs. If the program itself is the cause, the restore
// costs one resize.
func (d *starter) restoreBirths() {
	for _, c := range d.learned.crashed {
		pod := d.view.Pod(c.birth.PodUID)
		if !d.view.Policy.Settings.Resize.AutoRevert || pod.DeletionTimestamp != nil || d.records.has(pod) || d.view.Looked.Unread.of(pod) != nil {
			continue
		}
		plan, refusal := harm.BirthPlan(pod, c.birth, d.gates.capabilities(pod), d.view.Now)
		d.startAdmitted(pod, plan, refusal, event.Warning(v1alpha1.EventReverted,
			"Restoring the template's resources of pod %s, which was created with less and crashes: %s", pod.Name, c.verdict.Message))
	}
}

// restoreCreated restores the template's resources of pods that fit no node with their admission resources, so that the
// scheduler finds a node, and the memory limits of pods that do not start on their nodes with a lower one. No pause or
// mode blocks it: such a pod would run if attune had not sized it.
func (d *starter) restoreCreated(unscheduled, stuck []*corev1.Pod) {
	for _, pod := range slices.Concat(unscheduled, stuck) {
		if !d.view.Policy.Settings.Resize.AutoRevert || d.records.has(pod) || d.view.Looked.Unread.of(pod) != nil || d.view.Looked.outOfDate(pod) {
			continue
		}
		originals, caps := d.learned.originalSizes(pod), d.gates.capabilities(pod)
		if pod.Spec.NodeName != "" {
			plan, refusal := resize.PlanToStart(pod, originals, caps, d.view.Now)
			d.startAdmitted(pod, plan, refusal, event.Warning(v1alpha1.EventReverted,
				"Restoring the memory limits of pod %s, which does not start with its admission resources", pod.Name))
			continue
		}
		plan, refusal := resize.PlanBack(pod, originals, caps, d.view.Now, resize.WaveTemplate, resize.ReasonUnschedulable)
		d.startAdmitted(pod, plan, refusal, event.Warning(v1alpha1.EventReverted,
			"Restoring the template's resources of pod %s, which fits no node with its admission resources", pod.Name))
	}
}

// queueUp stores since when a pod waits for its resize (strategy Node): since its first plan after its last resize,
// even if the plan was empty for a while. Otherwise a pod whose plan comes and goes would never be first.
func (d *starter) queueUp(pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal) {
	waits := refusal == nil && !plan.Empty() || refusal != nil && refusal.Reason == resize.ReasonRecordsFull
	if !d.view.ByNode() || !waits {
		return
	}
	podview.SetIn(&d.waits, pod.UID, cmp.Or(d.view.Past.WaitingSince[pod.UID], d.view.Now))
}

// stillWaiting returns since when each pod waits at the end of the reconcile, without pods that are being resized.
// The loop passes the map to the next reconcile.
func (d *starter) stillWaiting() map[types.UID]time.Time {
	out := map[types.UID]time.Time{}
	for _, pod := range d.view.Live() {
		at, waits := d.waits[pod.UID]
		if !waits {
			at, waits = d.view.Past.WaitingSince[pod.UID]
		}
		if waits && !d.records.has(pod) {
			out[pod.UID] = at
		}
	}
	return out
}
