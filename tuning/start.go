package tuning

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/policy"
	"attune.io/attune/resize"
	"attune.io/attune/resize/harm"
	"attune.io/attune/resize/lifecycle"
)

// starter begins new resizes: restores, undos, the end of boosts and of raises, the repair of births, answers to OOM kills,
// and waves towards the targets. It runs only after the watcher has stepped all open records.
type starter struct {
	*pass
	climber *climber
	evictor *evictor
	gates   *gates
	// waits is since when pods wait for their turn to be resized (strategy Node).
	waits map[types.UID]time.Time
}

// begin starts new resizes, as many as the wave allows, where the gates are open. It returns why pods are
// not resized although they are not at their targets, or nil.
//
// The order matters. A pod that crashes since its birth is repaired even while the workload is paused.
// Boosts end before a wave begins, because both need records, and the number of records is bounded.
func (d *starter) begin() *resize.Refusal {
	if refusal := d.view.Autoscalers.Refusal(); refusal != nil && d.view.sizesPods() {
		return refusal
	}
	if !d.view.resizesPods() {
		return nil
	}
	d.restoreBirths()
	// It is shown whether or not there is anything to resize, because a person has to act.
	if d.out.Status.Paused != nil {
		return resize.PausedItself(*d.out.Status.Paused)
	}
	d.takeBoostsBack()
	d.evictor.evictForRoom()
	// Pods of Jobs and CronJobs are sized at admission, because a failed trial would lose their work; while they run,
	// only an OOM kill is answered.
	waits := func(pod *corev1.Pod) bool { return d.view.batch() && !Killed(pod) }
	d.startWave(d.plans(slices.DeleteFunc(d.view.Live(), waits)))
	return d.refused.summary()
}

// beginUrgent answers OOM kills and begins nothing else. It runs in the urgent part of a pass, before
// usage sources are asked.
func (d *starter) beginUrgent() {
	_, undone := d.undoing()
	if d.view.Begin.Closed != nil || undone || d.view.Autoscalers.Refusal() != nil || !d.view.resizesPods() || d.out.Status.Paused != nil {
		return
	}
	plans := d.plans(slices.DeleteFunc(d.view.Live(), func(pod *corev1.Pod) bool { return !Killed(pod) && !d.climber.climbs(pod) }))
	d.startWave(slices.DeleteFunc(plans, func(p resize.Plan) bool { return !p.Urgent }))
}

// startWave starts those of the plans that go now. Fits is asked again for each plan, because the plans
// before it in the same wave have reserved room.
func (d *starter) startWave(plans []resize.Plan) {
	going := d.wave(plans)
	d.askLoweredMemory(going, plans)
	for _, plan := range going {
		pod := d.view.Pod(plan.PodUID)
		if refusal := resize.Fits(pod, plan, d.gates.input(pod)); refusal != nil {
			d.refused.add(pod, refusal)
			continue
		}
		d.start(pod, plan)
	}
}

// start begins a resize: its record is stored before its patch is sent. A plan in two parts (resize.Split:
// a risky lowering of a memory limit gets a patch of its own) sends only the first part; the second
// follows when the first is verified. A plan for another node (Elsewhere) sends nothing; its record leads
// to an eviction.
func (d *starter) start(pod *corev1.Pod, plan resize.Plan) {
	d.gates.reserve(pod, plan)
	d.out.Status.Tries = resize.Begun(d.out.Status.Tries, plan, d.view.Now)
	if plan.Reason == resize.ReasonClimb {
		d.climber.begun(pod, plan)
	}
	d.pauseLeak()
	parts := resize.Split(plan)
	record := lifecycle.NewRecord(parts[0], pod, d.view.Now, d.view.Policy.Settings.Resize)
	if len(parts) > 1 {
		record = lifecycle.WithSecond(record, parts[1], pod)
	}
	if plan.Elsewhere {
		d.out.Status.Records = append(d.out.Status.Records, lifecycle.GivenUp(record))
		d.wake(time.Second)
		return
	}
	d.out.Status.Records = append(d.out.Status.Records, record)
	d.out.Writes = append(d.out.Writes, Write{Pod: pod, Plan: parts[0], Begins: !plan.Urgent && plan.Wave != resize.WaveRestore})
}

