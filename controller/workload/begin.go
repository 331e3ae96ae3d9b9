package workload

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// begin starts new resizes, as many as the wave takes, where the gates are open. It returns why pods are not
// resized although they are not where they should be, or nil.
func (d *decision) begin(w world) *resize.Refusal {
	if refusal := w.autoscalers.Refusal(); refusal != nil && w.sizesPods() {
		return refusal
	}
	if !w.resizesPods() {
		return nil
	}
	d.restoreBirths(w)
	if refusal := d.pausedItself(); refusal != nil {
		return refusal
	}
	d.takeBoostsBack(w)
	d.sendAway(w)
	d.startWave(w, d.plans(w, w.due()))
	return d.refused.summary()
}

// beginUrgent answers OOM kills, and begins nothing else.
func (d *decision) beginUrgent(w world) {
	_, undone := d.undoing(w)
	if w.closed != nil || undone || w.autoscalers.Refusal() != nil || !w.resizesPods() || d.status.Paused != nil {
		return
	}
	plans := d.plans(w, slices.DeleteFunc(w.live(), func(pod *corev1.Pod) bool { return !killed(pod) }))
	d.startWave(w, slices.DeleteFunc(plans, func(p resize.Plan) bool { return !p.Urgent }))
}

// startWave starts those of the plans that go now.
func (d *decision) startWave(w world, plans []resize.Plan) {
	going := d.wave(w, plans)
	d.askMemory(w, going, plans)
	for _, plan := range going {
		pod := w.pod(plan.PodUID)
		if refusal := resize.Fits(pod, plan, d.gateWorld(w, pod)); refusal != nil {
			d.refused.add(pod, refusal)
			continue
		}
		d.start(w, pod, plan)
	}
}

// start begins a resize: its record is stored before it is sent.
func (d *decision) start(w world, pod *corev1.Pod, plan resize.Plan) {
	d.promise(pod, plan)
	d.status.Tries = resize.Begun(d.status.Tries, plan, w.now)
	d.pauseLeak(w)
	parts := resize.Split(plan)
	record := resize.NewRecord(parts[0], pod, w.now, w.settings.Resize)
	if len(parts) > 1 {
		record = resize.WithSecond(record, parts[1], pod)
	}
	if plan.Elsewhere {
		d.status.Records = append(d.status.Records, resize.GivenUp(record))
		d.wake(time.Second)
		return
	}
	d.status.Records = append(d.status.Records, record)
	d.writes = append(d.writes, write{pod: pod, plan: parts[0], begins: !plan.Urgent})
	if !plan.Urgent {
		d.begins++
	}
}

// sizesPods: running pods are resized, or new ones seeded.
func (w world) sizesPods() bool {
	return w.resizesPods() || w.usable && w.workload != nil && w.settings.Resize.Mode == v1alpha1.UpdateInitial
}

// resizesPods: the mode lets running pods be changed, and the policy is there and holds together.
func (w world) resizesPods() bool {
	if !w.usable || w.workload == nil {
		return false
	}
	switch w.settings.Resize.Mode {
	case v1alpha1.UpdateOneShot, v1alpha1.UpdateCanary, v1alpha1.UpdateAuto:
		return true
	}
	return false
}

// plans are what each pod without an open record would be given now.
func (d *decision) plans(w world, pods []*corev1.Pod) (plans []resize.Plan) {
	for _, pod := range pods {
		if hasRecord(d.status.Records, pod) {
			continue
		}
		if why := w.unread.of(pod); why != nil {
			d.refused.add(pod, why)
			continue
		}
		plan, refusal := d.plan(w, pod)
		d.ask(w, pod, plan, refusal)
		d.queueUp(w, pod, plan, refusal)
		switch {
		case refusal == nil && !plan.Empty():
			plans = append(plans, plan)
		case refusal != nil && refusal.Reason != resize.ReasonNoChange:
			d.refused.add(pod, refusal)
		}
	}
	return plans
}

// plan is one pod's next step, gated.
func (d *decision) plan(w world, pod *corev1.Pod) (resize.Plan, *resize.Refusal) {
	if w.behind[pod.UID] && !w.seenLive[pod.UID] {
		return resize.Plan{}, &resize.Refusal{Reason: resize.ReasonResizeUnderway, PodWide: true, Transient: true,
			Message: "the pod as we see it is older than its last resize"}
	}
	if wishes, refusal := resize.CatchUp(pod); wishes != nil || refusal != nil {
		return d.catchUp(w, pod, wishes, refusal)
	}
	wishes := besideBoosts(d.wishes(w, pod), boostedOf(w, pod))
	plan, refusal := resize.PlanFor(pod, wishes, d.capabilities(w, pod), w.now)
	if refusal != nil {
		return d.move(w, pod, plan, refusal)
	}
	plan.Urgent = d.urgent(w, pod, plan)
	if young := tooYoung(plan); young != nil && !plan.Urgent {
		d.wake(youngFor)
		return plan, young
	}
	if w.batch() && !plan.Urgent {
		return resize.Plan{}, nil
	}
	admitted, refusal := resize.Admit(pod, plan, d.gateWorld(w, pod))
	if refusal != nil {
		return d.move(w, pod, admitted, refusal)
	}
	return admitted, nil
}

