package tuning

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/climb"
)

// Climbing reports whether the samples alone show that a container needs a raise before an OOM kill. Then the loop
// does not wait for the other inputs of a whole reconcile.
func (v *View) Climbing() bool {
	return slices.ContainsFunc(v.Live(), newDeciders(*v, v.Rec.Status).climber.climbs)
}

// climber decides about containers that may be raised before an OOM kill (package climb).
type climber struct {
	view    *View
	tries   *tries
	learned *learned
	pauses  *pauses
	reports *reports
	// ahead are the gates of raises for which an observation period ends in this reconcile. They have reservations of
	// their own, because the raises themselves begin later in the reconcile and reserve then.
	ahead gates
}

// verdict is the result of climb.Look for one container.
type verdict struct {
	climb.Verdict
	container podview.Container
}

// verdicts returns the verdicts on the pod's containers whose memory usage climbs towards the limit; nil: the policy
// raises nothing before an OOM kill.
func (d *climber) verdicts(pod *corev1.Pod) (out []verdict) {
	if !d.view.Policy.Usable || ended(pod) {
		return nil
	}
	samples := d.view.Usage.Climbs[pod.UID]
	if len(samples) == 0 {
		return nil
	}
	for _, c := range podview.Read(pod) {
		if of, known := samples[c.Name]; known && d.view.Policy.Settings.Resize.RaisesMemory(c.Name) {
			if v := climb.Look(d.container(pod, c, of), d.view.Now); v.Why != "" {
				out = append(out, verdict{v, c})
			}
		}
	}
	return out
}

// container collects the inputs of climb.Look for one container.
func (d *climber) container(pod *corev1.Pod, c podview.Container, of Climb) climb.Container {
	settings := &d.view.Policy.Settings.For(c.Name).Of[recommender.Memory]
	return climb.Container{
		Name: c.Name, Has: c.Size[recommender.Memory], Samples: of.Samples, Started: startOf(pod, c.Name), Stalled: of.Stalled, Peak: d.peak(c.Name),
		Most: settings.MaxAllowed, Ceiling: d.ceiling(pod, c), Together: podview.Guaranteed(pod), LimitsLeft: !settings.LimitsFollow, RequestHeld: d.scaledOn(c.Name),
		Restarts: resize.RestartsOn(pod, c.Name)[recommender.Memory],
		Raises:   climb.OfAll(d.tries.list, pod, c.Name, d.view.Now, d.view.Live),
	}
}

// startOf returns when a running container started; zero: it does not run.
func startOf(pod *corev1.Pod, container string) time.Time {
	if status := podview.Statuses(pod)[container]; status != nil && status.State.Running != nil {
		return status.State.Running.StartedAt.Time
	}
	return time.Time{}
}

func (d *climber) scaledOn(container string) bool {
	t := d.view.target(container)
	t.Name = container
	return scaledOnMemory(d.view.Autoscalers, t)
}

// peak returns the highest known memory usage of the workload's containers of this name, in bytes; 0: not known.
// Under strategy Node it is the maximum of seven days. Otherwise it is derived from MemoryLimitFloor, which is 1.1
// times the peak of the history window. A higher floor learned from an OOM kill makes the result too high.
func (d *climber) peak(container string) recommender.Amount {
	t := d.view.target(container)
	if t.Demand != nil && t.Demand.MemoryMax7d != nil {
		return podview.AmountOf(recommender.Memory, *t.Demand.MemoryMax7d)
	}
	return recommender.WithoutHeadroom(limitFloor(t))
}

// ceiling returns the memory limit above which the container is not raised without an OOM kill, in bytes; 0: no
// ceiling. If the container's original size is not known, its current size counts as the original.
func (d *climber) ceiling(pod *corev1.Pod, c podview.Container) recommender.Amount {
	if t := d.view.target(c.Name); t.Demand != nil && t.Demand.MemoryLimitMost != nil {
		return max(podview.AmountOf(recommender.Memory, *t.Demand.MemoryLimitMost), c.Size[recommender.Memory].Limit)
	}
	original, known := d.learned.originalsOf(pod)[c.Name]
	if !known {
		original = c.Size
	}
	learned := resize.FloorsOf(d.learned.floors, c.Name, d.view.Now)[recommender.Memory]
	return recommender.MemoryCeiling(original[recommender.Memory], learned, d.view.Policy.Settings.For(c.Name).Of[recommender.Memory].MinAllowed)
}

