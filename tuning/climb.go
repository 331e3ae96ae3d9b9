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

// Climbing reports whether a container is to be raised before an OOM kill, as far as its samples alone tell. Such a
// pass does not wait for what the whole pass reads.
func (v *View) Climbing() bool {
	d := &climber{pass: &pass{view: *v}}
	d.out.Status = v.Rec.Status
	for _, pod := range v.Live() {
		if d.climbs(pod) {
			return true
		}
	}
	return false
}

// climber looks at the memory of containers that may be raised before an OOM kill (package climb).
type climber struct {
	*pass
	// ahead are the gates of raises for which a watch ends in this pass. They have reservations of their own: the
	// raises themselves begin later in the pass, and reserve then.
	ahead *gates
}

// verdict is what a look at one container came to.
type verdict struct {
	climb.Verdict
	container podview.Container
}

// verdicts are those of the pod's containers that climb towards their limits. There is none where the policy raises
// nothing.
func (d *climber) verdicts(pod *corev1.Pod) (out []verdict) {
	if !d.view.Policy.Usable || !d.view.Policy.Settings.Resize.RaisesMemory() || ended(pod) {
		return nil
	}
	samples := d.view.Usage.Climbs[pod.UID]
	if len(samples) == 0 {
		return nil
	}
	for _, c := range podview.Read(pod) {
		if of, known := samples[c.Name]; known && !d.view.Policy.Settings.Resize.Excluded[c.Name] {
			if v := climb.Look(d.container(pod, c, of), d.view.Now); v.Why != "" {
				out = append(out, verdict{v, c})
			}
		}
	}
	return out
}

// container is what is known of one container.
func (d *climber) container(pod *corev1.Pod, c podview.Container, of Climb) climb.Container {
	settings := d.view.Policy.Settings.Recommender.Of[recommender.Memory]
	return climb.Container{
		Name: c.Name, Has: c.Size[recommender.Memory], Samples: of.Samples, Started: startOf(pod, c.Name), Stalled: of.Stalled, Peak: d.peak(c.Name),
		Most: settings.MaxAllowed, Ceiling: d.ceiling(pod, c), Together: podview.Guaranteed(pod), LimitsLeft: !settings.LimitsFollow && !d.view.ByNode(), RequestHeld: d.scaledOn(c.Name),
		Restarts: resize.RestartsOn(pod, c.Name)[recommender.Memory],
		Raises:   climb.OfAll(d.out.Status.Tries, pod, c.Name, d.view.Now, d.view.Live),
	}
}

// startOf a container that runs; zero: it does not.
func startOf(pod *corev1.Pod, container string) time.Time {
	if status := podview.Statuses(pod)[container]; status != nil && status.State.Running != nil {
		return status.State.Running.StartedAt.Time
	}
	return time.Time{}
}

// scaledOn reports whether a HorizontalPodAutoscaler scales the workload on the container's memory.
func (d *climber) scaledOn(container string) bool {
	t := d.view.target(container)
	t.Name = container
	return scaledOnMemory(d.view.Autoscalers, t)
}

// peak is the most memory that the workload's containers of this name are known to have held, in bytes; 0: not known.
// Under the strategy Node that is the most of seven days. Else it is read from the bound that no memory limit goes under,
// which is 1.1 times what they held within the history window.
func (d *climber) peak(container string) recommender.Amount {
	t := d.view.target(container)
	if t.Demand != nil && t.Demand.MemoryMax7d != nil {
		return podview.AmountOf(recommender.Memory, *t.Demand.MemoryMax7d)
	}
	return limitFloor(t) * 10 / 11
}

// ceiling is what the memory limit of a container is not raised above without a kill, in bytes; 0: there is none. Where it
// is not known what the container was created with, it counts as created with what it has.
func (d *climber) ceiling(pod *corev1.Pod, c podview.Container) recommender.Amount {
	if t := d.view.target(c.Name); t.Demand != nil && t.Demand.MemoryLimitMost != nil {
		return max(podview.AmountOf(recommender.Memory, *t.Demand.MemoryLimitMost), c.Size[recommender.Memory].Limit)
	}
	original, known := d.originalsOf(pod)[c.Name]
	if !known {
		original = c.Size
	}
	learned := resize.FloorsOf(d.out.Status.Floors, c.Name, d.view.Now)[recommender.Memory]
	return recommender.MemoryCeiling(original[recommender.Memory], learned, d.view.Policy.Settings.Recommender.Of[recommender.Memory].MinAllowed)
}

