package workload

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// gateWorld is what the gates look at.
func (d *decision) gateWorld(w world, pod *corev1.Pod) resize.World {
	node, of := pod.Spec.NodeName, w.owner()
	out := resize.World{
		Now: w.now, Rules: w.settings.Resize, Status: d.status, OtherBytes: d.otherBytes(w),
		WorkloadAnnotations: of.Annotations,
		Replicas:            int(of.Replicas),
		ReadyReplicas:       d.readyPods(w),
		LimitRanges:         w.limits, Quotas: w.quotas, Budgets: w.budgets,
		DataUntil:            w.dataUntil(),
		StaleAfter:           w.settings.Recommender.StaleAfter(),
		Capabilities:         w.capabilities(pod),
		HPA:                  w.autoscalers.Gate(w.rec.Spec.Containers, d.status.Floors, w.now),
		VPA:                  w.autoscalers.VPA(),
		Promised:             plus(w.promised.inNamespace(pod.Namespace), d.promised),
		PromisedOnNode:       d.promisedOn[node],
		Room:                 w.rooms[node],
		Unreachable:          w.unreachable(d.status.Records),
		NodeBlock:            d.facts(w, node).BlockFor(pod.Namespace),
		NoRights:             w.noRights,
		NoRightsUrgent:       w.noRightsUrgent,
		NamespaceTerminating: w.terminating,
		Evictable:            d.moving == pod.UID,
		MemorySoon:           w.unweighed[pod.UID],
	}
	if of.Template != nil {
		out.TemplateAnnotations = of.Template.Annotations
	}
	if of.Rollout.InProgress {
		out.Rollout = of.Rollout.Reason
	}
	return out
}

// unreachable are the nodes of records that are not ready.
func (w world) unreachable(records []v1alpha1.ResizeRecord) map[string]bool {
	out := map[string]bool{}
	for _, r := range records {
		if w.nodeNotReady(r.Node) {
			out[r.Node] = true
		}
	}
	return out
}

// facts are what is known of a node, with what this pass learned.
func (d *decision) facts(w world, node string) resize.NodeFacts {
	facts := w.nodes[node].facts
	for _, l := range d.lessons {
		if l.record.Node == node {
			facts = facts.Learn(l.namespace, l.record, l.reason, l.message, w.now)
		}
	}
	return facts
}

// promise notes what a plan of this pass takes, so that no other plan is given it too.
func (d *decision) promise(pod *corev1.Pod, plan resize.Plan) {
	d.promised = plus(d.promised, resize.GrowthOf(pod, plan))
	var grows recommender.Size
	for r, amount := range plan.Effect(pod) {
		grows[r].Request = max(0, amount)
	}
	if d.promisedOn == nil {
		d.promisedOn = map[string]recommender.Size{}
	}
	d.promisedOn[pod.Spec.NodeName] = plus(d.promisedOn[pod.Spec.NodeName], grows)
}