func (d *climber) climbs(pod *corev1.Pod) bool {
	return slices.ContainsFunc(d.verdicts(pod), func(v verdict) bool { return v.Raises() })
}

// wishes returns the raised sizes of the pod's containers, and the refusals of containers that are not raised.
func (d *climber) wishes(pod *corev1.Pod) (out []podview.Container, refused []*resize.Refusal) {
	for _, v := range d.verdicts(pod) {
		if v.Refusal != nil {
			refused = append(refused, v.Refusal)
		}
		if v.Raises() {
			out = append(out, podview.Container{Name: v.container.Name, Sidecar: v.container.Sidecar, Size: recommender.Size{recommender.Memory: v.To}})
		}
	}
	return out, refused
}

// wouldRaise reports whether a raise of the pod would begin in this reconcile if its record were closed. An observation
// period must not end for a raise that is refused: the revert would be lost, and the pod would stay at the size that
// it is outgrowing.
func (d *climber) wouldRaise(pod *corev1.Pod) bool {
	wishes, _ := d.wishes(pod)
	if len(wishes) == 0 || !d.beginsAny() || d.view.Looked.Unread.of(pod) != nil || d.view.Looked.outOfDate(pod) {
		return false
	}
	if d.view.batch() && d.view.Part == WholePass {
		return false // pods of Jobs are raised only in UrgentPart
	}
	if behind, refusal := resize.CatchUp(pod); behind != nil || refusal != nil {
		return false // the pod-level limit comes first
	}
	plan, refusal := d.ahead.planUrgent(pod, wishes, resize.ReasonClimb, d.withoutRecord(pod))
	if refusal != nil {
		d.reports.refused.add(pod, refusal)
		return false
	}
	d.ahead.reserve(pod, plan)
	return true
}

// withoutRecord returns the input of the gates as if the pod's record were closed.
func (d *climber) withoutRecord(pod *corev1.Pod) resize.GateInput {
	in := d.ahead.input(pod)
	in.Status.Records = slices.DeleteFunc(slices.Clone(d.view.Rec.Status.Records), func(r v1alpha1.ResizeRecord) bool { return r.PodUID == pod.UID })
	return in
}

// beginsAny reports whether this reconcile begins raises of the workload at all (startResizes, beginUrgent).
func (d *climber) beginsAny() bool {
	waits := d.view.Part != UrgentPart && (d.view.Part != WholePass || d.view.Begin.Wait > 0)
	return !waits && d.returnsAny() && d.view.Autoscalers.Refusal() == nil && d.pauses.paused == nil
}

// reportRaise counts the raise of a pod and sends an event with the cause.
func (d *climber) reportRaise(pod *corev1.Pod, plan resize.Plan) {
	why := map[string]string{}
	for _, v := range d.verdicts(pod) {
		why[v.container.Name] = v.Why
	}
	for _, m := range plan.Moves {
		from, to := m.From[recommender.Memory].Limit, m.To[recommender.Memory].Limit
		d.reports.addPodEvent(pod, event.Warning(v1alpha1.EventResized, "Raising the memory limit of container %s of pod %s before an OOM kill, %s -> %s: %s",
			m.Container, pod.Name, recommender.Format(recommender.Memory, from), recommender.Format(recommender.Memory, to), why[m.Container]))
	}
	d.tries.addRaise(pod, plan)
}

// circumstances returns the reasons to end the observation of a pod that the pod's state does not show: a container
// is raised now, or the spike that caused the raise is over. Only WholePass restores memory after a spike, because
// only it can begin the resize.
func (d *climber) circumstances(pod *corev1.Pod, record v1alpha1.ResizeRecord) (climbs, spike string) {
	if pod == nil || record.Phase != v1alpha1.RecordWatching {
		return "", ""
	}
	if d.wouldRaise(pod) {
		climbs = d.why(pod)
	}
	if d.view.Part == WholePass && d.spiked(pod, record) && d.wouldRestoreMemory(pod, record) {
		spike = "the growth was a spike and is over"
	}
	return climbs, spike
}

