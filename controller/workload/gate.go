package workload

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// gateWorld is what the gates look at.
func (d *decision) gateWorld(w world, pod *corev1.Pod) resize.World {
	node := pod.Spec.NodeName
	out := resize.World{
		Now: w.now, Rules: w.settings.Resize, Status: d.status,
		WorkloadAnnotations: w.workload.Annotations,
		Replicas:            int(w.workload.Replicas),
		ReadyReplicas:       d.readyPods(w),
		LimitRanges:         w.limits, Quotas: w.quotas,
		DataUntil:            w.dataUntil(),
		StaleAfter:           w.settings.Recommender.StaleAfter(),
		Capabilities:         w.capabilities(pod),
		HPA:                  w.autoscalers.Gate(w.rec.Spec.Containers, d.status.Floors, w.now),
		VPA:                  w.autoscalers.VPA(),
		Promised:             plus(w.promised.inNamespace(pod.Namespace), d.promised),
		PromisedOnNode:       d.promisedOn[node],
		Room:                 w.rooms[node],
		NodeBlock:            d.facts(w, node).Block,
		NoRights:             w.noRights,
		Declined:             w.declined,
		NamespaceTerminating: w.terminating,
		Evictable:            d.moving == pod.UID,
	}
	if w.workload.Template != nil {
		out.TemplateAnnotations = w.workload.Template.Annotations
	}
	if w.workload.Rollout.InProgress {
		out.Rollout = w.workload.Rollout.Reason
	}
	return out
}

// facts are what is known of a node, with what this pass learned.
func (d *decision) facts(w world, node string) resize.NodeFacts {
	facts := w.nodes[node].facts
	for _, l := range d.lessons {
		if l.record.Node == node {
			facts = facts.Learn(l.record, l.reason, l.message, w.now)
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
