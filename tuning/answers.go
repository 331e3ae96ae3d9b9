package tuning

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
	"attune.io/attune/resize/lifecycle"
)

// DeclinedMeanwhile decides whether to drop a new resize because the API server has already refused the same resize
// to enough other pods of this reconcile. So a refusal that affects all pods of a workload costs a few patches
// instead of one per pod.
//
// It returns the refusal and removes the record from status. nil: send the resize; status is unchanged. A resize that
// is not new (a revert, a second patch) is always sent.
func DeclinedMeanwhile(status *v1alpha1.AttuneRecommendationStatus, w View, sent Write) *resize.Refusal {
	i := recordAt(status.Records, sent.Pod)
	if i < 0 || !IsNew(status.Records[i]) {
		return nil
	}
	refusal := resize.DeclinedMeanwhile(sent.Pod, sent.Plan, answered(*status, w, w.Now))
	if refusal != nil {
		status.Records = slices.Delete(status.Records, i, i+1)
	}
	return refusal
}

// answered is the context stored with an answer of the API server. The answer counts until one of these inputs
// changes.
func answered(status v1alpha1.AttuneRecommendationStatus, w View, now time.Time) resize.GateInput {
	return resize.GateInput{Now: now, Rules: w.Policy.Settings.Resize, Status: status, Namespace: resize.NamespaceInput{LimitRanges: w.Namespace.Limits, Quotas: w.Namespace.Quotas}}
}

// RecordOf returns the record of a pod; nil: the pod has no record. The pointer is into status.Records and becomes
// invalid when a record is added or removed.
func RecordOf(status v1alpha1.AttuneRecommendationStatus, pod *corev1.Pod) *v1alpha1.ResizeRecord {
	return (&records{status.Records}).of(pod)
}

// recordAt returns the index of the pod's record; -1: the pod has no record. The uid identifies the pod, because a
// new pod of a StatefulSet has the name of the old one.
func recordAt(records []v1alpha1.ResizeRecord, pod *corev1.Pod) int {
	return slices.IndexFunc(records, func(r v1alpha1.ResizeRecord) bool { return r.PodUID == pod.UID })
}

// IsNew reports whether the first patch of a record may still be in flight (phase Written). The pod is not known to
// be changed then, so a refusal closes the record without a revert.
func IsNew(record v1alpha1.ResizeRecord) bool {
	return record.Phase == v1alpha1.RecordWritten
}

// Answer stores the API server's answer to a resize in the pod's record and in the tries. It changes status in place
// and returns the metric increments.
//
// Effects by answer:
//   - Accepted: the record stores fields of the returned pod, and the try is marked as accepted.
//   - Refused, new resize: the record is closed, and the tries store when the same resize is tried again.
//   - Infeasible, new resize, and the policy allows eviction (InPlaceOrRecreate): the record changes into one that
//     may end in an eviction.
//   - Refused, second patch: a transient refusal is retried; for any other, lifecycle.SecondRefused decides.
//   - Any answer except Accepted while the pod is reverted or restored: the record stays open and the obstacle is
//     stored. One refusal never ends a revert.
//   - Unknown outcome of a new resize (timeout, lost connection): only the attempt is counted. The next reconcile
//     reads from the pod whether the patch arrived.
//
// A pod without a record in status changes nothing. now is the time of the answer, which may be later than of.Now.
func Answer(status *v1alpha1.AttuneRecommendationStatus, of View, w Write, returned *corev1.Pod, outcome resize.Outcome, now time.Time) []Count {
	i := recordAt(status.Records, w.Pod)
	if i < 0 {
		return nil
	}
	record := &status.Records[i]
	*record = lifecycle.Sent(*record)
	switch {
	case outcome.Kind == resize.OutcomeAccepted:
		status.Tries = resize.Accepted(status.Tries, *record)
		*record = lifecycle.RecordReturned(*record, returned)
	case resize.PuttingBack(*record):
		status.Tries, _ = lifecycle.Obstacle(status.Tries, record.PodUID, outcome.Reason, outcome.Message)
	case lifecycle.InSecondPatch(*record) && outcome.Passing():
	case lifecycle.InSecondPatch(*record) && outcome.Refused():
		*record = lifecycle.SecondRefused(*record, w.Pod)
	case IsNew(*record) && outcome.Kind == resize.OutcomeInfeasible && lifecycle.Recreates(*record, of.Policy.Settings.Resize):
		*record = lifecycle.GivenUp(*record)
	case IsNew(*record) && outcome.Refused():
		status.Tries = resize.Declined(status.Tries, outcome, w.Pod, w.Plan, answered(*status, of, now))
		return closeRefused(status, i, of.Rec.Spec.Workload.Name, outcome, now)
	}
	return nil
}

// closeRefused closes a record whose resize the API server refused. The pod is unchanged, so no cooldown follows.
// resize.Declined derives from the answer when the same resize is tried again. Only refusals that may need attention
// go into the history and the metrics: terminal, infeasible, refused by an admission policy. An outage does not.
func closeRefused(status *v1alpha1.AttuneRecommendationStatus, i int, workload string, outcome resize.Outcome, now time.Time) (counts []Count) {
	switch outcome.Kind {
	case resize.OutcomeTerminal, resize.OutcomeInfeasible, resize.OutcomePolicyRefusal:
		rows := lifecycle.HistoryRows(workload, status.Records[i], lifecycle.ResultFailed, outcome.Reason, now)
		counts = countsOf(countFailed, status.Records[i], "")
		status.History = lifecycle.AddHistory(lifecycle.WithoutRows(status.History, rows), rows)
	}
	status.Records = append(status.Records[:i:i], status.Records[i+1:]...)
	return counts
}

// NotEvicted stores that the API server denied an eviction: in the record (phase EvictionDenied, so that the next
// reconcile retries) and in the condition ResizeBlocked. The Decision had already stored the eviction as in progress.
// It changes status in place; a pod without a record changes nothing.
func NotEvicted(rec *v1alpha1.AttuneRecommendation, status *v1alpha1.AttuneRecommendationStatus, pod types.UID, now time.Time) {
	for i := range status.Records {
		if status.Records[i].PodUID != pod {
			continue
		}
		status.Records[i] = lifecycle.NotEvicted(status.Records[i])
		v1alpha1.SetCondition(&status.Conditions, blockedCondition(lifecycle.Denied(status.Records[i])), rec.Generation, now)
	}
}