// wouldRestoreMemory reports whether this reconcile would restore the old memory if the record were closed, or whether
// the pod certainly keeps the raise. While a gate refuses for now, the observation goes on and each reconcile tries
// again. Ending it without the resize would leave the pod raised.
func (d *climber) wouldRestoreMemory(pod *corev1.Pod, record v1alpha1.ResizeRecord) bool {
	if !d.returnsAny() {
		return false
	}
	had, why := d.had(pod, record)
	if why != "" {
		return true
	}
	_, refusal := d.planMemoryRestore(pod, had, &d.ahead, d.withoutRecord(pod))
	if refusal == nil || !refusal.Transient || refusal.Reason == resize.ReasonMemoryUnknown { // the memory is read when the resize begins
		return true
	}
	d.reports.refused.add(pod, refusal)
	return false
}

// returnsAny reports whether this reconcile restores memory of raised containers of the workload at all.
func (d *climber) returnsAny() bool {
	_, undone := d.view.undoing()
	return !undone && d.view.Begin.Closed == nil && d.view.resizesPods()
}

// planMemoryRestore plans the resize that restores the containers' old memory, and passes it through the gates.
func (d *climber) planMemoryRestore(pod *corev1.Pod, had []podview.Container, g *gates, in resize.GateInput) (resize.Plan, *resize.Refusal) {
	plan, refusal := resize.PlanBack(pod, had, g.capabilities(pod), d.view.Now, resize.WaveSpike, resize.ReasonSpike)
	if refusal == nil {
		plan, refusal = resize.Admit(pod, plan, in)
	}
	if refusal == nil && len(plan.LeftOut) > 0 { // lowering only the request restores nothing
		refusal = &plan.LeftOut[0]
	}
	return plan, refusal
}

// why explains for each raised container of the pod how its usage climbs.
func (d *climber) why(pod *corev1.Pod) string {
	var why []string
	for _, v := range d.verdicts(pod) {
		if v.Raises() {
			why = append(why, fmt.Sprintf("container %s: %s", v.container.Name, v.Why))
		}
	}
	return strings.Join(why, "; ")
}

// spiked reports whether all containers of a raise have long used clearly less than their old limits.
func (d *climber) spiked(pod *corev1.Pod, record v1alpha1.ResizeRecord) bool {
	for _, c := range resize.Changes(record) {
		before := cmp.Or(climb.Of(d.tries.list, pod, c.Container, d.view.Now).Before.Limit, podview.LimitOrRequest(c.Prior[recommender.Memory]))
		if !climb.GivesBack(d.view.Usage.Climbs[record.PodUID][c.Container].Samples, before, d.view.Now) {
			return false
		}
	}
	return len(record.Desired) > 0 && record.Reason == resize.ReasonClimb
}

// had returns the memory sizes to restore after a raise, with the current usage. why: not empty if the containers
// keep the raise.
func (d *climber) had(pod *corev1.Pod, record v1alpha1.ResizeRecord) (out []podview.Container, why string) {
	for _, c := range sizesOf(record.Desired, d.view.Usage.Memory[pod.UID]) {
		raises, has := climb.Of(d.tries.list, pod, c.Name, d.view.Now), c.Size[recommender.Memory]
		switch {
		case raises.Times == 0:
			return nil, "its resources before the raise are no longer known"
		case raises.Before.Limit == 0:
			return nil, "its memory was already lowered again within the last 24h, and then had to be raised again"
		}
		back := d.safe(c.Name, raises.Before, has, podview.Guaranteed(pod))
		if back.Limit > has.Limit-has.Limit/20 {
			continue
		}
		c.Size[recommender.Memory] = back
		out = append(out, c)
	}
	if len(out) == 0 {
		why = "its history and OOM kills show that it needs almost all of it"
	}
	return out, why
}

