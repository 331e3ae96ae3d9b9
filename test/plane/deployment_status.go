package plane

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// deploymentStatus reports; in a rollout it also estimates its progress (syncRolloutStatus).
func (p *Plane) deploymentStatus(ctx context.Context, v *view, r *rollout, estimate bool) error {
	status := r.counts()
	status.Conditions = slices.Clone(r.d.Status.Conditions)
	_, unavailable := r.bounds()
	if status.AvailableReplicas >= replicas(r.d)-unavailable {
		set(v, &status, appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability.")
	} else {
		set(v, &status, appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
	}
	if estimate {
		p.progress(v, r, &status)
	} else {
		pausedCondition(v, r.d, &status)
	}
	r.failures(v, &status)
	if equality.Semantic.DeepEqual(r.d.Status, status) {
		return nil
	}
	changed := r.d.DeepCopy()
	changed.Status = status
	if err := p.writeStatus(ctx, changed); err != nil {
		return err
	}
	swap(v.deployments, changed)
	return nil
}

// counts of the ReplicaSets' pods (calculateStatus).
func (r *rollout) counts() appsv1.DeploymentStatus {
	actual := func(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas }
	status := appsv1.DeploymentStatus{
		ObservedGeneration: r.d.Generation, CollisionCount: r.d.Status.CollisionCount,
		Replicas: sum(r.all(), actual), AvailableReplicas: sum(r.all(), availableOf),
		ReadyReplicas: sum(r.all(), func(rs *appsv1.ReplicaSet) int32 { return rs.Status.ReadyReplicas }),
	}
	if r.new != nil {
		status.UpdatedReplicas = actual(r.new)
	}
	status.UnavailableReplicas = max(0, sum(r.all(), size)-status.AvailableReplicas)
	return status
}

// progress says how a rollout gets on: done, further than before, or not for too long.
func (p *Plane) progress(v *view, r *rollout, status *appsv1.DeploymentStatus) {
	before := condition(&r.d.Status, appsv1.DeploymentProgressing)
	if r.created {
		set(v, status, appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetCreated", fmt.Sprintf("Created new replica set %q", r.new.Name))
		return
	}
	if r.new == nil {
		return
	}
	if status.Replicas == status.UpdatedReplicas && before != nil && before.Reason == "NewReplicaSetAvailable" {
		return
	}
	name := r.new.Name
	switch {
	case status.UpdatedReplicas == replicas(r.d) && status.Replicas == replicas(r.d) && status.AvailableReplicas == replicas(r.d):
		set(v, status, appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable", fmt.Sprintf("ReplicaSet %q has successfully progressed.", name))
	case before == nil:
		set(v, status, appsv1.DeploymentProgressing, corev1.ConditionTrue, "FoundNewReplicaSet", fmt.Sprintf("Found new replica set %q", name))
	case further(&r.d.Status, status):
		set(v, status, appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated", fmt.Sprintf("ReplicaSet %q is progressing.", name))
		condition(status, appsv1.DeploymentProgressing).LastUpdateTime = stored(v.now)
	case before.Reason == "ProgressDeadlineExceeded", before.Reason == "NewReplicaSetAvailable":
	default:
		p.overdue(v, r, before, status)
	}
}

// overdue: the last progress is longer ago than the deadline (DeploymentTimedOut).
func (p *Plane) overdue(v *view, r *rollout, before *appsv1.DeploymentCondition, status *appsv1.DeploymentStatus) {
	at := before.LastUpdateTime.Add(progressDeadline(r.d)).Add(time.Second)
	if v.now.Before(at) {
		p.wake(v, at)
		return
	}
	set(v, status, appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded", fmt.Sprintf("ReplicaSet %q has timed out progressing.", r.new.Name))
}

// further: more pods are new, fewer old, more ready or available (DeploymentProgressing).
func further(before, now *appsv1.DeploymentStatus) bool {
	return now.UpdatedReplicas > before.UpdatedReplicas || now.Replicas-now.UpdatedReplicas < before.Replicas-before.UpdatedReplicas ||
		now.ReadyReplicas > before.ReadyReplicas || now.AvailableReplicas > before.AvailableReplicas
}

// pausedCondition keeps the time that a rollout is paused out of its deadline (checkPausedConditions).
func pausedCondition(v *view, d *appsv1.Deployment, status *appsv1.DeploymentStatus) {
	c := condition(status, appsv1.DeploymentProgressing)
	timedOut := c != nil && c.Reason == "ProgressDeadlineExceeded"
	paused := c != nil && c.Reason == "DeploymentPaused"
	switch {
	case d.Spec.Paused && !paused && !timedOut:
		set(v, status, appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentPaused", "Deployment is paused")
	case !d.Spec.Paused && paused:
		set(v, status, appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentResumed", "Deployment is resumed")
	}
}

// failures of the ReplicaSets are the Deployment's.
func (r *rollout) failures(v *view, status *appsv1.DeploymentStatus) {
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentReplicaFailure && !slices.ContainsFunc(r.all(), failing)
	})
	for _, rs := range slices.Backward(r.all()) {
		if failing(rs) {
			c := rs.Status.Conditions[0]
			set(v, status, appsv1.DeploymentReplicaFailure, corev1.ConditionTrue, c.Reason, c.Message)
			return
		}
	}
}

func failing(rs *appsv1.ReplicaSet) bool { return len(rs.Status.Conditions) > 0 }

func condition(status *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range status.Conditions {
		if status.Conditions[i].Type == kind {
			return &status.Conditions[i]
		}
	}
	return nil
}

// set a condition; with the same status and reason it stays as it is, and its transition is that of its status.
func set(v *view, status *appsv1.DeploymentStatus, kind appsv1.DeploymentConditionType, holds corev1.ConditionStatus, reason, message string) {
	c := condition(status, kind)
	if c != nil && c.Status == holds && c.Reason == reason {
		return
	}
	changed := appsv1.DeploymentCondition{
		Type: kind, Status: holds, Reason: reason, Message: message, LastUpdateTime: stored(v.now), LastTransitionTime: stored(v.now),
	}
	if c == nil {
		status.Conditions = append(status.Conditions, changed)
		return
	}
	if c.Status == holds {
		changed.LastTransitionTime = c.LastTransitionTime
	}
	*c = changed
}
