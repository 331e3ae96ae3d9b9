package lifecycle

import (
	"attune.io/attune/resize"
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// LeavePlan is the plan for a pod that does not fit on its node beside the others (strategy Node). Nothing of the
// pod is changed: it is evicted, and its successor is created with the workload's seed. Without a seed the plan
// names the present requests. It has a move for every container, changed or not, so that the record covers the
// pod.
func LeavePlan(pod *corev1.Pod, seed *v1alpha1.Seed) resize.Plan {
	plan := resize.PlanOf(pod)
	plan.Elsewhere, plan.Reason = true, resize.ReasonDoesNotFit
	for _, c := range podview.Resizable(pod) {
		from := podview.ReadSpec(c.Resources)
		to := from
		for _, r := range recommender.Resources {
			if seed == nil {
				continue
			}
			if given := seedOf(*seed, c.Name, r); given > 0 {
				to[r].Request = given
			}
		}
		plan.Moves = append(plan.Moves, resize.Move{Container: c.Name, Sidecar: podview.IsSidecar(pod, c), From: from, To: to})
	}
	return plan
}

// Leaving reports whether the record is that of a pod that is to go because it does not fit on its node.
func Leaving(record v1alpha1.ResizeRecord) bool {
	return record.Reason == resize.ReasonDoesNotFit && resize.PuttingBack(record)
}

// Beside returns the records without those of pods that are to leave for lack of room. Nothing of these pods is
// changed, so they hold nothing up, and their nodes go on counting them among the pods that share.
func Beside(records []v1alpha1.ResizeRecord) []v1alpha1.ResizeRecord {
	var out []v1alpha1.ResizeRecord
	for _, r := range records {
		if !Leaving(r) {
			out = append(out, r)
		}
	}
	return out
}
