package tuning

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// DeclinedMeanwhile drops the record of a resize that need not be sent any more, as enough pods of the pass were told
// the same: so a refusal that concerns all pods of a workload costs a few patches and not one each.
func DeclinedMeanwhile(status *v1alpha1.AttuneRecommendationStatus, w View, sent Write) *resize.Refusal {
	i := recordAt(*status, sent.Pod)
	if i < 0 || !IsNew(status.Records[i]) {
		return nil
	}
	refusal := resize.DeclinedMeanwhile(sent.Pod, sent.Plan, answered(*status, w, w.Now))
	if refusal != nil {
		status.Records = slices.Delete(status.Records, i, i+1)
	}
	return refusal
}

// answered is what an answer of the API server is remembered by.
func answered(status v1alpha1.AttuneRecommendationStatus, w View, now time.Time) resize.World {
	return resize.World{Now: now, Rules: w.Policy.Settings.Resize, Status: status, LimitRanges: w.Namespace.Limits, Quotas: w.Namespace.Quotas}
}

// RecordOf a pod, nil where it has none.
func RecordOf(status v1alpha1.AttuneRecommendationStatus, pod *corev1.Pod) *v1alpha1.ResizeRecord {
	if i := recordAt(status, pod); i >= 0 {
		return &status.Records[i]
	}
	return nil
}

func recordAt(status v1alpha1.AttuneRecommendationStatus, pod *corev1.Pod) int {
	return slices.IndexFunc(status.Records, func(r v1alpha1.ResizeRecord) bool { return r.PodUID == pod.UID })
}

// IsNew: the record's first patch is on its way, so that nothing was changed yet.
func IsNew(record v1alpha1.ResizeRecord) bool {
	return record.Phase == v1alpha1.RecordWritten
}

// Answer notes in a record, and in the tries, what the API server said to its resize. Of an unknown outcome only the
// try is counted: the next pass reads the pod. A second patch that met a passing no is sent again. It returns what is to
// be counted.
func Answer(status *v1alpha1.AttuneRecommendationStatus, of View, w Write, returned *corev1.Pod, outcome resize.Outcome, now time.Time) []Count {
	i := recordAt(*status, w.Pod)
	if i < 0 {
		return nil
	}
	record := &status.Records[i]
	*record = resize.Sent(*record)
	switch {
	case outcome.Kind == resize.OutcomeAccepted:
		status.Tries = resize.Accepted(status.Tries, *record)
		*record = resize.RecordReturned(*record, returned)
	case resize.PuttingBack(*record):
		status.Tries, _ = resize.Obstacle(status.Tries, record.PodUID, outcome.Reason, outcome.Message)
	case resize.InSecondPatch(*record) && outcome.Passing():
	case resize.InSecondPatch(*record) && outcome.Refused():
		*record = resize.SecondRefused(*record, w.Pod)
	case IsNew(*record) && outcome.Kind == resize.OutcomeInfeasible && resize.Recreates(*record, of.Policy.Settings.Resize):
		*record = resize.GivenUp(*record)
	case IsNew(*record) && outcome.Refused():
		status.Tries = resize.Declined(status.Tries, outcome, w.Pod, w.Plan, answered(*status, of, now))
		return refuse(status, i, of.Rec.Spec.Workload.Name, outcome, now)
	}
	return nil
}

// refuse closes a record whose resize the API server did not take. Nothing was changed, so nothing cools down: when
// it is asked again is the matter of what it said (resize.Declined). The history tells of answers that a person may
// have to do something about, and the metrics count them.
func refuse(status *v1alpha1.AttuneRecommendationStatus, i int, workload string, outcome resize.Outcome, now time.Time) (counts []Count) {
	switch outcome.Kind {
	case resize.OutcomeTerminal, resize.OutcomeInfeasible, resize.OutcomePolicyRefusal:
		rows := resize.HistoryRows(workload, status.Records[i], resize.ResultFailed, outcome.Reason, now)
		counts = countsOf(countFailed, status.Records[i], "")
		status.History = resize.AddHistory(resize.WithoutRows(status.History, rows), rows)
	}
	status.Records = append(status.Records[:i:i], status.Records[i+1:]...)
	return counts
}

// NotEvicted notes a denial where the decision had hoped for the best: in the record and for people to read.
func NotEvicted(rec *v1alpha1.AttuneRecommendation, status *v1alpha1.AttuneRecommendationStatus, pod types.UID) {
	for i := range status.Records {
		if status.Records[i].PodUID != pod {
			continue
		}
		status.Records[i] = resize.NotEvicted(status.Records[i])
		blocked := blockedCondition(resize.Denied(status.Records[i]))
		blocked.ObservedGeneration = rec.Generation
		meta.SetStatusCondition(&status.Conditions, blocked)
	}
}
