package lifecycle

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

const (
	// putBackFor is how long it is tried to put a pod back; after that a person has to do it.
	putBackFor = 24 * time.Hour
	// putBackAfterAll is the same where the policy or the workload is gone: an open record holds their deletion
	// up.
	putBackAfterAll = 10 * time.Minute
	// givenUpLasts is how long it stays reported that a pod was not put back.
	givenUpLasts = 7 * 24 * time.Hour
	// mostObstacles is how many different obstacles to one pod are noted, one after the other; the bound keeps two
	// obstacles that alternate from writing the status for ever.
	mostObstacles = 10
)

// The intervals at which a pod that is not back at its old size is patched again: tryFirst at first, since an
// answer may have been lost, doubling up to tryLast, and trySlow after slowAfter.
const tryFirst, tryLast, trySlow, slowAfter = time.Second, 15 * time.Second, time.Minute, time.Hour

// PutBackEvery is the wait between one patch that puts the record's pod back and the next one.
func PutBackEvery(record v1alpha1.ResizeRecord, tries []v1alpha1.Try, now time.Time) time.Duration {
	if row := putBackRow(tries, record.PodUID); row != nil && now.Sub(row.Since.Time) >= slowAfter {
		return trySlow
	}
	return min(resize.Doubled(tryFirst, record.Attempts-1), tryLast)
}

// PutBacks returns the tries with exactly one row for each record whose pod is being put back. Rows about pods
// that were given up stay as long as the pod exists and nothing new is tried on it. live reports whether a pod
// exists.
func PutBacks(tries []v1alpha1.Try, records []v1alpha1.ResizeRecord, live func(types.UID) bool, now time.Time) []v1alpha1.Try {
	open := map[types.UID]bool{}
	back := map[types.UID]bool{}
	for _, r := range records {
		open[r.PodUID], back[r.PodUID] = true, resize.PuttingBack(r)
	}
	kept := slices.DeleteFunc(resize.Remembered(tries, now), func(t v1alpha1.Try) bool {
		switch t.What {
		case v1alpha1.TryPutBack:
			return t.PodUID != "" && !back[t.PodUID] || !slices.ContainsFunc(records, resize.PuttingBack)
		case v1alpha1.TryGivenUp:
			return t.PodUID != "" && (open[t.PodUID] || !live(t.PodUID))
		}
		return false
	})
	for _, r := range records {
		if resize.PuttingBack(r) && putBackRow(kept, r.PodUID) == nil {
			kept = resize.AddTry(kept, v1alpha1.Try{
				What: v1alpha1.TryPutBack, Pod: r.PodName, PodUID: r.PodUID, Reason: r.Reason, Times: 1,
				Since: metav1.NewTime(now), Until: metav1.NewTime(now.Add(putBackFor)),
			})
		}
	}
	return kept
}

// putBackRow is the row about a pod that is being put back, or a row that stands for several pods, or nil.
func putBackRow(tries []v1alpha1.Try, pod types.UID) *v1alpha1.Try {
	for i := range tries {
		if t := &tries[i]; t.What == v1alpha1.TryPutBack && (t.PodUID == pod || t.PodUID == "") {
			return t
		}
	}
	return nil
}

// Obstacle notes what keeps a pod from being put back, and returns the sentence to report. For the same obstacle
// the sentence stays the same, whatever its figures are by now, so that it makes one event and not many.
func Obstacle(tries []v1alpha1.Try, pod types.UID, reason, message string) ([]v1alpha1.Try, string) {
	tries = slices.Clone(tries)
	row := putBackRow(tries, pod)
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

// inVain ends the attempt to put a pod back after a day, or soon where the workload is no longer sized. The pod
// keeps the size that it has; the floors that its harm taught stay.
func inVain(state State, record v1alpha1.ResizeRecord, next Action, tries []v1alpha1.Try, orphaned bool, now time.Time) Action {
	row := putBackRow(tries, record.PodUID)
	if row == nil || !resize.PuttingBack(record) || next.Kind != Revert && next.Kind != Withdraw && next.Kind != Wait || state.Kind == Applied {
		return next
	}
	end, since := row.Until.Time, row.Since.Time
	if row.PodUID == "" { // of several pods, some of which were put back long before
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
	why := cmp.Or(row.Message, "the API server or the node did not do it")
	return Action{Kind: Forget, Reason: v1alpha1.ReasonRevertPending, Result: ResultFailed, Alert: true, Message: why}
}

// NotPutBack notes that the pod of a record was not put back, and why.
func NotPutBack(tries []v1alpha1.Try, record v1alpha1.ResizeRecord, why string, now time.Time) []v1alpha1.Try {
	return resize.AddTry(tries, v1alpha1.Try{
		What: v1alpha1.TryGivenUp, Pod: record.PodName, PodUID: record.PodUID, Node: record.Node, Reason: v1alpha1.ReasonRevertPending,
		Message: why, Times: 1, Since: metav1.NewTime(now), Until: metav1.NewTime(now.Add(givenUpLasts)),
	})
}
