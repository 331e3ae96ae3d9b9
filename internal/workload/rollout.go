package workload

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
)

// Rollout says whether a workload's pods are being replaced by those of another template. Pods that
// are merely unavailable, missing or being scaled are no rollout.
type Rollout struct {
	InProgress bool
	// Reason is one sentence where it is in progress.
	Reason string
}

func ofDeployment(d *appsv1.Deployment) Rollout {
	if r := unobserved(d.Generation, d.Status.ObservedGeneration); r.InProgress {
		return r
	}
	if d.Spec.Paused {
		return outdated(d.Status.UpdatedReplicas, d.Status.Replicas, "the rollout is paused (spec.paused)")
	}
	return outdated(d.Status.UpdatedReplicas, d.Status.Replicas, "")
}

// ofStatefulSet compares revisions too: a terminating pod counts among the replicas but not among the
// updated ones, which alone would make a rollout of every replaced pod.
func ofStatefulSet(s *appsv1.StatefulSet) Rollout {
	if r := unobserved(s.Generation, s.Status.ObservedGeneration); r.InProgress {
		return r
	}
	if s.Status.UpdateRevision == s.Status.CurrentRevision {
		return Rollout{}
	}
	return outdated(s.Status.UpdatedReplicas, s.Status.Replicas, heldBack(s))
}

// heldBack says why a StatefulSet's rollout waits for a person.
func heldBack(s *appsv1.StatefulSet) string {
	strategy := s.Spec.UpdateStrategy
	if strategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return "updateStrategy OnDelete waits for the old pods to be deleted"
	}
	if r := strategy.RollingUpdate; r != nil && r.Partition != nil && *r.Partition > 0 {
		return fmt.Sprintf("partition %d holds the lower ordinals back", *r.Partition)
	}
	return ""
}

// ofDaemonSet compares with the nodes that run a pod: one that is only missing is no rollout.
func ofDaemonSet(d *appsv1.DaemonSet) Rollout {
	if r := unobserved(d.Generation, d.Status.ObservedGeneration); r.InProgress {
		return r
	}
	held := ""
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		held = "updateStrategy OnDelete waits for the old pods to be deleted"
	}
	return outdated(d.Status.UpdatedNumberScheduled, d.Status.CurrentNumberScheduled, held)
}

func unobserved(generation, observed int64) Rollout {
	if observed >= generation {
		return Rollout{}
	}
	return Rollout{InProgress: true, Reason: fmt.Sprintf("its controller has not yet seen generation %d", generation)}
}

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
