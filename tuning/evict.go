package tuning

import (
	"cmp"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
	"attune.io/attune/resize/climb"
	"attune.io/attune/resize/lifecycle"
)

// evictor decides which pods to evict: pods whose node refuses a resize (resizeMethod InPlaceOrRecreate), and pods
// for which their node has no room (strategy Node). It evicts one pod of a workload at a time. lifecycle.MayEvict has
// the rules for both cases.
type evictor struct {
	view     *View
	records  *records
	tries    *tries
	unknowns *Unknowns
	reports  *reports
	// gates supplies the input of the gates, and the pod that this reconcile already moves.
	gates *gates
	// evictions is Decision.Evictions.
	evictions []*corev1.Pod
}

// mayEvict calls lifecycle.MayEvict for a pod whose node refuses a plan; nil: it may be evicted. If the answer
// depends on the cluster's nodes and they are not listed yet, it adds them to Unknowns. Decide then runs again with
// the list.
func (d *evictor) mayEvict(pod *corev1.Pod, plan resize.Plan) *resize.Refusal {
	if d.view.Workload == nil || d.view.Workload.Deleting {
		return resize.Refuse(resize.ReasonNoController, "the workload is deleted, so no new pod would replace this one")
	}
	refusal := lifecycle.MayEvict(pod, d.eviction(plan))
	if refusal == nil && d.view.Looked.Unread.Cluster != nil {
		return d.view.Looked.Unread.Cluster
	}
	if refusal == nil && d.view.Looked.Cluster == nil {
		d.unknowns.Nodes = true
	}
	return refusal
}

// eviction builds the input of lifecycle.MayEvict. Records has the records of this reconcile and the stored ones: a
// record that was just closed still means that its pod was changed a moment ago. The capacity of the first slice is
// cut, so that append copies and does not write into the status.
func (d *evictor) eviction(plan resize.Plan) lifecycle.Eviction {
	of := d.view.owner()
	e := lifecycle.Eviction{
		Now: d.view.Now, Allowed: d.view.Operator.MayEvict, Paused: d.view.Policy.Settings.Resize.Paused, Annotations: []map[string]string{of.Annotations},
		Siblings: d.view.Pods, Replicas: int(of.Replicas), Rollout: of.Rollout.Reason, Records: append(d.records.open[:len(d.records.open):len(d.records.open)], d.view.Rec.Status.Records...),
		NamespaceTerminating: d.view.Namespace.Terminating, Wanted: &plan, NotSized: notSized(d.view), Seed: d.view.Rec.Spec.Seed, Tries: d.tries.list, Nodes: d.view.Looked.Cluster,
	}
	if of.Template != nil {
		e.Annotations = append(e.Annotations, of.Template.Annotations)
	}
	return e
}

// notEvictable returns why a pod whose node has no room for a plan is not evicted; nil: it may be evicted. Even then
// the resize is sent to the node first, because only the kubelet's answer is certain. At most one pod of a workload
// is in this state.
func (d *evictor) notEvictable(pod *corev1.Pod, plan resize.Plan) *resize.Refusal {
	if d.gates.moving != "" && d.gates.moving != pod.UID {
		return &resize.Refusal{Reason: resize.ReasonReplicasNotReady, Message: "another pod of the workload may have to be evicted first", Transient: true}
	}
	for _, r := range d.records.open {
		if resize.PuttingBack(r) && r.Phase != v1alpha1.RecordReverting {
			return &resize.Refusal{Reason: resize.ReasonReplicasNotReady, Message: "pod " + r.PodName + " of the workload may have to be evicted first", Transient: true}
		}
	}
	return d.mayEvict(pod, plan)
}

