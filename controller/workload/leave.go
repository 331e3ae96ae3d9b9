package workload

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
)

// sendAway begins the evictions of pods that do not fit on their nodes beside the others (strategy Node): one of
// the workload at a time. What is decided is stored first; the next look asks for the eviction.
func (d *decision) sendAway(w world) {
	if !w.byNode() {
		return
	}
	for _, pod := range w.live() {
		why := w.granted[pod.UID].Evict
		if why == "" || hasRecord(d.status.Records, pod) {
			continue
		}
		plan := resize.LeavePlan(pod, w.rec.Spec.Seed)
		if stays := d.staysNow(w, pod, plan); stays != nil {
			both := *stays
			both.Message = "its node wants it to go (" + why + "), and it stays: " + stays.Message
			d.refused.add(pod, &both)
			continue
		}
		d.status.Records = append(d.status.Records, resize.GivenUp(resize.NewRecord(plan, pod, w.now, w.settings.Resize)))
		d.tellOfPod(pod, event.Normal(v1alpha1.EventEvicting, "Pod %s is to go from node %s: %s", pod.Name, pod.Spec.NodeName, why))
		d.wake(time.Second)
	}
}

// staysNow is why a pod that its node wants to go is not sent away now, or nil.
func (d *decision) staysNow(w world, pod *corev1.Pod, plan resize.Plan) *resize.Refusal {
	if refusal := notWanted(w, pod); refusal != nil {
		return refusal
	}
	if refusal := d.standing(w, pod); refusal != nil {
		return refusal
	}
	if refusal := resize.RecordsFull(pod, plan, d.gateWorld(w, pod)); refusal != nil {
		return refusal
	}
	return d.unmovable(w, pod, plan)
}

// notWanted: nobody wants the pod to go any more, or nobody has said so since the operator started.
func notWanted(w world, pod *corev1.Pod) *resize.Refusal {
	granted, known := w.granted[pod.UID]
	switch {
	case !w.byNode(), !w.resizesPods(), !w.settings.Resize.NodeEviction:
		return &resize.Refusal{Reason: resize.ReasonNotWanted, PodWide: true, Message: "its policy lets no node evict it: node.eviction is Disabled, or the mode is not Auto"}
	case !known:
		return &resize.Refusal{Reason: resize.ReasonNotWanted, PodWide: true, Transient: true, Message: "its node has not said anew that it has to go"}
	case granted.Evict == "":
		return &resize.Refusal{Reason: resize.ReasonNotWanted, PodWide: true, Message: "it fits on its node again"}
	}
	return nil
}

// staysForGood is why the pod may not be evicted until somebody changes something, or nil: then somebody else goes in its place.
func (d *decision) staysForGood(w world, pod *corev1.Pod) *resize.Refusal {
	if !w.settings.Resize.NodeEviction {
		return nil // its ranking is Never
	}
	return resize.Stays(pod, d.eviction(w, resize.LeavePlan(pod, w.rec.Spec.Seed)))
}

// leave asks for the eviction of a pod that is to go, unless that is over: then nothing has happened.
func (d *decision) leave(w world, pod *corev1.Pod, record, next v1alpha1.ResizeRecord, action resize.Action) {
	stays := notWanted(w, pod)
	if stays == nil {
		stays = d.standing(w, pod)
	}
	if stays == nil {
		stays = d.mayEvict(w, pod, resize.LeavePlan(pod, w.rec.Spec.Seed))
	}
	d.evictUnless(stays, pod, record, next, func() {
		action.Result = ""
		d.close(w, record, action)
	})
}
