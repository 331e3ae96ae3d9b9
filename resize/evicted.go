package resize

import (
	"time"

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
	// EvictionUnknown: it may or may not have been granted, or the pod has changed since it was looked at. The
	// next look tells.
	EvictionUnknown EvictionOutcome = "unknown"
)

// ClassifyEviction says what the answer to an eviction means. Whatever it is, nothing else is tried: a pod
// that may not be evicted is not deleted.
func ClassifyEviction(err error) EvictionOutcome {
	switch {
	case err == nil:
		return EvictionGranted
	case apierrors.IsTooManyRequests(err) && hasCause(err, policyv1.DisruptionBudgetCause), apierrors.IsForbidden(err):
		return EvictionDenied
	}
	return EvictionUnknown
}

// Denied says why the pod of a record is still there that is to be evicted and was asked for in vain; nil: it was not.
func Denied(record v1alpha1.ResizeRecord) *Refusal {
	if record.Phase != v1alpha1.RecordEvictionDenied || record.Deadline == nil {
		return nil
	}
	refusal := wait(ReasonEvictionDenied, "pod %s has its old size and is to be evicted, which a PodDisruptionBudget does not let happen, or the operator's rights; it is asked for again every minute until %s",
		record.PodName, record.WrittenAt.Add(evictFor).UTC().Format(time.RFC3339))
	refusal.PodWide, refusal.Until = true, record.Deadline.Time
	return refusal
}

// hasCause tells a budget's 429 from that of an API server with too much to do.
func hasCause(err error, cause metav1.CauseType) bool {
	_, found := apierrors.StatusCause(err, cause)
	return found
}