// tryElsewhere passes a refused plan through the gates again, with eviction as the last resort. It applies only if
// the policy allows that and the node can never hold the plan (NodeCapacity) or has no room for it (NoRoom). It
// returns the admitted plan and nil, or the plan and the refusal to report.
func (d *evictor) tryElsewhere(pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal) (resize.Plan, *resize.Refusal) {
	recreates := d.view.Policy.Settings.Resize.Method == v1alpha1.ResizeInPlaceOrRecreate
	if !recreates || refusal.Reason != resize.ReasonNodeCapacity && refusal.Reason != resize.ReasonNoRoom {
		return plan, refusal
	}
	if stays := d.notEvictable(pod, plan); stays != nil {
		both := *refusal
		both.Message += "; the pod is not evicted either (resizeMethod InPlaceOrRecreate): " + stays.Message
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

// evict decides about a pod that has to leave its node: it does not fit there (lifecycle.Leaving), or the node has
// refused its resize and it has its old size again. A transient reason keeps the record, so that the next reconcile
// decides again. stays: the pod stays permanently, and its record is to be closed with a result. A pod that fits again
// is unchanged, so its result is empty.
func (d *evictor) evict(pod *corev1.Pod, record, next v1alpha1.ResizeRecord) (result string, stays bool) {
	switch why := d.staysOnNode(pod, record); {
	case why == nil:
		d.denied(pod, record)
		d.evictions = append(d.evictions, pod)
		d.records.add(next)
	case why.Transient:
		d.reports.refused.add(pod, why)
		d.records.add(record)
	case lifecycle.Leaving(record):
		return "", true
	default:
		d.reports.addPodEvent(pod, event.Warning(v1alpha1.EventResizeSkipped, "Pod %s is not evicted from the node that refuses its resize: %s: %s", pod.Name, why.Reason, why.Message))
		return lifecycle.ResultWithdrawn, true
	}
	return "", false
}

// staysOnNode returns why a pod that has to leave its node is not evicted now; nil: it is evicted.
func (d *evictor) staysOnNode(pod *corev1.Pod, record v1alpha1.ResizeRecord) *resize.Refusal {
	if lifecycle.Leaving(record) {
		if stays := cmp.Or(d.notWanted(pod), d.blocked(pod)); stays != nil {
			return stays
		}
		return d.mayEvict(pod, lifecycle.LeavePlan(pod, d.view.Rec.Spec.Seed))
	}
	stays := d.mayEvict(pod, lifecycle.WholePlan(pod, record))
	if climb.Raised(d.tries.list, pod, record, d.view.Now) { // its successor would be created without the raise
		stays = resize.Refuse(resize.ReasonClimb, "the resize was a memory raise before an OOM kill, and attune never evicts a pod for such a raise")
	}
	return stays
}

// denied adds the refusal of an earlier eviction, for example by a PodDisruptionBudget, so that the condition
// ResizeBlocked explains why the pod still exists.
func (d *evictor) denied(pod *corev1.Pod, record v1alpha1.ResizeRecord) {
	if refusal := lifecycle.Denied(record); pod != nil && refusal != nil {
		d.reports.refused.add(pod, refusal)
	}
}

// evictForRoom begins evictions of pods that do not fit on their nodes (strategy Node), one of the workload at a
// time. The record is stored first; the next reconcile, a second later, evicts the pod. After a crash between the
// two, the record shows that the pod was to be evicted.
func (d *evictor) evictForRoom() {
	if !d.view.ByNode() {
		return
	}
	for _, pod := range d.view.Live() {
		why := d.view.Grants[pod.UID].Evict
		if why == "" || d.records.has(pod) {
			continue
		}
		plan := lifecycle.LeavePlan(pod, d.view.Rec.Spec.Seed)
		if stays := d.notEvictableNow(pod, plan); stays != nil {
			both := *stays
			both.Message = "the pod has to leave its node (" + why + ") but is not evicted: " + stays.Message
			d.reports.refused.add(pod, &both)
			continue
		}
		d.records.add(lifecycle.GivenUp(lifecycle.NewRecord(plan, pod, d.view.Now, d.view.Policy.Settings.Resize)))
		d.reports.addPodEvent(pod, event.Normal(v1alpha1.EventEvicting, "Evicting pod %s from node %s: %s", pod.Name, pod.Spec.NodeName, why))
		d.reports.requeueAfter(time.Second)
	}
}

// notEvictableNow returns why a pod that its node wants to evict is not evicted now; nil: it may be evicted.
// RecordsFull is part of it, because an eviction needs a record.
func (d *evictor) notEvictableNow(pod *corev1.Pod, plan resize.Plan) *resize.Refusal {
	if refusal := cmp.Or(d.notWanted(pod), d.blocked(pod), resize.RecordsFull(pod, plan, d.gates.input(pod))); refusal != nil {
		return refusal
	}
	return d.notEvictable(pod, plan)
}

// notWanted returns a refusal if the node loop no longer wants to evict the pod, and a transient one if the node loop
// has published no grant since the operator started. Grants exist only in memory. So after a restart, a stored record
// alone never evicts a pod.
func (d *evictor) notWanted(pod *corev1.Pod) *resize.Refusal {
	granted, known := d.view.Grants[pod.UID]
	switch {
	case !d.view.ByNode(), !d.view.resizesPods(), !d.view.Policy.Settings.Resize.NodeEviction:
		return resize.Refuse(resize.ReasonNotWanted, "the policy does not allow the eviction: node.eviction is Disabled, or the mode is not Auto")
	case !known:
		return resize.RefuseForNow(resize.ReasonNotWanted, "waiting for the node controller to confirm the eviction")
	case granted.Evict == "":
		return resize.Refuse(resize.ReasonNotWanted, "the pod fits its node again")
	}
	return nil
}

// neverEvictable returns why the pod cannot be evicted until a user changes something; nil: it can. The node loop
// then chooses another pod instead of waiting for this one.
func (d *evictor) neverEvictable(pod *corev1.Pod) *resize.Refusal {
	if !d.view.Policy.Settings.Resize.NodeEviction {
		return nil // the pod's ranking is Never
	}
	return lifecycle.Stays(pod, d.eviction(lifecycle.LeavePlan(pod, d.view.Rec.Spec.Seed)))
}

// blockedPods returns for the node loop which pods must not be changed now, and which must not be evicted. A
// reason that does not pass by itself, such as a pause, also makes a pod not evictable: no other pod should wait for
// the end of a pause.
func (d *evictor) blockedPods() (held, notEvictable map[types.UID]string) {
	if !d.view.ByNode() {
		return nil, nil
	}
	held, notEvictable = map[types.UID]string{}, map[types.UID]string{}
	for _, pod := range d.view.Live() {
		if !d.view.resizesPods() {
			held[pod.UID], notEvictable[pod.UID] = resize.ReasonMode, resize.ReasonMode
			continue
		}
		refusal := d.blocked(pod)
		if refusal != nil {
			held[pod.UID] = refusal.Reason
		}
		if refusal == nil || refusal.Transient {
			refusal = d.neverEvictable(pod)
		}
		if refusal != nil {
			notEvictable[pod.UID] = refusal.Reason
		}
	}
	return held, notEvictable
}

// blocked returns why a pod must not be changed; nil: it may be. Records of pods that are evicted for lack of room
// are ignored, because they would block their own eviction.
func (d *evictor) blocked(pod *corev1.Pod) *resize.Refusal {
	world := d.gates.input(pod)
	world.Status.Records = lifecycle.WithoutLeaving(world.Status.Records)
	return resize.Blocked(pod, world)
}