// startAdmitted starts a plan that was not refused and that the gates let pass, and tells it. Otherwise it notes the
// refusal.
func (d *starter) startAdmitted(pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal, told ...event.Event) {
	if plan, refusal = d.gates.admit(pod, plan, refusal); refusal != nil {
		d.refused.add(pod, refusal)
		return
	}
	for _, e := range told {
		d.tellOfPod(pod, e)
	}
	d.start(pod, plan)
}

// plans returns what each pod without an open record would be given now. Pods whose data could not be read
// are refused, not planned.
func (d *starter) plans(pods []*corev1.Pod) (plans []resize.Plan) {
	for _, pod := range pods {
		if hasRecord(d.out.Status.Records, pod) {
			continue
		}
		if why := d.view.Looked.Unread.of(pod); why != nil {
			d.refused.add(pod, why)
			continue
		}
		plan, refusal := d.plan(pod)
		d.askRoom(pod, plan, refusal)
		d.queueUp(pod, plan, refusal)
		switch {
		case refusal == nil && !plan.Empty():
			plans = append(plans, plan)
		case refusal != nil && refusal.Reason != resize.ReasonNoChange:
			d.refused.add(pod, refusal)
		}
	}
	return plans
}

// plan is one pod's next step, after all gates.
//  1. A cache that is behind the pod's last resize is not believed: the plan would repeat that resize.
//  2. A pod-level limit that is behind its containers is repaired first (resize.CatchUp).
//  3. PlanFor applies what the platform can do, and whether the plan is urgent is decided on its result.
//  4. Where no kill is to be answered, one that is about to happen is forestalled (raise).
//  5. Pods of Jobs get urgent plans only.
//  6. Admit applies the gates; a refusal for want of room may lead to another node (tryElsewhere).
func (d *starter) plan(pod *corev1.Pod) (resize.Plan, *resize.Refusal) {
	if d.view.Looked.outOfDate(pod) {
		return resize.Plan{}, resize.RefuseForNow(resize.ReasonResizeUnderway, "the pod as we see it is older than its last resize")
	}
	// As long as the pod's own cgroup limit is behind those of its containers, raising the containers has no effect.
	behind, refusal := resize.CatchUp(pod)
	if refusal != nil {
		return resize.Plan{}, refusal
	}
	if behind != nil {
		return d.urgentPlan(pod, behind, resize.ReasonPodLimitBehind, d.gates.capabilities(pod), d.gates.input(pod))
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
		d.wake(youngFor)
		return plan, young
	}
	if d.view.batch() && !plan.Urgent {
		return resize.Plan{}, nil
	}
	admitted, refusal := resize.Admit(pod, plan, d.gates.input(pod))
	if refusal != nil {
		return d.evictor.tryElsewhere(pod, admitted, refusal)
	}
	return admitted, nil
}

// raise is the plan that raises the containers of a pod that climb towards their limits, as an answer to an OOM kill
// before the kill; false: none of them does, or none may be raised. Then the pod goes on to be planned as ever.
func (d *starter) raise(pod *corev1.Pod) (resize.Plan, bool) {
	wishes, refused := d.climber.wishes(pod)
	for _, refusal := range refused {
		d.refused.add(pod, refusal)
	}
	if len(wishes) == 0 {
		return resize.Plan{}, false
	}
	plan, refusal := d.urgentPlan(pod, wishes, resize.ReasonClimb, d.gates.capabilities(pod), d.gates.input(pod))
	if refusal != nil {
		d.refused.add(pod, refusal)
		return resize.Plan{}, false
	}
	return plan, true
}

// youngFor is how long after its start the kubelet may not know the memory usage of a container.
const youngFor = 30 * time.Second

// tooYoung returns why a plan waits half a minute: a part of it was left out only because a container has
// just started. If the rest were sent now, the left-out part would have to wait for the watch and the
// cooldown of that resize.
func tooYoung(plan resize.Plan) *resize.Refusal {
	if i := slices.IndexFunc(plan.LeftOut, func(r resize.Refusal) bool { return r.Reason == resize.ReasonStartedJustNow }); i >= 0 {
		return &plan.LeftOut[i]
	}
	return nil
}

// wave returns the plans that go now: by policy (canary, maxConcurrentResizes) or, under the strategy
// Node, by waiting time.
func (d *starter) wave(plans []resize.Plan) []resize.Plan {
	if d.view.ByNode() {
		return resize.Together(plans, d.waits, len(d.out.Status.Records), v1alpha1.MaxRecords)
	}
	return resize.Wave(plans, d.out.Status.Records, d.out.Status.Kept, len(d.view.Live()), d.view.Policy.Settings.Resize, d.view.unreachable(d.out.Status.Records))
}