// climbs reports whether a container of the pod is to be raised.
func (d *climber) climbs(pod *corev1.Pod) bool {
	return slices.ContainsFunc(d.verdicts(pod), func(v verdict) bool { return v.Raises() })
}

// wishes are the raised sizes of the pod's containers, and why others are not raised.
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

// urgentPlan raises a pod to the sizes that are wished for as an answer to an OOM kill does, as the gates let it pass.
func (d *pass) urgentPlan(pod *corev1.Pod, wishes []podview.Container, reason string, can resize.Capabilities, in resize.GateInput) (resize.Plan, *resize.Refusal) {
	plan, refusal := resize.PlanFor(pod, wishes, can, d.view.Now)
	if refusal != nil {
		return plan, refusal
	}
	plan.Urgent, plan.Reason = true, reason
	return resize.Admit(pod, plan, in)
}

// begins reports whether a raise of the pod would begin in this pass if its record were closed. A watch ends for
// nothing else: it would take the way back of a resize with it, and leave the pod at the size that it climbs out of.
func (d *climber) begins(pod *corev1.Pod) bool {
	wishes, _ := d.wishes(pod)
	if len(wishes) == 0 || !d.beginsAny() || d.view.Looked.Unread.of(pod) != nil || d.view.Looked.outOfDate(pod) {
		return false
	}
	if d.view.batch() && d.view.Part == WholePass {
		return false // pods of Jobs are raised in the urgent part alone
	}
	if behind, refusal := resize.CatchUp(pod); behind != nil || refusal != nil {
		return false // that comes first
	}
	plan, refusal := d.urgentPlan(pod, wishes, resize.ReasonClimb, d.ahead.capabilities(pod), d.withoutRecord(pod))
	if refusal != nil {
		d.refused.add(pod, refusal)
		return false
	}
	d.ahead.reserve(pod, plan)
	return true
}

// withoutRecord is what the gates look at as if the pod's record were closed.
func (d *climber) withoutRecord(pod *corev1.Pod) resize.GateInput {
	in := d.ahead.input(pod)
	in.Status.Records = slices.DeleteFunc(slices.Clone(d.view.Rec.Status.Records), func(r v1alpha1.ResizeRecord) bool { return r.PodUID == pod.UID })
	return in
}

// beginsAny reports whether raises of the workload begin in this pass at all (starter.begin, starter.beginUrgent).
func (d *climber) beginsAny() bool {
	waits := d.view.Part != UrgentPart && (d.view.Part != WholePass || d.view.Begin.Wait > 0)
	return !waits && d.returnsAny() && d.view.Autoscalers.Refusal() == nil && d.out.Status.Paused == nil
}

// begun counts the raise of a pod, and says why it is made.
func (d *climber) begun(pod *corev1.Pod, plan resize.Plan) {
	why := map[string]string{}
	for _, v := range d.verdicts(pod) {
		why[v.container.Name] = v.Why
	}
	for _, m := range plan.Moves {
		from, to := m.From[recommender.Memory].Limit, m.To[recommender.Memory].Limit
		d.tellOfPod(pod, event.Warning(v1alpha1.EventResized, "Raising the memory limit of container %s of pod %s before an OOM kill, %s -> %s: %s",
			m.Container, pod.Name, recommender.Format(recommender.Memory, from), recommender.Format(recommender.Memory, to), why[m.Container]))
	}
	d.out.Status.Tries = climb.Noted(climb.OfLive(d.out.Status.Tries, d.view.Live()), pod, plan, d.view.Now)
}

// circumstances are why the watch of a pod's record ends, beside what the pod shows of it: a container is raised now,
// or the spike that it was raised for is over. A raise is given back in the whole pass alone, which can begin that.
func (d *climber) circumstances(pod *corev1.Pod, record v1alpha1.ResizeRecord) (climbs, spike string) {
	if pod == nil || record.Phase != v1alpha1.RecordWatching {
		return "", ""
	}
	if d.begins(pod) {
		climbs = d.why(pod)
	}
	if d.view.Part == WholePass && d.spiked(pod, record) && d.returns(pod, record) {
		spike = "the growth was a spike, which is over"
	}
	return climbs, spike
}