// safe returns the memory to restore: the old size, but not below history and OOM floors learned since, including the
// peak of the spike. Otherwise the policy's next resize would raise it again.
func (d *climber) safe(container string, before, has recommender.Allocation, together bool) recommender.Allocation {
	t := d.view.target(container)
	floor := resize.OOMFloorOf(d.learned.floors, container, d.view.Now)
	if d.view.Policy.Settings.For(container).Of[recommender.Memory].LimitsFollow || d.view.ByNode() {
		floor = max(floor, limitFloor(t))
	}
	before.Request = max(before.Request, min(has.Request, resize.Unheld(t)[recommender.Memory].Request))
	before.Limit = min(has.Limit, max(before.Limit, recommender.WholeMiB(floor), before.Request))
	if together {
		before.Request = before.Limit
	}
	return before
}

// giveBack restores the old memory of containers that were raised before an OOM kill if their growth was a spike. It
// runs right after the records of the raises are closed, so that one write ends the raise and begins the restore.
// Memory that cannot be lowered now stays: later resizes lower it if the policy allows that.
func (d *starter) giveBack(raised []v1alpha1.ResizeRecord) {
	if !d.climber.returnsAny() {
		return
	}
	for _, record := range raised {
		pod := d.view.Pod(record.PodUID)
		if pod == nil || ended(pod) || d.records.has(pod) {
			continue
		}
		had, why := d.climber.had(pod, record)
		switch {
		case record.Wave == resize.WaveSpike:
			d.restoreMemory(pod, sizesOf(record.Desired, d.view.Usage.Memory[pod.UID]))
		case !d.climber.spiked(pod, record):
		case why != "":
			d.reports.addPodEvent(pod, raiseKept(pod, why))
		default:
			d.restoreMemory(pod, had)
		}
	}
}

// restoreMemory begins the resize that restores the old memory of a pod's containers.
func (d *starter) restoreMemory(pod *corev1.Pod, had []podview.Container) {
	plan, refusal := d.climber.planMemoryRestore(pod, had, d.gates, d.gates.input(pod))
	d.unknowns.askUnknownMemory(d.view, pod, plan)
	if refusal != nil {
		d.reports.addPodEvent(pod, raiseKept(pod, refusal.Message))
		return
	}
	d.tries.endRaises(pod)
	var parts []string
	for _, m := range plan.Moves {
		parts = append(parts, fmt.Sprintf("container %s %s -> %s", m.Container, recommender.Format(recommender.Memory, m.From[recommender.Memory].Limit),
			recommender.Format(recommender.Memory, m.To[recommender.Memory].Limit)))
	}
	d.reports.addPodEvent(pod, event.Normal(v1alpha1.EventResized, "Restoring the memory limits of pod %s, because the growth was a spike: %s", pod.Name, strings.Join(parts, "; ")))
	d.startResize(pod, plan)
	d.unknowns.askLoweredMemory(d.view, []resize.Plan{plan}, []resize.Plan{plan})
}

func raiseKept(pod *corev1.Pod, why string) event.Event {
	return event.Normal(v1alpha1.EventResized, "Pod %s keeps its raised memory, although the growth was a spike: %s", pod.Name, why)
}

// sizesOf returns the memory sizes of a record's list, with the current memory usage in bytes.
func sizesOf(list []v1alpha1.ContainerResources, held map[string]recommender.Amount) (out []podview.Container) {
	for _, c := range list {
		size := podview.FromResources(c.Resources)
		size[recommender.CPU] = recommender.Allocation{}
		out = append(out, podview.Container{Name: c.Name, Size: size, MemoryUsage: held[c.Name]})
	}
	return out
}

// Climbable returns the live pods whose memory samples are needed: pods with a memory limit, if the policy raises
// before an OOM kill.
func (v *View) Climbable() []*corev1.Pod {
	if !v.Policy.Usable || v.Workload == nil {
		return nil
	}
	limited := func(c *corev1.Container) bool {
		return v.Policy.Settings.Resize.RaisesMemory(c.Name) && !c.Resources.Limits.Memory().IsZero()
	}
	return slices.DeleteFunc(v.Live(), func(pod *corev1.Pod) bool { return !slices.ContainsFunc(podview.Resizable(pod), limited) })
}

// SetClimb adds the samples of a container. It changes the View.
func (v *View) SetClimb(pod types.UID, container string, of Climb) {
	containers := v.Usage.Climbs[pod]
	podview.SetIn(&containers, container, of)
	podview.SetIn(&v.Usage.Climbs, pod, containers)
}