// takeBoostsBack begins to take back the CPU boosts that are over, as many as there is room for records.
func (d *starter) takeBoostsBack() {
	for _, pod := range d.view.Live() {
		boosted := d.view.boosted(pod)
		if len(boosted) == 0 || hasRecord(d.out.Status.Records, pod) || d.view.Looked.Unread.of(pod) != nil {
			continue
		}
		// Where the policy has no boost any more, a boost ends when the pod is ready.
		lasts := ptr.Deref(d.view.Policy.Settings.StartupBoost, policy.Boost{}).Duration
		left, known := lifecycle.BoostLeft(pod, boosted, lasts, d.view.Now)
		if known && left > 0 {
			d.wake(left)
		}
		if !known || left > 0 {
			continue
		}
		plan, refusal := resize.PlanBack(pod, boosted, d.gates.capabilities(pod), d.view.Now, resize.WaveBoost, resize.ReasonBoost)
		d.startAdmitted(pod, plan, refusal)
	}
}

// restoreBirths gives pods that crash since their birth what their template sets, once. A rollout may wait
// for such a pod, so that no other pod is created before it is well. If the program itself is what
// crashes, that costs one resize.
func (d *starter) restoreBirths() {
	for _, c := range d.crashed {
		pod := d.view.Pod(c.birth.PodUID)
		if !d.view.Policy.Settings.Resize.AutoRevert || pod.DeletionTimestamp != nil || hasRecord(d.out.Status.Records, pod) || d.view.Looked.Unread.of(pod) != nil {
			continue
		}
		plan, refusal := harm.BirthPlan(pod, c.birth, d.gates.capabilities(pod), d.view.Now)
		d.startAdmitted(pod, plan, refusal, event.Warning(v1alpha1.EventReverted,
			"Giving pod %s what its template says, as it crashes since it was born with less: %s", pod.Name, c.verdict.Message))
	}
}

// restoreUnscheduled gives pods that fit no node with their admission resources what their template sets: the
// scheduler then finds a node for them. A pod that has a node already is left alone. No pause or mode holds this: such a
// pod would run if attune had not sized it.
func (d *starter) restoreUnscheduled() {
	for _, pod := range d.unscheduled {
		if !d.view.Policy.Settings.Resize.AutoRevert || hasRecord(d.out.Status.Records, pod) || d.view.Looked.Unread.of(pod) != nil || d.view.Looked.outOfDate(pod) {
			continue
		}
		plan, refusal := resize.PlanBack(pod, d.originalSizes(pod), d.gates.capabilities(pod), d.view.Now, resize.WaveBirth, harm.ReasonBirthPending)
		d.startAdmitted(pod, plan, refusal, event.Warning(v1alpha1.EventReverted,
			"Giving pod %s the resources of its template, as it fits no node with those of admission", pod.Name))
	}
}

// queueUp notes that a pod waits for its turn (strategy Node): since its first wish after its last resize,
// even if the wish disappeared for a while. A pod whose wish comes and goes would otherwise never be
// first.
func (d *starter) queueUp(pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal) {
	waits := refusal == nil && !plan.Empty() || refusal != nil && refusal.Reason == resize.ReasonRecordsFull
	if !d.view.ByNode() || !waits {
		return
	}
	if d.waits == nil {
		d.waits = map[types.UID]time.Time{}
	}
	if d.waits[pod.UID] = d.view.Now; !d.view.Past.WaitingSince[pod.UID].IsZero() {
		d.waits[pod.UID] = d.view.Past.WaitingSince[pod.UID]
	}
}

// stillWaiting returns since when each pod waits when the pass is over, without those that are being
// resized. The loop gives the map to the next pass.
func (d *starter) stillWaiting() map[types.UID]time.Time {
	out := map[types.UID]time.Time{}
	for _, pod := range d.view.Live() {
		at, waits := d.waits[pod.UID]
		if !waits {
			at, waits = d.view.Past.WaitingSince[pod.UID]
		}
		if waits && !hasRecord(d.out.Status.Records, pod) {
			out[pod.UID] = at
		}
	}
	return out
}
