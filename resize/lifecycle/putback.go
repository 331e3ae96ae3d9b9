package lifecycle

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/podview"
	"attune.io/attune/resize"
)

const (
	// putBackFor is how long attune tries to restore a pod; after that a user has to do it.
	putBackFor = 24 * time.Hour
	// putBackAfterAll is the same if the policy or the workload is deleted: an open record blocks the deletion.
	putBackAfterAll = 10 * time.Minute
	// givenUpLasts is how long attune reports that a pod was not restored.
	givenUpLasts = 7 * 24 * time.Hour
	// mostObstacles is how many different obstacles to restoring one pod are recorded, one after the other. Without it,
	// two alternating obstacles would write the status for ever.
	mostObstacles = 10
)

// The intervals at which a pod that does not have its old size yet is patched again: tryFirst at first, since an answer
// may have been lost, doubling up to tryLast, and trySlow after slowAfter.
const tryFirst, tryLast, trySlow, slowAfter = time.Second, 15 * time.Second, time.Minute, time.Hour

// PutBackEvery returns the wait between two patches that restore the record's pod.
func PutBackEvery(record v1alpha1.ResizeRecord, tries []v1alpha1.Try, now time.Time) time.Duration {
	switch row := restoreRow(tries, record.PodUID); {
	case row == nil:
	case row.Reason == resize.ReasonRequestsWait:
		return requestsRest
	case now.Sub(row.Since.Time) >= slowAfter:
		return trySlow
	}
	return min(resize.Doubled(tryFirst, record.Attempts-1), tryLast)
}

// PutBacks returns the tries with exactly one row for each record whose pod is being restored. Rows about pods that
// attune gave up on stay as long as the pod exists and has no new record. live reports whether a pod exists.
func PutBacks(tries []v1alpha1.Try, records []v1alpha1.ResizeRecord, live func(types.UID) bool, now time.Time) []v1alpha1.Try {
	open := map[types.UID]bool{}
	back := map[types.UID]bool{}
	for _, r := range records {
		open[r.PodUID], back[r.PodUID] = true, resize.PuttingBack(r)
	}
	kept := slices.DeleteFunc(resize.Remembered(tries, now), func(t v1alpha1.Try) bool {
		switch t.What {
		case v1alpha1.TryRestore:
			return t.PodUID != "" && !back[t.PodUID] || !slices.ContainsFunc(records, resize.PuttingBack)
		case v1alpha1.TryGivenUp:
			return t.PodUID != "" && (open[t.PodUID] || !live(t.PodUID))
		}
		return false
	})
	for _, r := range records {
		if resize.PuttingBack(r) && restoreRow(kept, r.PodUID) == nil {
			kept = resize.AddTry(kept, v1alpha1.Try{
				What: v1alpha1.TryRestore, Pod: r.PodName, PodUID: r.PodUID, Reason: r.Reason, Times: 1,
				Since: metav1.NewTime(now), Until: metav1.NewTime(now.Add(putBackFor)),
			})
		}
	}
	return kept
}

// restoreRow returns the row about a pod that is being restored, or a row that covers several pods, or nil.
func restoreRow(tries []v1alpha1.Try, pod types.UID) *v1alpha1.Try {
	return podview.FirstIn(tries, func(t *v1alpha1.Try) bool {
		return t.What == v1alpha1.TryRestore && (t.PodUID == pod || t.PodUID == "")
	})
}

// Obstacle records the obstacle to restoring a pod, and returns the sentence to report. For the same obstacle the
// sentence stays the same, even if its figures change, so that it causes only one event.
func Obstacle(tries []v1alpha1.Try, pod types.UID, reason, message string) ([]v1alpha1.Try, string) {
	tries = slices.Clone(tries)
	row := restoreRow(tries, pod)
	switch {
	case row == nil:
		return tries, message
	case row.Reason != reason && row.Times <= mostObstacles:
		row.Reason, row.Message, row.Times = reason, resize.CutMessage(message), row.Times+1
	case row.Message == "":
		row.Message = resize.CutMessage(message)
	}
	return tries, row.Message
}

// inVain ends the attempt to restore a pod after a day, or soon if the workload is no longer sized. The pod keeps its
// current size; the floors learned from its regression stay.
func inVain(state State, record v1alpha1.ResizeRecord, next Action, tries []v1alpha1.Try, orphaned bool, now time.Time) Action {
	row := restoreRow(tries, record.PodUID)
	if row == nil || !resize.PuttingBack(record) || next.Kind != Revert && next.Kind != Withdraw && next.Kind != Wait || state.Kind == Applied {
		return next
	}
	end, since := row.Until.Time, row.Since.Time
	if row.PodUID == "" { // covers several pods; some were restored long before
		if begun := record.WrittenAt.Time; begun.After(since) {
			since = begun
		}
		if day := since.Add(putBackFor); day.After(end) {
			end = day
		}
	}
	if soonest := since.Add(putBackAfterAll); orphaned && soonest.Before(end) {
		end = soonest
	}
	if now.Before(end) {
		return next
	}
	why := cmp.Or(row.Message, "the API server or the node did not apply the resize")
	return Action{Kind: Forget, Reason: v1alpha1.ReasonRevertPending, Result: ResultFailed, Alert: true, Message: why}
}

// NotPutBack records that the pod of a record was not restored, and why.
func NotPutBack(tries []v1alpha1.Try, record v1alpha1.ResizeRecord, why string, now time.Time) []v1alpha1.Try {
	return resize.AddTry(tries, v1alpha1.Try{
		What: v1alpha1.TryGivenUp, Pod: record.PodName, PodUID: record.PodUID, Node: record.Node, Reason: v1alpha1.ReasonRevertPending,
		Message: why, Times: 1, Since: metav1.NewTime(now), Until: metav1.NewTime(now.Add(givenUpLasts)),
	})
}
