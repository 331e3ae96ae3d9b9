package workload

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
)

// Rollout reports whether pods of a new template are replacing the pods of a workload. Unavailable or missing pods, and
// scaling, are not a rollout. The zero value means that no rollout is in progress.
type Rollout struct {
	// InProgress is true while pods of an older template exist or the controller has not seen the newest one.
	InProgress bool
	// Reason is one sentence: what the rollout waits for. It is empty if no rollout is in progress.
	Reason string
}

func ofDeployment(d *appsv1.Deployment) Rollout {
	held := ""
	if d.Spec.Paused {
		held = "the rollout is paused (spec.paused)"
	}
	return cmp.Or(unobserved(d.Generation, d.Status.ObservedGeneration), outdated(d.Status.UpdatedReplicas, d.Status.Replicas, held))
}

// ofStatefulSet also compares revisions: a terminating pod counts as a replica but not as an updated one, so with the
// counts alone every replaced pod would look like a rollout.
func ofStatefulSet(s *appsv1.StatefulSet) Rollout {
	unseen := unobserved(s.Generation, s.Status.ObservedGeneration)
	if s.Status.UpdateRevision == s.Status.CurrentRevision {
		return unseen
	}
	return cmp.Or(unseen, outdated(s.Status.UpdatedReplicas, s.Status.Replicas, waitsForUser(s)))
}

// waitsForUser is why a StatefulSet's rollout waits for a user; empty if it does not.
func waitsForUser(s *appsv1.StatefulSet) string {
	strategy := s.Spec.UpdateStrategy
	if strategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return "updateStrategy OnDelete waits for the old pods to be deleted"
	}
	if r := strategy.RollingUpdate; r != nil && r.Partition != nil && *r.Partition > 0 {
		return fmt.Sprintf("partition %d keeps pods with lower ordinals on the old template", *r.Partition)
	}
	return ""
}

// ofDaemonSet compares with the number of nodes that run a pod: a missing pod is not a rollout.
func ofDaemonSet(d *appsv1.DaemonSet) Rollout {
	held := ""
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		held = "updateStrategy OnDelete waits for the old pods to be deleted"
	}
	counted := outdated(d.Status.UpdatedNumberScheduled, d.Status.CurrentNumberScheduled, held)
	return cmp.Or(unobserved(d.Generation, d.Status.ObservedGeneration), counted)
}

// unobserved is a rollout until the controller has seen the newest spec: until then its counts are stale.
func unobserved(generation, observed int64) Rollout {
	if observed >= generation {
		return Rollout{}
	}
	return Rollout{InProgress: true, Reason: fmt.Sprintf("its controller has not observed generation %d yet", generation)}
}

// outdated is a rollout while some pods do not run the newest template.
func outdated(updated, total int32, held string) Rollout {
	if updated >= total {
		return Rollout{}
	}
	reason := fmt.Sprintf("%d of %d pods run the newest template", updated, total)
	if held != "" {
		reason += "; " + held
	}
	return Rollout{InProgress: true, Reason: reason}
}
