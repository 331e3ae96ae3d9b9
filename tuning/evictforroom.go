package tuning

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// evictForRoom begins the evictions of pods that do not fit on their nodes beside the others (strategy
// Node), one of the workload at a time. The record is stored first, and the next pass, a second later,
// asks for the eviction: after a crash between the two the record shows that the pod was meant to go.
func (d *evictor) evictForRoom() {
	if !d.view.ByNode() {
		return
	}
	for _, pod := range d.view.Live() {
		why := d.view.Grants[pod.UID].Evict
		if why == "" || hasRecord(d.out.Status.Records, pod) {
			continue
		}
		plan := lifecycle.LeavePlan(pod, d.view.Rec.Spec.Seed)
		if stays := d.staysNow(pod, plan); stays != nil {
			both := *stays
			both.Message = "its node wants it to go (" + why + "), and it stays: " + stays.Message
			d.refused.add(pod, &both)
			continue
		}
		d.out.Status.Records = append(d.out.Status.Records, lifecycle.GivenUp(lifecycle.NewRecord(plan, pod, d.view.Now, d.view.Policy.Settings.Resize)))
		d.tellOfPod(pod, evicting(pod, why))
		d.wake(time.Second)
	}
}

// staysNow returns why a pod that its node wants to go is not evicted now, or nil. RecordsFull is part of
// it, because an eviction needs a record.
func (d *evictor) staysNow(pod *corev1.Pod, plan resize.Plan) *resize.Refusal {
	if refusal := d.notWanted(pod); refusal != nil {
		return refusal
	}
	if refusal := d.standing(pod); refusal != nil {
		return refusal
	}
	if refusal := resize.RecordsFull(pod, plan, d.gates.input(pod)); refusal != nil {
		return refusal
	}
	return d.unmovable(pod, plan)
}

// notWanted returns a refusal where no node wants the pod to go any more, and a transient one where the
// node loop has published no grant since the operator started. Grants are only in memory, so that after a
// restart an old record alone never evicts a pod.
func (d *evictor) notWanted(pod *corev1.Pod) *resize.Refusal {
	granted, known := d.view.Grants[pod.UID]
	switch {
	case !d.view.ByNode(), !d.view.resizesPods(), !d.view.Policy.Settings.Resize.NodeEviction:
		return &resize.Refusal{Reason: resize.ReasonNotWanted, PodWide: true, Message: "its policy lets no node evict it: node.eviction is Disabled, or the mode is not Auto"}
	case !known:
		return &resize.Refusal{Reason: resize.ReasonNotWanted, PodWide: true, Transient: true, Message: "its node has not said anew that it has to go"}
	case granted.Evict == "":
		return &resize.Refusal{Reason: resize.ReasonNotWanted, PodWide: true, Message: "it fits on its node again"}
	}
	return nil
}

// staysForGood returns why the pod may not be evicted until a person changes something, or nil. The node
// loop then chooses another pod instead of waiting for this one.
func (d *evictor) staysForGood(pod *corev1.Pod) *resize.Refusal {
	if !d.view.Policy.Settings.Resize.NodeEviction {
		return nil // its ranking is Never
	}
	return lifecycle.Stays(pod, d.eviction(lifecycle.LeavePlan(pod, d.view.Rec.Spec.Seed)))
}

// finishEviction asks for the eviction of a pod that is to go for room. If the pod fits again, or must
// stay, the record is closed without a result: nothing has happened to the pod.
func (d *evictor) finishEviction(pod *corev1.Pod, record, next v1alpha1.ResizeRecord, action lifecycle.Action) {
	stays := d.notWanted(pod)
	if stays == nil {
		stays = d.standing(pod)
	}
	if stays == nil {
		stays = d.mayEvict(pod, lifecycle.LeavePlan(pod, d.view.Rec.Spec.Seed))
	}
	d.evictUnless(stays, pod, record, next, func() {
		action.Result = ""
		d.closing.close(record, action)
	})
}

// hold reports to the node loop which pods may not be changed now, and which may not be evicted. A reason
// that does not pass by itself, such as a pause, also makes a pod not evictable: no neighbour should wait
// for the end of a pause.
func (d *evictor) hold() {
	if !d.view.ByNode() {
		return
	}
	d.out.ByNode.Held, d.out.ByNode.NotEvictable = map[types.UID]string{}, map[types.UID]string{}
	for _, pod := range d.view.Live() {
		if !d.view.resizesPods() {
			d.out.ByNode.Held[pod.UID], d.out.ByNode.NotEvictable[pod.UID] = resize.ReasonMode, resize.ReasonMode
			continue
		}
		refusal := d.standing(pod)
		if refusal != nil {
			d.out.ByNode.Held[pod.UID] = refusal.Reason
		}
		if refusal == nil || refusal.Transient {
			refusal = d.staysForGood(pod)
		}
		if refusal != nil {
			d.out.ByNode.NotEvictable[pod.UID] = refusal.Reason
		}
	}
}

// standing returns why a pod is left as it is, or nil. Records of pods that leave for want of room are not
// counted: they would otherwise block their own eviction.
func (d *evictor) standing(pod *corev1.Pod) *resize.Refusal {
	world := d.gates.input(pod)
	world.Status.Records = lifecycle.Beside(world.Status.Records)
	return resize.Standing(pod, world)
}
