package workload

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Rollout reports whether pods of a new template are replacing the pods of a workload. Unavailable or missing pods, and
// scaling, are not a rollout. The zero value means that no rollout is in progress.
type Rollout struct {
	// InProgress is true while pods of an older template exist or the controller has not seen the newest one.
	InProgress bool
	// Reason is one sentence: what the rollout waits for. It is empty if no rollout is in progress.
	Reason string
	// Updated is the number of pods that run the newest template; 0 if none does, or if the kind's pods cannot be told
	// apart (Argo Rollouts, scaledKinds).
	Updated int32
	// Label and Newest are a label and its value that only pods of the newest template have; empty: the object names no
	// label.
	Label, Newest string
	// Halted is true if the object says that the rollout waits for a user, or that its controller sees no progress.
	// HaltedSince is since when; zero: not known.
	Halted      bool
	HaltedSince time.Time
	// Progresses is true if the controller reports that the rollout progresses.
	Progresses bool
}

// Keeps reports whether a Deployment's condition says how its rollout goes. The controller sets Progressing to False
// after spec.progressDeadlineSeconds without progress, and to Unknown while the rollout is paused.
func Keeps(c appsv1.DeploymentCondition) bool {
	return c.Type == appsv1.DeploymentProgressing && c.Reason != completed
}

// completed is the reason of the condition Progressing after the end of a rollout.
const completed = "NewReplicaSetAvailable"

func ofDeployment(d *appsv1.Deployment) Rollout {
	held := ""
	if d.Spec.Paused {
		held = "the rollout is paused (spec.paused)"
	}
	var progress appsv1.DeploymentCondition
	if i := slices.IndexFunc(d.Status.Conditions, Keeps); i >= 0 {
		progress = d.Status.Conditions[i]
	}
	if progress.Status == corev1.ConditionFalse && held == "" {
		held = "the Deployment made no progress within progressDeadlineSeconds"
	}
	r := outdated(d.Status.UpdatedReplicas, d.Status.Replicas, held)
	if r.InProgress && held != "" {
		r.HaltedSince = progress.LastTransitionTime.Time
	}
	r.Progresses = r.InProgress && progress.Status == corev1.ConditionTrue
	return cmp.Or(unobserved(d.Generation, d.Status.ObservedGeneration), r)
}

// ofStatefulSet also compares revisions: a terminating pod counts as a replica but not as an updated one, so with the
// counts alone every replaced pod would look like a rollout.
func ofStatefulSet(s *appsv1.StatefulSet) Rollout {
	unseen := unobserved(s.Generation, s.Status.ObservedGeneration)
	if s.Status.UpdateRevision == s.Status.CurrentRevision {
		return unseen
	}
	return cmp.Or(unseen, outdated(s.Status.UpdatedReplicas, s.Status.Replicas, waitsForUser(s)).
		named(appsv1.ControllerRevisionHashLabelKey, s.Status.UpdateRevision))
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

// TemplateGenerationLabel is on pods of a DaemonSet. Its value is that of the DaemonSet's annotation
// appsv1.DeprecatedTemplateGeneration when the pod was created.
const TemplateGenerationLabel = "pod-template-generation"

// ofDaemonSet compares with the number of nodes that run a pod: a missing pod is not a rollout.
func ofDaemonSet(d *appsv1.DaemonSet) Rollout {
	held := ""
	if d.Spec.UpdateStrategy.Type == appsv1.OnDeleteDaemonSetStrategyType {
		held = "updateStrategy OnDelete waits for the old pods to be deleted"
	}
	counted := outdated(d.Status.UpdatedNumberScheduled, d.Status.CurrentNumberScheduled, held)
	return cmp.Or(unobserved(d.Generation, d.Status.ObservedGeneration), counted.named(TemplateGenerationLabel, generationOf(d)))
}

// generationOf returns the number of a DaemonSet's template; empty: the API server did not set it.
func generationOf(d metav1.Object) string {
	return d.GetAnnotations()[appsv1.DeprecatedTemplateGeneration]
}

// unobserved is a rollout until the controller has seen the newest spec: until then its counts are stale.
func unobserved(generation, observed int64) Rollout {
	if observed >= generation {
		return Rollout{}
	}
	return Rollout{InProgress: true, Reason: fmt.Sprintf("its controller has not observed generation %d yet", generation)}
}

// outdated is a rollout while some pods do not run the newest template. held is why it waits for a user or makes no
// progress, empty if it goes on.
func outdated(updated, total int32, held string) Rollout {
	if updated >= total {
		return Rollout{}
	}
	reason := fmt.Sprintf("%d of %d pods run the newest template", updated, total)
	if held != "" {
		reason += "; " + held
	}
	return Rollout{InProgress: true, Reason: reason, Updated: updated, Halted: held != ""}
}

// named adds the label of the newest template's pods to a rollout in progress.
func (r Rollout) named(label, newest string) Rollout {
	if r.InProgress && newest != "" {
		r.Label, r.Newest = label, newest
	}
	return r
}
