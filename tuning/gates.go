package tuning

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/clip"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// gates builds the input of the gates of package resize, and tracks the room that this reconcile has already
// assigned. Without that, two pods of one reconcile would both get the last free room of a node or of a quota.
type gates struct {
	view *View
	// lessons is Decision.Lessons.
	lessons *[]Lesson
	// status returns the status as decided so far.
	status func() v1alpha1.AttuneRecommendationStatus
	// moving is the pod that is resized although its node seems to have no room; empty: no such pod.
	moving types.UID
	// reserved is the growth of this reconcile's resizes in the namespace's quotas, reservedOn their growth per node,
	// in millicores and bytes.
	reserved   recommender.Size
	reservedOn map[string]recommender.Size
	// other is the size of the object without its records, in bytes; 0: not computed yet.
	other int
	// ready is the number of ready pods; nil: not counted yet.
	ready *int
	// stands is the workload's rollout if it makes no progress; nil: not decided yet.
	stands *standing
}

// admit passes a plan through the gates, unless planning was already refused.
func (d *gates) admit(pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal) (resize.Plan, *resize.Refusal) {
	if refusal != nil {
		return plan, refusal
	}
	return resize.Admit(pod, plan, d.input(pod))
}

// planUrgent plans a raise with the priority of an answer to an OOM kill, and passes it through the gates.
func (d *gates) planUrgent(pod *corev1.Pod, wishes []podview.Container, reason string, in resize.GateInput) (resize.Plan, *resize.Refusal) {
	plan, refusal := resize.PlanFor(pod, wishes, d.capabilities(pod), d.view.Now)
	if refusal != nil {
		return plan, refusal
	}
	plan.Urgent, plan.Reason = true, reason
	return resize.Admit(pod, plan, in)
}

// input builds the input of the gates for one pod. It contains the status decided so far and the reservations of this
// reconcile, so it must be built again for each pod.
func (d *gates) input(pod *corev1.Pod) resize.GateInput {
	node, namespace, status := pod.Spec.NodeName, d.view.Namespace, d.status()
	return resize.GateInput{
		Now: d.view.Now, Rules: d.view.Policy.Settings.Resize, Status: status, OtherBytes: d.otherBytes(),
		Workload: d.workload(pod, status.Floors),
		Namespace: resize.NamespaceInput{
			LimitRanges: namespace.Limits, Quotas: namespace.Quotas, Budgets: namespace.Budgets, Terminating: namespace.Terminating,
			Reserved: podview.Sum(d.view.Begin.Reserved.InNamespace(pod.Namespace), d.reserved), NotSized: notSized(d.view),
		},
		Node: resize.NodeInput{
			Room: d.view.Looked.Rooms[node], Capabilities: d.view.capabilitiesOn(node),
			Block: d.facts(node).BlockFor(pod.Namespace), Reserved: d.reservedOn[node], Karpenter: resize.OfKarpenter(d.view.Nodes[node].Node),
		},
		Unreachable: d.view.unreachable(status.Records),
		NoRights:    d.view.Operator.NoRights, NoRightsUrgent: d.view.Operator.NoRightsUrgent,
		Evictable:  d.moving == pod.UID,
		Due:        resize.DueOf(pod, d.view.Usage.Lately[pod.UID]),
		MemorySoon: d.view.Usage.MemorySoon[pod.UID],
	}
}

// workload builds the workload's part of the input for one pod.
func (d *gates) workload(pod *corev1.Pod, floors []v1alpha1.Floor) resize.WorkloadInput {
	of := d.view.owner()
	if d.stands == nil {
		d.stands = new(d.view.standingRollout())
	}
	in := resize.WorkloadInput{
		Annotations: of.Annotations, Replicas: int(of.Replicas), ReadyReplicas: d.readyPods(), Rollout: d.stands.blocks(pod, of.Rollout.Reason),
		DataUntil: d.view.dataUntil(), StaleAfter: d.view.Policy.Settings.Recommender.StaleAfter(),
		HPA: d.view.Autoscalers.Gate(d.view.Rec.Spec.Containers, floors, d.view.Now), ScaledOn: d.view.scaledOn(), VPA: d.view.Autoscalers.VPA(),
		TargetSoon: d.view.Begin.TargetSoon,
	}
	if of.Template != nil {
		in.TemplateAnnotations = of.Template.Annotations
	}
	return in
}

// facts returns the known limitations of a node, including the lessons of this reconcile. The loop adds those to its
// own memory only afterwards.
func (d *gates) facts(node string) resize.NodeFacts {
	facts := d.view.Nodes[node].Facts
	for _, l := range *d.lessons {
		if l.Record.Node == node {
			facts = facts.Learn(l.Namespace, l.Record, l.Reason, l.Message, d.view.Now)
		}
	}
	return facts
}

// capabilities returns the capabilities of the pod's node, including what this reconcile has learned.
func (d *gates) capabilities(pod *corev1.Pod) resize.Capabilities {
	return d.view.capabilitiesOn(pod.Spec.NodeName).With(d.facts(pod.Spec.NodeName))
}