// returns reports whether a raise would be given back in this pass if its record were closed, or is known to be kept. While a
// gate refuses it for now the watch goes on, and each pass asks again: a watch that had ended would have ended in vain.
func (d *climber) returns(pod *corev1.Pod, record v1alpha1.ResizeRecord) bool {
	if !d.returnsAny() {
		return false
	}
	had, why := d.had(pod, record)
	if why != "" {
		return true
	}
	_, refusal := d.back(pod, had, d.ahead, d.withoutRecord(pod))
	if refusal == nil || !refusal.Transient || refusal.Reason == resize.ReasonMemoryUnknown { // which is asked for when it is begun
		return true
	}
	d.refused.add(pod, refusal)
	return false
}

// returnsAny reports whether raises of the workload are given back in this pass at all.
func (d *climber) returnsAny() bool {
	_, undone := d.undoing()
	return !undone && d.view.Begin.Closed == nil && d.view.resizesPods()
}

// back is the resize that gives a pod's containers what they had, as the gates let it pass.
func (d *climber) back(pod *corev1.Pod, had []podview.Container, g *gates, in resize.GateInput) (resize.Plan, *resize.Refusal) {
	plan, refusal := resize.PlanBack(pod, had, g.capabilities(pod), d.view.Now, resize.WaveSpike, resize.ReasonSpike)
	if refusal == nil {
		plan, refusal = resize.Admit(pod, plan, in)
	}
	if refusal == nil && len(plan.LeftOut) > 0 { // a request that is lowered alone gives nothing back
		refusal = &plan.LeftOut[0]
	}
	return plan, refusal
}

// why says of each container of the pod that is raised how it climbs.
func (d *climber) why(pod *corev1.Pod) string {
	var why []string
	for _, v := range d.verdicts(pod) {
		if v.Raises() {
			why = append(why, fmt.Sprintf("container %s: %s", v.container.Name, v.Why))
		}
	}
	return strings.Join(why, "; ")
}

// spiked reports whether all containers of a raise have needed well under their old limits for a while.
func (d *climber) spiked(pod *corev1.Pod, record v1alpha1.ResizeRecord) bool {
	for _, c := range resize.Changes(record) {
		before := cmp.Or(climb.Of(d.out.Status.Tries, pod, c.Container, d.view.Now).Before.Limit, podview.LimitOrRequest(c.Prior[recommender.Memory]))
		if !climb.GivesBack(d.view.Usage.Climbs[record.PodUID][c.Container].Samples, before, d.view.Now) {
			return false
		}
	}
	return len(record.Desired) > 0 && record.Reason == resize.ReasonClimb
}

// had are the sizes that the containers of a raise are given back, with what they hold; why: they keep the raise.
func (d *climber) had(pod *corev1.Pod, record v1alpha1.ResizeRecord) (out []podview.Container, why string) {
	for _, c := range sizesOf(record.Desired, d.view.Usage.Memory[pod.UID]) {
		raises, has := climb.Of(d.out.Status.Tries, pod, c.Name, d.view.Now), c.Size[recommender.Memory]
		switch {
		case raises.Times == 0:
			return nil, "what it had before is not known any more"
		case raises.Before.Limit == 0:
			return nil, "it was given back within the day already, and had to be raised again"
		}
		back := d.safe(c.Name, raises.Before, has, podview.Guaranteed(pod))
		if back.Limit > has.Limit-has.Limit/20 {
			continue
		}
		c.Size[recommender.Memory] = back
		out = append(out, c)
	}
	if len(out) == 0 {
		why = "it is known to need almost all of it"
	}
	return out, why
}

