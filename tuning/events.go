package tuning

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/recommender"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// All events of a pass, named by what happened. Their texts are read in kubectl describe: a component is
// the subject, and what a person can do stands at the end. The recorder sends the same text about the same
// object at most every 10 minutes (internal/event); an amount or a time in a text makes it another event.

func resized(record v1alpha1.ResizeRecord, changed, drift string) event.Event {
	if drift != "" {
		return event.Warning(v1alpha1.EventResized, "Resized pod %s: %s, but %s; watching it", record.PodName, changed, drift)
	}
	return event.Normal(v1alpha1.EventResized, "Resized pod %s: %s; watching it", record.PodName, changed)
}

func raising(pod *corev1.Pod, m resize.Move, why string) event.Event {
	from, to := m.From[recommender.Memory].Limit, m.To[recommender.Memory].Limit
	return event.Warning(v1alpha1.EventResized, "Raising the memory limit of container %s of pod %s before an OOM kill, %s -> %s: %s", m.Container, pod.Name,
		recommender.Format(recommender.Memory, from), recommender.Format(recommender.Memory, to), why)
}

func raiseKept(pod *corev1.Pod, why string) event.Event {
	return event.Normal(v1alpha1.EventResized, "Pod %s keeps the memory that it was raised to, although its growth was a spike: %s", pod.Name, why)
}

func givingBack(pod *corev1.Pod, plan resize.Plan) event.Event {
	var parts []string
	for _, m := range plan.Moves {
		parts = append(parts, fmt.Sprintf("container %s %s -> %s", m.Container, recommender.Format(recommender.Memory, m.From[recommender.Memory].Limit),
			recommender.Format(recommender.Memory, m.To[recommender.Memory].Limit)))
	}
	return event.Normal(v1alpha1.EventResized, "Giving pod %s its old memory limits back, as the growth was a spike: %s", pod.Name, strings.Join(parts, "; "))
}

func watchEnded(record v1alpha1.ResizeRecord, alert bool, how string) event.Event {
	kind := event.Normal
	if alert {
		kind = event.Warning
	}
	return kind(v1alpha1.EventResized, "The watch of pod %s is over: %s", record.PodName, how)
}

func takingBack(record v1alpha1.ResizeRecord, action lifecycle.Action) event.Event {
	return event.Warning(v1alpha1.EventResizeFailed, "Taking back the resize of pod %s: %s: %s", record.PodName, action.Reason, action.Message)
}

func reverting(record v1alpha1.ResizeRecord, action lifecycle.Action) event.Event {
	return event.Warning(v1alpha1.EventReverted, "Reverting the resize of pod %s: %s: %s", record.PodName, action.Reason, action.Message)
}

func harmNotReverted(record v1alpha1.ResizeRecord, why string, action lifecycle.Action) event.Event {
	return event.Warning(v1alpha1.EventResizeFailed, "The resize of pod %s did harm and is not taken back (%s): %s: %s",
		record.PodName, why, action.Reason, action.Message)
}

func revertPending(record v1alpha1.ResizeRecord, why string) event.Event {
	return event.Warning(v1alpha1.EventRevertPending, "Pod %s does not have its old size back, and it is asked for again: %s", record.PodName, why)
}

func revertGivenUp(record v1alpha1.ResizeRecord, why string) event.Event {
	return event.Warning(v1alpha1.EventRevertPending, "%s", leftAt(record.PodName, why))
}

func supersededBy(record v1alpha1.ResizeRecord) event.Event {
	return event.Warning(v1alpha1.EventResizeFailed, "Another writer resized pod %s; attune leaves it alone", record.PodName)
}

func operatorChanged(now, before string) event.Event {
	return event.Warning(v1alpha1.EventResizeSkipped, "The operator in namespace %s looks after this workload now; it was that in namespace %s", now, before)
}

func pausedBecause(reason string) event.Event {
	return event.Warning(v1alpha1.EventResizeSkipped, "Paused: %s", reason)
}

