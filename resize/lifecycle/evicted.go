package lifecycle

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

// EvictionOutcome is the meaning of the answer to an eviction; the word labels the metric.
type EvictionOutcome string

const (
	// EvictionGranted: the API server evicts the pod.
	EvictionGranted EvictionOutcome = "success"
	// EvictionDenied: a PodDisruptionBudget or missing permissions do not allow it now. The pod stays.
	EvictionDenied EvictionOutcome = "denied"
	// EvictionUnknown: the eviction may or may not have been granted, or the pod has changed since it was read. The
	// next reconcile of the pod shows the result.
	EvictionUnknown EvictionOutcome = "unknown"
)

// ClassifyEviction returns the meaning of the API server's answer to an eviction. attune tries no other way: it never
// deletes a pod that may not be evicted.
func ClassifyEviction(err error) EvictionOutcome {
	switch {
	case err == nil:
		return EvictionGranted
	// The cause distinguishes the 429 of a PodDisruptionBudget from the 429 of an overloaded API server.
	case apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause), apierrors.IsForbidden(err):
		return EvictionDenied
	}
	return EvictionUnknown
}

// Denied explains why the pod of a record still exists although attune requested its eviction; nil if no eviction of it
// was denied.
func Denied(record v1alpha1.ResizeRecord) *resize.Refusal {
	if record.Phase != v1alpha1.RecordEvictionDenied || record.Deadline == nil {
		return nil
	}
	refusal := resize.RefuseForNow(resize.ReasonEvictionDenied, "a PodDisruptionBudget or missing permissions deny the eviction of pod %s, which has its previous resources again; attune retries every minute until %s",
		record.PodName, record.WrittenAt.Add(evictFor).UTC().Format(time.RFC3339))
	refusal.Until = record.Deadline.Time
	return refusal
}

// LeavePlan returns the plan for a pod that does not fit on its node with the other pods (strategy Node). The pod is
// not changed: it is evicted, and its successor is created with the workload's seed. Without a seed the plan has the
// current requests. It has a move for every container, changed or not, so that the record covers the pod.
func LeavePlan(pod *corev1.Pod, seed *v1alpha1.Seed) resize.Plan {
	plan := resize.PlanOf(pod)
	plan.Elsewhere, plan.Reason = true, resize.ReasonDoesNotFit
	for _, c := range podview.Resizable(pod) {
		from := podview.ReadSpec(c.Resources)
		to := resize.Merge(from, podview.SeedRequests(seed, c.Name))
		plan.Moves = append(plan.Moves, resize.Move{Container: c.Name, Sidecar: podview.IsSidecar(pod, c), From: from, To: to})
	}
	return plan
}

// Leaving reports whether the record belongs to a pod that has to leave its node because it does not fit.
func Leaving(record v1alpha1.ResizeRecord) bool {
	return record.Reason == resize.ReasonDoesNotFit && resize.PuttingBack(record)
}

// WithoutLeaving returns the records without those for pods that have to leave for lack of room. These pods are not
// changed, so they block no other pod, and their nodes still count them among the pods that share.
func WithoutLeaving(records []v1alpha1.ResizeRecord) []v1alpha1.ResizeRecord {
	return slices.DeleteFunc(slices.Clone(records), Leaving)
}