// catchUp comes before anything else: until the pod has what its containers have, more for them does nothing.
func (d *decision) catchUp(w world, pod *corev1.Pod, wishes []podview.Container, refusal *resize.Refusal) (resize.Plan, *resize.Refusal) {
	if refusal != nil {
		return resize.Plan{}, refusal
	}
	plan, refusal := resize.PlanFor(pod, wishes, d.capabilities(w, pod), w.now)
	if refusal != nil {
		return plan, refusal
	}
	plan.Urgent, plan.Reason = true, resize.ReasonPodLimitBehind
	return resize.Admit(pod, plan, d.gateWorld(w, pod))
}

// urgent: the kernel killed a container of this very pod, which still has less memory than that taught it
// to need, and the plan gives it more. It waits for no cooldown, rollout or fresh data.
func (d *decision) urgent(w world, pod *corev1.Pod, plan resize.Plan) bool {
	if !w.settings.Resize.AutoRevert && pod.Generation > 1 {
		return false // it was resized: more at once would be a revert by another name
	}
	for _, kill := range podview.OOMKills(pod) {
		floor := resize.FloorsOf(d.status.Floors, kill.Container, w.now)[recommender.Memory].Amount
		if kill.Limit < floor && slices.ContainsFunc(plan.Moves, func(m resize.Move) bool {
			return m.Container == kill.Container && raisesMemory(m)
		}) {
			return true
		}
	}
	return false
}

// raisesMemory looks at the limit, or at the request where there is none.
func raisesMemory(m resize.Move) bool {
	from, to := m.From[recommender.Memory], m.To[recommender.Memory]
	return to.Limit > from.Limit || from.Limit == 0 && to.Request > from.Request
}

// readyPods counts the workload's ready pods, once for a pass.
func (d *decision) readyPods(w world) int {
	if d.ready != nil {
		return *d.ready
	}
	n := 0
	d.ready = &n
	for _, pod := range w.pods {
		if isReady(pod) && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// youngFor is how long after its start a container's memory usage may be unknown to its kubelet.
const youngFor = 30 * time.Second

// tooYoung: half a minute's patience saves a whole wave, since what is left out now would have to wait
// for the end of this resize's watch and cooldown.
func tooYoung(plan resize.Plan) *resize.Refusal {
	for i := range plan.LeftOut {
		if plan.LeftOut[i].Reason == resize.ReasonStartedJustNow {
			return &plan.LeftOut[i]
		}
	}
	return nil
}

// wishes are the next step of each container from what the pod has.
func (d *decision) wishes(w world, pod *corev1.Pod) []podview.Container {
	if w.byNode() {
		return d.killsAnswered(w, pod, w.grantedTo(pod))
	}
	originals := d.originalsOf(pod)
	live := podview.Read(pod)
	var out []podview.Container
	for _, t := range w.rec.Spec.Containers {
		i := slices.IndexFunc(live, func(c podview.Container) bool { return c.Name == t.Name })
		if i < 0 {
			continue
		}
		target := d.withOOMFloor(unheld(t), live[i].Size, t, w.now)
		if target == (recommender.Size{}) || w.settings.Resize.Excluded[t.Name] {
			continue
		}
		target = d.notBelowFloors(target, live[i].Size, t.Name, w.now)
		change := recommender.NextStep(recommender.Move{
			Container: t.Name, Target: target, Live: live[i].Size, Original: originals[t.Name],
			MemoryLimitFloor: limitFloor(t), Settings: w.settings.Recommender,
		})
		out = append(out, podview.Container{Name: t.Name, Sidecar: live[i].Sidecar, Size: change.Next, MemoryUsage: w.memory[pod.UID][t.Name]})
	}
	return out
}

// notBelowFloors lowers nothing below what harm has taught: a floor may be younger than the stored target. How far one
// raises is the policy loop's to say, within the policy's bounds.
func (d *decision) notBelowFloors(target, live recommender.Size, container string, now time.Time) recommender.Size {
	floors := resize.FloorsOf(d.status.Floors, container, now)
	for _, r := range recommender.Resources {
		if target[r].Request > 0 {
			target[r].Request = max(target[r].Request, min(live[r].Request, floors[r].Amount))
		}
	}
	return target
}

// withOOMFloor raises memory that an HPA holds as far as a kill taught, and leaves it alone above that.
func (d *decision) withOOMFloor(target, live recommender.Size, t v1alpha1.ContainerTarget, now time.Time) recommender.Size {
	if floor := autoscale.OOMFloor(t, d.status.Floors, now); floor > live[recommender.Memory].Request {
		target[recommender.Memory].Request = floor
	}
	return target
}

func limitFloor(t v1alpha1.ContainerTarget) recommender.Amount {
	if t.MemoryLimitFloor == nil {
		return 0
	}
	return podview.AmountOf(recommender.Memory, *t.MemoryLimitFloor)
}
