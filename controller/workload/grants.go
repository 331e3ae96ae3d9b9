package workload

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	noderules "attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// byNode: the pods are sized by their nodes' grants, not by one target. Cooldown, canary, waves and the change
// filter do not apply; plans, gates, records, watches and reverts do.
func (w world) byNode() bool {
	return w.rec.Spec.Strategy == v1alpha1.StrategyNode || w.settings.Strategy == v1alpha1.StrategyNode
}

// observeGrants reads what the nodes of the pods grant them.
func (c *Controller) observeGrants(w *world) {
	w.granted, w.waits = map[types.UID]board.Pod{}, c.queue.read(client.ObjectKeyFromObject(w.rec))
	for _, pod := range w.pods {
		if granted, ok := c.Grants.Of(pod.UID); ok && w.byNode() {
			w.granted[pod.UID] = granted
		}
	}
}

// grantedTo are the sizes that a pod's node grants its containers. A pod without a grant has no wishes, and what
// restarts its container is sized at birth alone.
func (w world) grantedTo(pod *corev1.Pod) []podview.Container {
	var out []podview.Container
	for _, c := range podview.Read(pod) {
		size := w.granted[pod.UID].Sizes[c.Name]
		for r, restarts := range resize.RestartsOn(pod, c.Name) {
			if restarts {
				size[r] = recommender.Allocation{}
			}
		}
		if size == (recommender.Size{}) || w.settings.Resize.Excluded[c.Name] {
			continue
		}
		out = append(out, podview.Container{Name: c.Name, Sidecar: c.Sidecar, Size: size, MemoryUsage: w.memory[pod.UID][c.Name]})
	}
	return out
}

// killsAnswered raises the memory of the pod's containers that the kernel killed to what that taught, over what the
// pod's node grants: a node grants nothing to whom a gate holds, nor what restarts its container, and neither keeps a
// container from what it cannot live without.
func (d *decision) killsAnswered(w world, pod *corev1.Pod, wishes []podview.Container) []podview.Container {
	if !w.settings.Resize.AutoRevert && pod.Generation > 1 {
		return wishes // see urgent
	}
	for _, c := range podview.Read(pod) {
		answer := d.answer(w, pod, c)
		if answer == (recommender.Allocation{}) || w.settings.Resize.Excluded[c.Name] {
			continue
		}
		i := slices.IndexFunc(wishes, func(wish podview.Container) bool { return wish.Name == c.Name })
		if i < 0 {
			i = len(wishes)
			wishes = append(wishes, podview.Container{Name: c.Name, Sidecar: c.Sidecar, MemoryUsage: w.memory[pod.UID][c.Name]})
		}
		memory := &wishes[i].Size[recommender.Memory]
		memory.Request, memory.Limit = max(memory.Request, answer.Request), max(memory.Limit, answer.Limit)
	}
	return wishes
}

// answer is the memory that a container is to have at least, as kills taught; the zero value: it was not killed at
// less. No limit is added.
func (d *decision) answer(w world, pod *corev1.Pod, c podview.Container) recommender.Allocation {
	has, floor := c.Size[recommender.Memory], resize.OOMFloorOf(d.status.Floors, c.Name, w.now)
	i := slices.IndexFunc(w.rec.Spec.Containers, func(t v1alpha1.ContainerTarget) bool { return t.Name == c.Name && t.Demand != nil })
	below := slices.ContainsFunc(podview.OOMKills(pod), func(k podview.OOM) bool { return k.Container == c.Name && k.Limit < floor })
	if i < 0 || !below {
		return recommender.Allocation{}
	}
	demand := w.rec.Spec.Containers[i].Demand
	answer := recommender.Allocation{Request: floor}
	if most := podview.FromResources(demand.Most)[recommender.Memory].Request; most > 0 {
		answer.Request = min(floor, most)
	}
	answer.Request = max(answer.Request, has.Request)
	if has.Limit > 0 {
		max7d := podview.FromResources(v1alpha1.Resources{MemoryRequest: demand.MemoryMax7d})[recommender.Memory].Request
		answer.Limit = max(has.Limit, noderules.MemoryLimit(max7d, floor, answer.Request))
	}
	return answer
}

// wave are the plans that go now.
func (d *decision) wave(w world, plans []resize.Plan) []resize.Plan {
	if w.byNode() {
		return resize.Together(plans, d.waits, len(d.status.Records), v1alpha1.MaxRecords)
	}
	return resize.Wave(plans, d.status.Records, d.status.Kept, len(w.live()), w.settings.Resize, w.unreachable(d.status.Records))
}

// hold notes the pods that may not be changed now, which their nodes freeze, and those that may not be evicted. What
// does not pass by itself, such as a pause, keeps a pod from being evicted as well: nobody is to wait for its end.
func (d *decision) hold(w world) {
	if !w.byNode() {
		return
	}
	d.held, d.stays = map[types.UID]string{}, map[types.UID]string{}
	for _, pod := range w.live() {
		if !w.resizesPods() {
			d.held[pod.UID], d.stays[pod.UID] = resize.ReasonMode, resize.ReasonMode
			continue
		}
		refusal := d.standing(w, pod)
		if refusal != nil {
			d.held[pod.UID] = refusal.Reason
		}
		if refusal == nil || refusal.Transient {
			refusal = d.staysForGood(w, pod)
		}
		if refusal != nil {
			d.stays[pod.UID] = refusal.Reason
		}
	}
}

// standing is why a pod is left as it is. That it or another one is to go for want of room is no reason.
func (d *decision) standing(w world, pod *corev1.Pod) *resize.Refusal {
	world := d.gateWorld(w, pod)
	world.Status.Records = resize.Beside(world.Status.Records)
	return resize.Standing(pod, world)
}

// tellNodes passes on which pods are held, where that is news.
func (c *Controller) tellNodes(w world, d decision) {
	key, news := client.ObjectKeyFromObject(w.rec), false
	if w.byNode() {
		news = c.Grants.Hold(key, d.held, d.stays)
	} else {
		news = c.Grants.Forget(key)
	}
	if news && c.HeldChanged != nil {
		c.HeldChanged(key)
	}
}
