package workload

import (
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/autoscale"
	"attune.io/attune/internal/event"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// begin starts new resizes, as many as the wave takes, where the gates are open. It returns why nothing
// is begun although a pod is not where it should be, or nil.
func (d *decision) begin(w world) *resize.Refusal {
	if refusal := w.autoscalers.Refusal(); refusal != nil && w.sizesPods() {
		d.skip(refusal)
		return refusal
	}
	if !w.resizesPods() {
		return nil
	}
	plans, refused := d.plans(w)
	if len(plans) == 0 {
		return refused
	}
	for _, plan := range resize.Wave(plans, d.status.Records, d.status.Kept, len(w.pods), w.settings.Resize) {
		pod := w.pod(plan.PodUID)
		parts := resize.Split(plan)
		record := resize.NewRecord(parts[0], pod, w.now, w.settings.Resize)
		if len(parts) > 1 {
			record = resize.WithSecond(record, parts[1], pod)
		}
		d.status.Records = append(d.status.Records, record)
		d.writes = append(d.writes, write{pod, parts[0]})
	}
	return refused
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

// plans are what each pod without an open record would be given now, and the first refusal.
func (d *decision) plans(w world) (plans []resize.Plan, refused *resize.Refusal) {
	for _, pod := range w.pods {
		if hasRecord(d.status.Records, pod) {
			continue
		}
		plan, refusal := d.plan(w, pod)
		if refusal != nil && refusal.Reason != resize.ReasonNoChange && refused == nil {
			refused = refusal
		}
		if refusal == nil && !plan.Empty() {
			plans = append(plans, plan)
		}
	}
	return plans, refused
}

// plan is one pod's next step, gated.
func (d *decision) plan(w world, pod *corev1.Pod) (resize.Plan, *resize.Refusal) {
	plan, refusal := resize.PlanFor(pod, d.wishes(w, pod), w.capabilities(pod), w.now)
	if refusal != nil {
		return plan, refusal
	}
	if young := tooYoung(plan); young != nil {
		d.wake(youngFor)
		return plan, young
	}
	plan.Urgent = d.urgent(w, pod, plan)
	return resize.Admit(pod, plan, d.gateWorld(w, pod))
}

// urgent: the kernel killed a container of this very pod, which still has less memory than that taught it
// to need, and the plan gives it more. It waits for no cooldown, rollout or fresh data.
func (d *decision) urgent(w world, pod *corev1.Pod, plan resize.Plan) bool {
	for _, kill := range resize.OOMKills(pod) {
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

// readyPods counts the workload's ready pods.
func (w world) readyPods() int {
	n := 0
	for _, pod := range w.pods {
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && pod.DeletionTimestamp == nil {
				n++
			}
		}
	}
	return n
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

// gateWorld is what the gates look at.
func (d *decision) gateWorld(w world, pod *corev1.Pod) resize.World {
	out := resize.World{
		Now: w.now, Rules: w.settings.Resize, Status: d.status,
		WorkloadAnnotations: w.workload.Annotations,
		Replicas:            int(w.workload.Replicas),
		ReadyReplicas:       w.readyPods(),
		LimitRanges:         w.limits, Quotas: w.quotas,
		StaleAfter:   w.settings.Recommender.StaleAfter(),
		Capabilities: w.capabilities(pod),
		HPA:          w.autoscalers.Gate(w.rec.Spec.Containers, d.status.Floors, w.now),
		VPA:          w.autoscalers.VPA(),
	}
	if w.workload.Template != nil {
		out.TemplateAnnotations = w.workload.Template.Annotations
	}
	if w.workload.Rollout.InProgress {
		out.Rollout = w.workload.Rollout.Reason
	}
	if w.rec.Spec.DataUntil != nil {
		out.DataUntil = w.rec.Spec.DataUntil.Time
	}
	return out
}

// wishes are the next step of each container from what the pod has.
func (d *decision) wishes(w world, pod *corev1.Pod) []resize.Container {
	originals := d.originalsOf(w, pod)
	live := resize.Read(pod)
	var out []resize.Container
	for _, t := range w.rec.Spec.Containers {
		i := slices.IndexFunc(live, func(c resize.Container) bool { return c.Name == t.Name })
		if i < 0 {
			continue
		}
		target := d.withOOMFloor(unheld(t), live[i].Size, t, w.now)
		if target == (recommender.Size{}) || w.settings.Resize.Excluded[t.Name] {
			continue
		}
		change := recommender.Toward(recommender.Move{
			Container: t.Name, Target: target, Live: live[i].Size, Original: originals[t.Name],
			MemoryLimitFloor: limitFloor(t), Settings: w.settings.Recommender,
		})
		out = append(out, resize.Container{Name: t.Name, Sidecar: live[i].Sidecar, Size: change.Next})
	}
	return out
}

// withOOMFloor raises memory that an HPA holds as far as a kill taught, and leaves it alone above that.
func (d *decision) withOOMFloor(target, live recommender.Size, t v1alpha1.ContainerTarget, now time.Time) recommender.Size {
	if floor := autoscale.OOMFloor(t, d.status.Floors, now); floor > live[recommender.Memory].Request {
		target[recommender.Memory].Request = floor
	}
	return target
}

// skip tells once that nothing is applied to the workload.
func (d *decision) skip(refusal *resize.Refusal) {
	known := meta.FindStatusCondition(d.status.Conditions, v1alpha1.ConditionResizeBlocked)
	if known == nil || known.Reason != refusal.Reason || known.Message != refusal.Message {
		d.tell(event.Warning(v1alpha1.EventResizeSkipped, "%s", refusal.Message))
	}
}

func limitFloor(t v1alpha1.ContainerTarget) recommender.Amount {
	if t.MemoryLimitFloor == nil {
		return 0
	}
	return resize.AmountOf(recommender.Memory, *t.MemoryLimitFloor)
}

// originalsOf are the sizes that the pod's containers had before attune.
func (d *decision) originalsOf(w world, pod *corev1.Pod) map[string]recommender.Size {
	out := map[string]recommender.Size{}
	hash := resize.TemplateHash(pod)
	for _, o := range d.status.Originals {
		if o.TemplateHash != hash {
			continue
		}
		for _, c := range o.Containers {
			out[c.Name] = resize.FromResources(c.Resources)
		}
	}
	return out
}

// originals are what a pod had before attune: its spec, or what the annotation of its seed says where
// that agrees with the workload's template. Anybody in the namespace can write the annotation.
func originals(w world, pod *corev1.Pod) []v1alpha1.ContainerResources {
	seeded := seededOf(pod)
	var out []v1alpha1.ContainerResources
	for _, c := range resize.Read(pod) {
		resources := resize.ToResources(c.Size)
		if seeded != nil {
			resources = seededOriginal(w, *seeded, c.Name, resources)
		}
		out = append(out, v1alpha1.ContainerResources{Name: c.Name, Resources: resources})
	}
	return out
}

func seededOf(pod *corev1.Pod) *v1alpha1.Seeded {
	raw, ok := pod.Annotations[v1alpha1.SeededAnnotation]
	if !ok {
		return nil
	}
	seeded := &v1alpha1.Seeded{}
	if err := json.Unmarshal([]byte(raw), seeded); err != nil {
		return nil
	}
	return seeded
}

func seededOriginal(w world, seeded v1alpha1.Seeded, container string, otherwise v1alpha1.Resources) v1alpha1.Resources {
	template, ok := templateSize(w, container)
	for _, o := range seeded.Original {
		if o.Name == container && ok && agrees(resize.FromResources(o.Resources), template) {
			return o.Resources
		}
	}
	if ok && template != (recommender.Size{}) {
		return resize.ToResources(template)
	}
	return otherwise
}

func templateSize(w world, container string) (recommender.Size, bool) {
	if w.workload == nil || w.workload.Template == nil {
		return recommender.Size{}, false
	}
	spec := w.workload.Template.Spec
	for _, c := range append(slices.Clone(spec.Containers), spec.InitContainers...) {
		if c.Name == container {
			return resize.ReadSpec(c.Resources), true
		}
	}
	return recommender.Size{}, false
}

// agrees: what the template sets is what is claimed; what it leaves open may have been set by a LimitRange.
func agrees(claimed, template recommender.Size) bool {
	for _, r := range recommender.Resources {
		if template[r].Request > 0 && template[r].Request != claimed[r].Request ||
			template[r].Limit > 0 && template[r].Limit != claimed[r].Limit {
			return false
		}
	}
	return true
}
