package lifecycle

import (
	"time"

	"attune.io/attune/resize"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

// EvictionOutcome is what the answer to an eviction means; its word labels the metric.
type EvictionOutcome string

const (
	// EvictionGranted: the pod is on its way out.
	EvictionGranted EvictionOutcome = "success"
	// EvictionDenied: a PodDisruptionBudget does not allow it now, or the operator may not. The pod stays.
	EvictionDenied EvictionOutcome = "denied"
	// EvictionUnknown: the eviction may or may not have been granted, or the pod has changed since it was read.
	// The next look at the pod shows which.
	EvictionUnknown EvictionOutcome = "unknown"
)

// ClassifyEviction returns the meaning of the API server's answer to an eviction. Whatever it is, no other way is
// tried: a pod that may not be evicted is never deleted.
func ClassifyEviction(err error) EvictionOutcome {
	switch {
	case err == nil:
		return EvictionGranted
	case apierrors.IsTooManyRequests(err) && hasCause(err, policyv1.DisruptionBudgetCause), apierrors.IsForbidden(err):
		return EvictionDenied
	}
	return EvictionUnknown
}

// Denied explains why the pod of a record is still there although its eviction was requested; nil where no
// eviction of it was denied.
func Denied(record v1alpha1.ResizeRecord) *resize.Refusal {
	if record.Phase != v1alpha1.RecordEvictionDenied || record.Deadline == nil {
		return nil
	}
	refusal := resize.RefuseForNow(resize.ReasonEvictionDenied, "pod %s has its old size and is to be evicted, which a PodDisruptionBudget does not let happen, or the operator's rights; it is asked for again every minute until %s",
		record.PodName, record.WrittenAt.Add(evictFor).UTC().Format(time.RFC3339))
	refusal.PodWide, refusal.Until = true, record.Deadline.Time
	return refusal
}

// hasCause distinguishes the 429 of a PodDisruptionBudget from the 429 of an overloaded API server.
func hasCause(err error, cause metav1.CauseType) bool {
	_, found := apierrors.StatusCause(err, cause)
	return found
}
