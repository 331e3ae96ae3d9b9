package resize

import (
	corev1 "k8s.io/api/core/v1"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
)

// LeavePlan is that of a pod that does not fit on its node beside the others (strategy Node): nothing of it is
// changed, and its successor is to be born with its seed, the workload's peak. Without a seed the successor would
// ask for what the pod asks for. It names every container, moved or not: the record of it is the pod's.
func LeavePlan(pod *corev1.Pod, seed *v1alpha1.Seed) Plan {
	plan := planOf(pod)
	plan.Elsewhere, plan.Reason = true, ReasonDoesNotFit
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
		plan.Moves = append(plan.Moves, Move{Container: c.Name, Sidecar: podview.IsSidecar(pod, c), From: from, To: to})
	}
	return plan
}

// Leaving: the record is that of a pod that is to go because it does not fit on its node.
func Leaving(record v1alpha1.ResizeRecord) bool {
	return record.Reason == ReasonDoesNotFit && PuttingBack(record)
}

// Beside are the records of a workload without those of pods that are to go for want of room: nothing of theirs is
// changed, so they hold nothing up, and their nodes go on counting them among those that share.
func Beside(records []v1alpha1.ResizeRecord) []v1alpha1.ResizeRecord {
	var out []v1alpha1.ResizeRecord
	for _, r := range records {
		if !Leaving(r) {
			out = append(out, r)
		}
	}
	return out
}