// learn stores a node limitation if the node did not carry out a record's resize. A record counts only for its pod's
// current node: a user who can write records must not be able to block other nodes.
func (d *gates) learn(pod *corev1.Pod, record v1alpha1.ResizeRecord, action lifecycle.Action, state lifecycle.State) {
	if fails(record, action) && pod != nil && pod.Spec.NodeName == record.Node {
		*d.lessons = append(*d.lessons, Lesson{d.view.Rec.Namespace, record, action.Reason, state.Message})
	}
}

// reserve stores what a plan of this reconcile takes from quotas and from its node. Only growth counts: the room of a
// lowered pod is not free before its kubelet has carried out the resize.
func (d *gates) reserve(pod *corev1.Pod, plan resize.Plan) {
	d.reserved = podview.Sum(d.reserved, resize.GrowthOf(pod, plan))
	var grows recommender.Size
	for r, amount := range plan.Effect(pod) {
		grows[r].Request = max(0, amount)
	}
	podview.SetIn(&d.reservedOn, pod.Spec.NodeName, podview.Sum(d.reservedOn[pod.Spec.NodeName], grows))
}

// readyPods counts the workload's ready pods that are not being deleted. It counts once per reconcile, because the
// gates ask for each pod, and a workload may have thousands.
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

// otherBytes estimates the size of the object without its records, in bytes, once per reconcile. Records must not
// make the object too large for the API server (etcd refuses objects above about 1.5 MiB). Otherwise the end of a
// record could not be stored either.
func (d *gates) otherBytes() int {
	if d.other == 0 {
		status := d.status()
		status.Records = nil
		d.other = metadataBytes + len(clip.JSON(d.view.Rec.Spec)) + len(clip.JSON(status)) + min(resize.StepsBytes, stepsOfOne*len(d.view.Rec.Spec.Containers))
	}
	return d.other
}

// withinReach returns the part of a revert that the API server accepts, and what blocks the rest (nil: nothing). A
// LimitRange or a quota may have changed since the resize. A partial revert is better than no revert: often the
// memory limit that kills a container can be restored.
func (d *gates) withinReach(pod *corev1.Pod, plan resize.Plan) (resize.Plan, *resize.Refusal) {
	return resize.WithinReach(pod, plan, resize.GateInput{
		Now:       d.view.Now,
		Namespace: resize.NamespaceInput{LimitRanges: d.view.Namespace.Limits, Quotas: d.view.Namespace.Quotas},
		Node:      resize.NodeInput{Capabilities: d.capabilities(pod)},
	})
}

// Estimates in bytes for parts that the in-memory copy lacks: the object's name and versions, and the explanation
// steps of one container.
const metadataBytes, stepsOfOne = 1 << 10, 2600

// Reservation is the growth of an in-flight resize that the cache does not show yet. Without it, two workloads
// decided at the same moment would both count on the same free room of a node or a quota. It is comparable with ==.
type Reservation struct {
	// UID is the uid of the pod that grows.
	UID types.UID
	// Namespace and Node are the pod's: they name the quotas and the node whose room it takes.
	Namespace, Node string
	// Needs is the pod's footprint on the node after the resize, as the scheduler counts it: millicores of CPU and
	// bytes of memory.
	Needs [2]recommender.Amount
	// Growth is what the resize adds to the namespace's quotas: requests and limits, in millicores and bytes.
	Growth recommender.Size
}

// Reservations are the reservations of all workloads at one moment. The zero value has none.
type Reservations struct {
	// Version changes with each new reservation. The loop compares it before it accepts a decision: if it has
	// changed, the decision may count on room that is taken.
	Version int
	// All has no order.
	All []Reservation
}

// OnNode returns the reserved footprint on a node by pod uid, in millicores and bytes; empty: nothing is reserved.
func (l Reservations) OnNode(node string) map[types.UID][2]recommender.Amount {
	taken := map[types.UID][2]recommender.Amount{}
	for _, p := range l.All {
		if p.Node == node {
			taken[p.UID] = p.Needs
		}
	}
	return taken
}

// InNamespace returns the sum of the reserved growth in the quotas of a namespace.
func (l Reservations) InNamespace(namespace string) recommender.Size {
	var sum recommender.Size
	for _, p := range l.All {
		if p.Namespace == namespace {
			sum = podview.Sum(sum, p.Growth)
		}
	}
	return sum
}

// ReservationsOf derives the reservations from the records of a workload's pods. So they need no storage and survive
// a restart. pods returns a pod by its uid, or nil for a deleted pod, which reserves nothing.
func ReservationsOf(records []v1alpha1.ResizeRecord, pods func(types.UID) *corev1.Pod) []Reservation {
	var made []Reservation
	for _, record := range records {
		pod := pods(record.PodUID)
		if pod == nil || !lifecycle.OnItsWay(pod, record) {
			continue
		}
		plan := lifecycle.WholePlan(pod, record)
		made = append(made, Reservation{
			UID: pod.UID, Namespace: pod.Namespace, Node: pod.Spec.NodeName,
			Needs: plan.Needs(pod), Growth: resize.GrowthOf(pod, plan),
		})
	}
	return made
}
