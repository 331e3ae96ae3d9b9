package tuning

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// gates build what the gates of resize look at, and keep what this pass has given away already.
type gates struct {
	*pass
	// moving is the pod that is resized although its node seems to have no room; empty: none.
	moving types.UID
	// reserved is what the resizes that begin take of the namespace's quotas, reservedOn of each node.
	reserved   recommender.Size
	reservedOn map[string]recommender.Size
	// other is what the object takes without its records in bytes, 0 before it is asked for.
	other int
	// ready is the number of ready pods, nil before it is asked for.
	ready *int
}

// input is what the gates look at.
func (d *gates) input(pod *corev1.Pod) resize.World {
	node, of := pod.Spec.NodeName, d.view.owner()
	out := resize.World{
		Now: d.view.Now, Rules: d.view.Policy.Settings.Resize, Status: d.out.Status, OtherBytes: d.otherBytes(),
		WorkloadAnnotations: of.Annotations,
		Replicas:            int(of.Replicas),
		ReadyReplicas:       d.readyPods(),
		LimitRanges:         d.view.Namespace.Limits, Quotas: d.view.Namespace.Quotas, Budgets: d.view.Namespace.Budgets,
		DataUntil:            d.view.dataUntil(),
		StaleAfter:           d.view.Policy.Settings.Recommender.StaleAfter(),
		Capabilities:         d.view.capabilities(pod),
		HPA:                  d.view.Autoscalers.Gate(d.view.Rec.Spec.Containers, d.out.Status.Floors, d.view.Now),
		VPA:                  d.view.Autoscalers.VPA(),
		Promised:             plus(d.view.Begin.Reserved.InNamespace(pod.Namespace), d.reserved),
		PromisedOnNode:       d.reservedOn[node],
		Room:                 d.view.Looked.Rooms[node],
		Unreachable:          d.view.unreachable(d.out.Status.Records),
		NodeBlock:            d.facts(node).BlockFor(pod.Namespace),
		NoRights:             d.view.Operator.NoRights,
		NoRightsUrgent:       d.view.Operator.NoRightsUrgent,
		NamespaceTerminating: d.view.Namespace.Terminating,
		Evictable:            d.moving == pod.UID,
		MemorySoon:           d.view.Usage.MemorySoon[pod.UID],
	}
	if of.Template != nil {
		out.TemplateAnnotations = of.Template.Annotations
	}
	if of.Rollout.InProgress {
		out.Rollout = of.Rollout.Reason
	}
	return out
}

// facts are what is known of a node, with what this pass learned.
func (d *gates) facts(node string) resize.NodeFacts {
	facts := d.view.Nodes[node].Facts
	for _, l := range d.out.Lessons {
		if l.Record.Node == node {
			facts = facts.Learn(l.Namespace, l.Record, l.Reason, l.Message, d.view.Now)
		}
	}
	return facts
}

// reserve notes what a plan of this pass takes, so that no other plan is given it too.
func (d *gates) reserve(pod *corev1.Pod, plan resize.Plan) {
	d.reserved = plus(d.reserved, resize.GrowthOf(pod, plan))
	var grows recommender.Size
	for r, amount := range plan.Effect(pod) {
		grows[r].Request = max(0, amount)
	}
	if d.reservedOn == nil {
		d.reservedOn = map[string]recommender.Size{}
	}
	d.reservedOn[pod.Spec.NodeName] = plus(d.reservedOn[pod.Spec.NodeName], grows)
}

// readyPods counts the workload's ready pods, once for a pass.
func (d *gates) readyPods() int {
	if d.ready != nil {
		return *d.ready
	}
	n := 0
	d.ready = &n
	for _, pod := range d.view.Pods {
		if isReady(pod) && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// otherBytes is about what the object takes without its open records. It is worked out once in a pass, and only where
// records could fill it.
func (d *gates) otherBytes() int {
	if d.other == 0 {
		status := d.out.Status
		status.Records = nil
		d.other = metadataBytes + jsonBytes(d.view.Rec.Spec) + jsonBytes(status) + min(resize.StepsBytes, stepsOfOne*len(d.view.Rec.Spec.Containers))
	}
	return d.other
}

func jsonBytes(of any) int {
	raw, err := json.Marshal(of)
	if err != nil {
		panic("what was read as JSON goes back into it: " + err.Error())
	}
	return len(raw)
}

// capabilities are what a pod's node can do, with what this pass learned of it.
func (d *gates) capabilities(pod *corev1.Pod) resize.Capabilities {
	return d.view.capabilities(pod).With(d.facts(pod.Spec.NodeName))
}

// withinReach is as much of a revert as the API server will take, and what is in the way of the rest.
func (d *gates) withinReach(pod *corev1.Pod, plan resize.Plan) (resize.Plan, *resize.Refusal) {
	return resize.WithinReach(pod, plan, resize.World{
		Now: d.view.Now, LimitRanges: d.view.Namespace.Limits, Quotas: d.view.Namespace.Quotas, Capabilities: d.capabilities(pod),
	})
}

// What is not in the copy that a decision is made on: the object's name and versions, and the steps of each container.
const metadataBytes, stepsOfOne = 1 << 10, 2600
