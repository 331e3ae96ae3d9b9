package workload

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/event"
	"attune.io/attune/resize"
)

// putBackAsFar sends what puts a pod back, as far as the API server will take it; the record stays open until
// all of it is back.
func (d *decision) putBackAsFar(w world, pod *corev1.Pod, record v1alpha1.ResizeRecord) {
	plan, nothing := resize.RevertPlan(pod, record)
	if nothing != nil {
		return
	}
	plan, limit := resize.WithinReach(pod, plan, resize.World{
		Now: w.now, LimitRanges: w.limits, Quotas: w.quotas, Capabilities: d.capabilities(w, pod),
	})
	if limit != nil {
		d.stillToPutBack(record, limit.Reason+": "+limit.Message)
	}
	if !plan.Empty() {
		d.writes = append(d.writes, write{pod, plan})
	}
}

// waitsToBePutBack tells of a pod whose old size is asked for, and whose node does not give it.
func (d *decision) waitsToBePutBack(record v1alpha1.ResizeRecord, action resize.Action) {
	if action.Kind == resize.Wait && action.Alert {
		d.stillToPutBack(record, action.Message)
	}
}

// stillToPutBack alerts a person: the operator goes on trying for as long as it takes.
func (d *decision) stillToPutBack(record v1alpha1.ResizeRecord, why string) {
	d.pending = append(d.pending, fmt.Sprintf("pod %s does not have its old size back: %s", record.PodName, why))
	d.tell(event.Warning(v1alpha1.EventRevertPending, "Pod %s does not have its old size back, and it is asked for again: %s", record.PodName, why))
}
