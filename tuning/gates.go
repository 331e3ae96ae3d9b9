package tuning

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/internal/clip"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

// gates builds the input of the gates of package resize, and keeps what this pass has given away already.
// Without that, two pods of one pass would both get the last free room of a node or of a quota.
type gates struct {
	*pass
	// moving is the pod that is resized although its node seems to have no room; empty: none.
	moving types.UID
	// reserved is what the resizes that begin in this pass take of the namespace's quotas, reservedOn what
	// they take of each node: millicores and bytes.
	reserved   recommender.Size
	reservedOn map[string]recommender.Size
	// other is the size of the object without its records in bytes; 0: not computed yet.
	other int
	// ready is the number of ready pods, nil before it is asked for.
	ready *int
}

// admit passes a plan through the gates, unless planning it was refused already.
func (d *gates) admit(pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal) (resize.Plan, *resize.Refusal) {
	if refusal != nil {
		return plan, refusal
	}
	return resize.Admit(pod, plan, d.input(pod))
}

// input builds what the gates look at for one pod. It contains the status as decided so far and the
// reservations of this pass, so that it has to be built anew for each pod.
func (d *gates) input(pod *corev1.Pod) resize.GateInput {
	node, namespace := pod.Spec.NodeName, d.view.Namespace
	return resize.GateInput{
		Now: d.view.Now, Rules: d.view.Policy.Settings.Resize, Status: d.out.Status, OtherBytes: d.otherBytes(),
		Workload: d.workload(),
		Namespace: resize.NamespaceInput{
			LimitRanges: namespace.Limits, Quotas: namespace.Quotas, Budgets: namespace.Budgets, Terminating: namespace.Terminating,
			Reserved: podview.Sum(d.view.Begin.Reserved.InNamespace(pod.Namespace), d.reserved),
		},
		Node: resize.NodeInput{
			Room: d.view.Looked.Rooms[node], Capabilities: d.view.capabilitiesOn(node),
			Block: d.facts(node).BlockFor(pod.Namespace), Reserved: d.reservedOn[node],
		},
		Unreachable: d.view.unreachable(d.out.Status.Records),
		NoRights:    d.view.Operator.NoRights, NoRightsUrgent: d.view.Operator.NoRightsUrgent,
		Evictable:  d.moving == pod.UID,
		MemorySoon: d.view.Usage.MemorySoon[pod.UID],
	}
}

// workload is what the gates look at of the workload itself.
func (d *gates) workload() resize.WorkloadInput {
	of := d.view.owner()
	in := resize.WorkloadInput{
		Annotations: of.Annotations, Replicas: int(of.Replicas), ReadyReplicas: d.readyPods(), Rollout: of.Rollout.Reason,
		DataUntil: d.view.dataUntil(), StaleAfter: d.view.Policy.Settings.Recommender.StaleAfter(),
		HPA: d.view.Autoscalers.Gate(d.view.Rec.Spec.Containers, d.out.Status.Floors, d.view.Now), VPA: d.view.Autoscalers.VPA(),
	}
	if of.Template != nil {
		in.TemplateAnnotations = of.Template.Annotations
	}
	return in
}

// facts returns what is known of a node, with the lessons of this pass. The loop adds the lessons to its
// own memory only after the pass.
func (d *gates) facts(node string) resize.NodeFacts {
	facts := d.view.Nodes[node].Facts
	for _, l := range d.out.Lessons {
		if l.Record.Node == node {
			facts = facts.Learn(l.Namespace, l.Record, l.Reason, l.Message, d.view.Now)
		}
	}
	return facts
}

// reserve notes what a plan of this pass takes of quotas and of its node. Only growth is counted: room
// that a lowered pod frees is not there before its kubelet has carried the change out.
func (d *gates) reserve(pod *corev1.Pod, plan resize.Plan) {
	d.reserved = podview.Sum(d.reserved, resize.GrowthOf(pod, plan))
	var grows recommender.Size
	for r, amount := range plan.Effect(pod) {
		grows[r].Request = max(0, amount)
	}
	if d.reservedOn == nil {
		d.reservedOn = map[string]recommender.Size{}
	}
	d.reservedOn[pod.Spec.NodeName] = podview.Sum(d.reservedOn[pod.Spec.NodeName], grows)
}

// readyPods counts the ready pods of the workload that are not being deleted. It counts once in a pass:
// the gates ask for each pod, and a workload may have thousands.
func (d *gates) readyPods() int {
	if d.ready != nil {
		return *d.ready
	}
	n := 0
	d.ready = &n
	for _, pod := range d.view.Pods {
		if podview.IsReady(pod) && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// otherBytes estimates the size of the object without its open records, in bytes. It is a rough estimate:
// records must never make the object too large for the API server (etcd refuses objects above about 1.5
// MiB), because then the end of a record could not be stored either. It is computed once in a pass.
func (d *gates) otherBytes() int {
	if d.other == 0 {
		status := d.out.Status
		status.Records = nil
		d.other = metadataBytes + len(clip.JSON(d.view.Rec.Spec)) + len(clip.JSON(status)) + min(resize.StepsBytes, stepsOfOne*len(d.view.Rec.Spec.Containers))
	}
	return d.other
}

// capabilities returns what the pod's node can do, with what this pass has learned.
func (d *gates) capabilities(pod *corev1.Pod) resize.Capabilities {
	return d.view.capabilitiesOn(pod.Spec.NodeName).With(d.facts(pod.Spec.NodeName))
}

// withinReach returns as much of a revert as the API server accepts, and what is in the way of the rest
// (nil: nothing). A LimitRange or a quota may have changed since the resize. Part of a revert is better
// than none: the memory limit that kills a container is often the part that can be given back.
func (d *gates) withinReach(pod *corev1.Pod, plan resize.Plan) (resize.Plan, *resize.Refusal) {
	return resize.WithinReach(pod, plan, resize.GateInput{
		Now:       d.view.Now,
		Namespace: resize.NamespaceInput{LimitRanges: d.view.Namespace.Limits, Quotas: d.view.Namespace.Quotas},
		Node:      resize.NodeInput{Capabilities: d.capabilities(pod)},
	})
}

// Estimates in bytes for what the in-memory copy does not have: the object's name and versions, and the
// steps of one container.
const metadataBytes, stepsOfOne = 1 << 10, 2600
