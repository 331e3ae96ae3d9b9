package workload

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/grant"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// byNode: the pods are sized by their nodes' grants, not by one target. Cooldown, canary, waves and the change
// filter do not apply; plans, gates, records, watches and reverts do.
func (w world) byNode() bool {
	return w.rec.Spec.Strategy == v1alpha1.StrategyNode || w.settings.Strategy == v1alpha1.StrategyNode
}

// observeGrants reads what the nodes of the pods grant them.
func (c *Controller) observeGrants(w *world) {
	w.granted = map[types.UID]grant.Pod{}
	for _, pod := range w.pods {
		if granted, ok := c.Grants.Of(pod.UID); ok && w.byNode() {
			w.granted[pod.UID] = granted
		}
	}
}

// granted are the sizes that a pod's node grants its containers. A pod without a grant has no wishes.
func (w world) grantedTo(pod *corev1.Pod) []resize.Container {
	var out []resize.Container
	for _, c := range resize.Read(pod) {
		size := w.granted[pod.UID].Sizes[c.Name]
		if size == (recommender.Size{}) || w.settings.Resize.Excluded[c.Name] {
			continue
		}
		out = append(out, resize.Container{Name: c.Name, Sidecar: c.Sidecar, Size: size, MemoryUsage: w.memory[pod.UID][c.Name]})
	}
	return out
}

// wave are the plans that go now.
func (d *decision) wave(w world, plans []resize.Plan) []resize.Plan {
	if w.byNode() {
		return resize.Together(plans, len(d.status.Records), v1alpha1.MaxRecords)
	}
	return resize.Wave(plans, d.status.Records, d.status.Kept, len(w.live()), w.settings.Resize, w.unreachable(d.status.Records))
}

// hold notes the pods that are left as they are whatever their nodes grant them: their nodes count them so.
func (d *decision) hold(w world) {
	if !w.byNode() {
		return
	}
	d.held, d.stays = map[types.UID]string{}, map[types.UID]string{}
	for _, pod := range w.live() {
		if !w.resizesPods() {
			d.held[pod.UID] = resize.ReasonMode
			continue
		}
		if refusal := d.standing(w, pod); refusal != nil {
			d.held[pod.UID] = refusal.Reason
			continue
		}
		if refusal := d.staysForGood(w, pod); refusal != nil {
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
func (c *Controller) tellNodes(rec *v1alpha1.AttuneRecommendation, d decision) {
	key := client.ObjectKeyFromObject(rec)
	if c.Grants.Hold(key, d.held, d.stays) && c.HeldChanged != nil {
		c.HeldChanged(key)
	}
}