// safe is what a container is given back of what it has: what it had before, and no less than what its history and the
// kills of its workload have taught since, the spike itself among them. The policy's next step would raise it again.
func (d *climber) safe(container string, before, has recommender.Allocation, together bool) recommender.Allocation {
	t := d.view.target(container)
	floor := resize.OOMFloorOf(d.out.Status.Floors, container, d.view.Now)
	if d.view.Policy.Settings.Recommender.Of[recommender.Memory].LimitsFollow || d.view.ByNode() {
		floor = max(floor, limitFloor(t))
	}
	before.Request = max(before.Request, min(has.Request, resize.Unheld(t)[recommender.Memory].Request))
	before.Limit = min(has.Limit, max(before.Limit, (floor+1<<20-1)>>20<<20, before.Request))
	if together {
		before.Request = before.Limit
	}
	return before
}

// giveBack gives containers their old memory back that were raised before an OOM kill, where their growth was a spike. It
// comes right after the records of their raises have closed, so that one write ends the raise and begins the way back. What
// cannot be lowered now stays: the policy's own steps lower it, where it allows them.
func (d *starter) giveBack(raised []v1alpha1.ResizeRecord) {
	if !d.climber.returnsAny() {
		return
	}
	for _, record := range raised {
		pod := d.view.Pod(record.PodUID)
		if pod == nil || ended(pod) || hasRecord(d.out.Status.Records, pod) {
			continue
		}
		had, why := d.climber.had(pod, record)
		switch {
		case record.Wave == resize.WaveSpike:
			d.give(pod, sizesOf(record.Desired, d.view.Usage.Memory[pod.UID]))
		case !d.climber.spiked(pod, record):
		case why != "":
			d.tellOfPod(pod, raiseKept(pod, why))
		default:
			d.give(pod, had)
		}
	}
}

// give a pod's containers the memory that they had.
func (d *starter) give(pod *corev1.Pod, had []podview.Container) {
	plan, refusal := d.climber.back(pod, had, d.gates, d.gates.input(pod))
	d.askUnknownMemory(pod, plan)
	if refusal != nil {
		d.tellOfPod(pod, raiseKept(pod, refusal.Message))
		return
	}
	d.out.Status.Tries = climb.GivenBack(d.out.Status.Tries, pod, d.view.Now)
	var parts []string
	for _, m := range plan.Moves {
		parts = append(parts, fmt.Sprintf("container %s %s -> %s", m.Container, recommender.Format(recommender.Memory, m.From[recommender.Memory].Limit),
			recommender.Format(recommender.Memory, m.To[recommender.Memory].Limit)))
	}
	d.tellOfPod(pod, event.Normal(v1alpha1.EventResized, "Giving pod %s its old memory limits back, as the growth was a spike: %s", pod.Name, strings.Join(parts, "; ")))
	d.start(pod, plan)
	d.askLoweredMemory([]resize.Plan{plan}, []resize.Plan{plan})
}

func raiseKept(pod *corev1.Pod, why string) event.Event {
	return event.Normal(v1alpha1.EventResized, "Pod %s keeps the memory that it was raised to, although its growth was a spike: %s", pod.Name, why)
}

// sizesOf are the memory sizes of a record's list, with what the containers hold.
func sizesOf(list []v1alpha1.ContainerResources, held map[string]recommender.Amount) (out []podview.Container) {
	for _, c := range list {
		size := podview.FromResources(c.Resources)
		size[recommender.CPU] = recommender.Allocation{}
		out = append(out, podview.Container{Name: c.Name, Size: size, MemoryUsage: held[c.Name]})
	}
	return out
}

// Climbable are the live pods of which samples are wanted: those with a memory limit, where the policy raises before a
// kill.
func (v *View) Climbable() (pods []*corev1.Pod) {
	if !v.Policy.Usable || v.Workload == nil || !v.Policy.Settings.Resize.RaisesMemory() {
		return nil
	}
	for _, pod := range v.Live() {
		for _, c := range podview.Resizable(pod) {
			if !c.Resources.Limits.Memory().IsZero() {
				pods = append(pods, pod)
				break
			}
		}
	}
	return pods
}

// SetClimb adds what was measured of a container. It changes the View.
func (v *View) SetClimb(pod types.UID, container string, of Climb) {
	if v.Usage.Climbs == nil {
		v.Usage.Climbs = map[types.UID]map[string]Climb{}
	}
	if v.Usage.Climbs[pod] == nil {
		v.Usage.Climbs[pod] = map[string]Climb{}
	}
	v.Usage.Climbs[pod][container] = of
}
