package tuning

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// evictor decides which pods are evicted: those whose node refuses a resize, and those whose node has no room.
type evictor struct {
	*pass
	gates   *gates
	closing *closing
}

// recreates: the policy lets pods be evicted whose nodes refuse a resize.
func (d *evictor) recreates() bool {
	return d.view.Policy.Settings.Resize.Method == v1alpha1.ResizeInPlaceOrRecreate
}

// mayEvict asks the one rule about a pod whose node refuses a plan. It asks for the cluster's nodes where the
// answer rests on them.
func (d *evictor) mayEvict(pod *corev1.Pod, plan resize.Plan) *resize.Refusal {
	if d.view.Workload == nil || d.view.Workload.Deleting {
		return &resize.Refusal{Reason: resize.ReasonNoController, PodWide: true, Message: "the workload is gone, and nothing would take the pod's place"}
	}
	refusal := resize.MayEvict(pod, d.eviction(plan))
	if refusal == nil && d.view.Looked.Unread.Cluster != nil {
		return d.view.Looked.Unread.Cluster
	}
	if refusal == nil && d.view.Looked.Cluster == nil {
		d.out.Unknowns.Nodes = true
	}
	return refusal
}

// eviction is what the one rule looks at beside the pod.
func (d *evictor) eviction(plan resize.Plan) resize.Eviction {
	of := d.view.owner()
	e := resize.Eviction{
		Now: d.view.Now, Allowed: d.view.Operator.MayEvict, Paused: d.view.Policy.Settings.Resize.Paused, Annotations: []map[string]string{of.Annotations},
		Siblings: d.view.Pods, Replicas: int(of.Replicas), Records: append(d.out.Status.Records[:len(d.out.Status.Records):len(d.out.Status.Records)], d.view.Rec.Status.Records...),
		NamespaceTerminating: d.view.Namespace.Terminating, Wanted: &plan, Seeded: d.view.Namespace.Seeded, Seed: d.view.Rec.Spec.Seed, Nodes: d.view.Looked.Cluster,
	}
	if of.Template != nil {
		e.Annotations = append(e.Annotations, of.Template.Annotations)
	}
	if of.Rollout.InProgress {
		e.Rollout = of.Rollout.Reason
	}
	return e
}

// unmovable says why a pod is not evicted whose node has no room for a plan, or nil where it may be: then the
// node is asked all the same, since the kubelet's answer decides. One pod of a workload is so at a time.
func (d *evictor) unmovable(pod *corev1.Pod, plan resize.Plan) *resize.Refusal {
	if d.gates.moving != "" && d.gates.moving != pod.UID {
		return &resize.Refusal{Reason: resize.ReasonReplicasNotReady, Message: "another pod of the workload may have to go first", Transient: true}
	}
	for _, r := range d.out.Status.Records {
		if resize.PuttingBack(r) && r.Phase != v1alpha1.RecordReverting {
			return &resize.Refusal{Reason: resize.ReasonReplicasNotReady, Message: "pod " + r.PodName + " of the workload may have to go first", Transient: true}
		}
	}
	return d.mayEvict(pod, plan)
}

// tryElsewhere passes a plan through the gates with the last resort that the policy allows: what the pod's node can
// never hold, or has no room for, is a reason to find the pod another one.
func (d *evictor) tryElsewhere(pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal) (resize.Plan, *resize.Refusal) {
	if !d.recreates() || refusal.Reason != resize.ReasonNodeCapacity && refusal.Reason != resize.ReasonNoRoom {
		return plan, refusal
	}
	if stays := d.unmovable(pod, plan); stays != nil {
		both := *refusal
		both.Message += "; and resizeMethod InPlaceOrRecreate does not evict the pod: " + stays.Message
		return plan, &both
	}
	plan.Elsewhere = refusal.Reason == resize.ReasonNodeCapacity
	world := d.gates.input(pod)
	world.Evictable = true
	plan, refusal = resize.Admit(pod, plan, world)
	if refusal == nil {
		d.gates.moving = pod.UID
	}
	return plan, refusal
}

// evict decides about a pod whose node has refused its resize, and which is back at its old size.
func (d *evictor) evict(pod *corev1.Pod, record, next v1alpha1.ResizeRecord, action resize.Action) {
	stays := d.mayEvict(pod, resize.WholePlan(pod, record))
	d.evictUnless(stays, pod, record, next, func() {
		d.tellOfPod(pod, notEvictable(pod, stays))
		action.Result = resize.ResultWithdrawn
		d.closing.close(record, action)
	})
}

// evictUnless asks for a pod's eviction. Where something keeps the pod, what may pass is waited for; what will not
// gives it up, and that closes the record.
func (d *evictor) evictUnless(stays *resize.Refusal, pod *corev1.Pod, record, next v1alpha1.ResizeRecord, giveUp func()) {
	switch {
	case stays == nil:
		d.denied(pod, record)
		d.out.Evictions = append(d.out.Evictions, pod)
		d.out.Status.Records = append(d.out.Status.Records, next)
	case stays.Transient:
		d.refused.add(pod, stays)
		d.out.Status.Records = append(d.out.Status.Records, record)
	default:
		giveUp()
	}
}

// denied says why a pod is still there that was to be evicted before.
func (d *evictor) denied(pod *corev1.Pod, record v1alpha1.ResizeRecord) {
	if refusal := resize.Denied(record); pod != nil && refusal != nil {
		d.refused.add(pod, refusal)
	}
}
