package workload

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
)

// recreates: the policy lets pods be evicted whose nodes refuse a resize.
func (w world) recreates() bool { return w.settings.Resize.Method == v1alpha1.ResizeInPlaceOrRecreate }

// mayEvict asks the one rule about a pod whose node refuses a plan. It asks for the cluster's nodes where the
// answer rests on them.
func (d *decision) mayEvict(w world, pod *corev1.Pod, plan resize.Plan) *resize.Refusal {
	if w.workload == nil || w.workload.Deleting {
		return &resize.Refusal{Reason: resize.ReasonNoController, PodWide: true, Message: "the workload is gone, and nothing would take the pod's place"}
	}
	refusal := resize.MayEvict(pod, d.eviction(w, plan))
	if refusal == nil && w.unread.cluster != nil {
		return w.unread.cluster
	}
	if refusal == nil && w.cluster == nil {
		d.asks.nodes = true
	}
	return refusal
}

// eviction is what the one rule looks at beside the pod.
func (d *decision) eviction(w world, plan resize.Plan) resize.Eviction {
	of := w.owner()
	e := resize.Eviction{
		Now: w.now, Allowed: w.mayEvict, Paused: w.settings.Resize.Paused, Annotations: []map[string]string{of.Annotations},
		Siblings: w.pods, Replicas: int(of.Replicas), Records: append(d.status.Records[:len(d.status.Records):len(d.status.Records)], w.rec.Status.Records...),
		NamespaceTerminating: w.terminating, Wanted: &plan, Seeded: w.seeded, Seed: w.rec.Spec.Seed, Nodes: w.cluster,
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
func (d *decision) unmovable(w world, pod *corev1.Pod, plan resize.Plan) *resize.Refusal {
	if d.moving != "" && d.moving != pod.UID {
		return &resize.Refusal{Reason: resize.ReasonReplicasNotReady, Message: "another pod of the workload may have to go first", Transient: true}
	}
	for _, r := range d.status.Records {
		if r.Phase == v1alpha1.RecordWithdrawing || r.Phase == v1alpha1.RecordEvicting {
			return &resize.Refusal{Reason: resize.ReasonReplicasNotReady, Message: "pod " + r.PodName + " of the workload may have to go first", Transient: true}
		}
	}
	return d.mayEvict(w, pod, plan)
}

// move passes a plan through the gates with the last resort that the policy allows: what the pod's node can
// never hold, or has no room for, is a reason to find the pod another one.
func (d *decision) move(w world, pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal) (resize.Plan, *resize.Refusal) {
	if !w.recreates() || refusal.Reason != resize.ReasonNodeCapacity && refusal.Reason != resize.ReasonNoRoom {
		return plan, refusal
	}
	if stays := d.unmovable(w, pod, plan); stays != nil {
		both := *refusal
		both.Message += "; and resizeMethod InPlaceOrRecreate does not evict the pod: " + stays.Message
		return plan, &both
	}
	plan.Elsewhere = refusal.Reason == resize.ReasonNodeCapacity
	world := d.gateWorld(w, pod)
	world.Evictable = true
	plan, refusal = resize.Admit(pod, plan, world)
	if refusal == nil {
		d.moving = pod.UID
	}
	return plan, refusal
}

// evict decides about a pod whose node has refused its resize, and which is back at its old size.
func (d *decision) evict(w world, pod *corev1.Pod, record, next v1alpha1.ResizeRecord, action resize.Action) {
	stays := d.mayEvict(w, pod, resize.WholePlan(pod, record))
	d.evictUnless(stays, pod, record, next, func() {
		d.tellOfPod(pod, event.Warning(v1alpha1.EventResizeSkipped, "Pod %s stays on a node that refuses its resize: %s: %s", pod.Name, stays.Reason, stays.Message))
		action.Result = resize.ResultWithdrawn
		d.close(w, record, action)
	})
}

// evictUnless asks for a pod's eviction. Where something keeps the pod, what may pass is waited for; what will not
// gives it up, and that closes the record.
func (d *decision) evictUnless(stays *resize.Refusal, pod *corev1.Pod, record, next v1alpha1.ResizeRecord, giveUp func()) {
	switch {
	case stays == nil:
		d.denied(pod, record)
		d.evictions = append(d.evictions, pod)
		d.status.Records = append(d.status.Records, next)
	case stays.Transient:
		d.refused.add(pod, stays)
		d.status.Records = append(d.status.Records, record)
	default:
		giveUp()
	}
}

// denied says why a pod is still there that was to be evicted before.
func (d *decision) denied(pod *corev1.Pod, record v1alpha1.ResizeRecord) {
	if refusal := resize.Denied(record); pod != nil && refusal != nil {
		d.refused.add(pod, refusal)
	}
}

// evicted tells of a pod that is gone because it was evicted.
func (d *decision) evicted(w world, record v1alpha1.ResizeRecord) {
	if d.evictionCounts = append(d.evictionCounts, resize.EvictionGranted); resize.Leaving(record) {
		d.tellOf(record, event.Normal(v1alpha1.EventEvicted, "Evicted pod %s from node %s, where it did not fit beside the others; its successor is born with its peak", record.PodName, record.Node))
		return
	}
	for _, row := range resize.HistoryRows("", record, resize.ResultEvicted, "", w.now) {
		d.tellOf(record, event.Normal(v1alpha1.EventEvicted, "Evicted pod %s from node %s, which does not give container %s %s of %s (it had %s); its successor is sized at admission",
			record.PodName, record.Node, row.Container, row.To, row.Resource, row.From))
	}
}

// sendEvictions asks for evictions that are stored as under way, and notes where they were denied. Nothing
// is noted of one that was granted: the pod shows it.
func (c *Controller) sendEvictions(ctx context.Context, rec *v1alpha1.AttuneRecommendation, d decision, status *v1alpha1.AttuneRecommendationStatus) {
	for _, pod := range d.evictions {
		err := c.Client.SubResource("eviction").Create(ctx, pod, evictionOf(pod))
		outcome := resize.ClassifyEviction(err)
		log.FromContext(ctx).Info("Asked to evict a pod", "pod", pod.Name, "outcome", outcome, "error", err)
		if outcome == resize.EvictionGranted {
			continue
		}
		c.Events.Send(pod, rec, event.Warning(v1alpha1.EventEvictionDenied, "Pod %s is not evicted now, and is asked for again: %v", pod.Name, err))
		if outcome == resize.EvictionDenied {
			countEviction(rec, outcome)
			notEvicted(rec, status, pod.UID)
		}
	}
}

// notEvicted notes a denial where the decision had hoped for the best: in the record and for people to read.
func notEvicted(rec *v1alpha1.AttuneRecommendation, status *v1alpha1.AttuneRecommendationStatus, pod types.UID) {
	for i := range status.Records {
		if status.Records[i].PodUID != pod {
			continue
		}
		status.Records[i] = resize.NotEvicted(status.Records[i])
		blocked := blockedCondition(resize.Denied(status.Records[i]))
		blocked.ObservedGeneration = rec.Generation
		meta.SetStatusCondition(&status.Conditions, blocked)
	}
}

// evictionOf asks for the very pod that was looked at, as it was then.
func evictionOf(pod *corev1.Pod) *policyv1.Eviction {
	return &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
			UID: &pod.UID, ResourceVersion: &pod.ResourceVersion,
		}},
	}
}