func skipped(refusal *resize.Refusal) event.Event {
	return event.Warning(v1alpha1.EventResizeSkipped, "%s", refusal.Message)
}

func loweringWithheld(birth v1alpha1.ResizeRecord, pod *corev1.Pod, why string) event.Event {
	return event.Warning(v1alpha1.EventLoweringWithheld, "New pods of template %s are no longer lowered, as pod %s was born below its template's size: %s",
		birth.TemplateHash, pod.Name, why)
}

func seedMarkedBad(revision string, harmful v1alpha1.ResizeRecord, harm, why string) event.Event {
	return event.Warning(v1alpha1.EventSeedMarkedBad, "New pods are no longer born with seed %s, which harmed pod %s: %s: %s",
		revision, harmful.PodName, harm, why)
}

func unscheduledRestored(pod *corev1.Pod) event.Event {
	return event.Warning(v1alpha1.EventReverted, "Giving pod %s the resources of its template, as it fits no node with those of admission", pod.Name)
}

func birthRestored(pod *corev1.Pod, why string) event.Event {
	return event.Warning(v1alpha1.EventReverted, "Giving pod %s what its template says, as it crashes since it was born with less: %s", pod.Name, why)
}

func restoring(pod *corev1.Pod, why string, stopped *resize.Refusal) event.Event {
	return event.Warning(v1alpha1.EventReverted, "Restoring the original resources of pod %s: %s. attune is stopped for the pod: %s. It does nothing about a further kill at the original resources",
		pod.Name, why, stopped.Message)
}

func evicting(pod *corev1.Pod, why string) event.Event {
	return event.Normal(v1alpha1.EventEvicting, "Pod %s is to go from node %s: %s", pod.Name, pod.Spec.NodeName, why)
}

func evictedForRoom(record v1alpha1.ResizeRecord) event.Event {
	return event.Normal(v1alpha1.EventEvicted, "Evicted pod %s from node %s, where it did not fit beside the others; its successor is born with its peak",
		record.PodName, record.Node)
}

func evictedForSize(record v1alpha1.ResizeRecord, row v1alpha1.HistoryEntry) event.Event {
	return event.Normal(v1alpha1.EventEvicted, "Evicted pod %s from node %s, which does not give container %s %s of %s (it had %s); its successor is sized at admission",
		record.PodName, record.Node, row.Container, row.To, row.Resource, row.From)
}

func notEvictable(pod *corev1.Pod, stays *resize.Refusal) event.Event {
	return event.Warning(v1alpha1.EventResizeSkipped, "Pod %s stays on a node that refuses its resize: %s: %s", pod.Name, stays.Reason, stays.Message)
}

func undone(at time.Time) event.Event {
	return event.Normal(v1alpha1.EventUndone, "Undone as asked for at %s: running pods have the sizes from before attune", at.Format(time.RFC3339))
}

func putBack(record v1alpha1.ResizeRecord, row v1alpha1.HistoryEntry) event.Event {
	return event.Normal(v1alpha1.EventResized, "Put %s of %s/%s back: %s -> %s", row.Resource, record.PodName, row.Container, row.From, row.To)
}

func notUndone(pod *corev1.Pod, refusal *resize.Refusal) event.Event {
	return event.Warning(v1alpha1.EventResizeSkipped, "Pod %s cannot be put back to its original size: %s: %s", pod.Name, refusal.Reason, refusal.Message)
}

// leftAt explains what became of a pod that is not put back any more, and what a person can do. An empty
// name stands for an unknown pod: a try that was stored earlier may not have it.
func leftAt(pod, why string) string {
	return fmt.Sprintf("pod %s was to have its old size back and keeps the one it has, as that was given up: %s; remove what is in the way, "+
		"or delete the pod: its successor is not born with the size that did harm", cmp.Or(pod, "of the workload"), why)
}
