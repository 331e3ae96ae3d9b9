package resize

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"attune.io/attune/api/v1alpha1"
)

// targetFirst and targetLast are how long a workload has its original requests after a change of the target of its HPA
// was rejected or set back: doubled each time in a row.
const targetFirst, targetLast = time.Hour, 24 * time.Hour

// RejectedTarget is a change of the target of an HPA that did not last.
type RejectedTarget struct {
	// Of names the object.
	Of string
	// To is the target that was rejected, in percent; 0: it was accepted, and another writer set it back.
	To int32
	// Message says why.
	Message string
	// At is the time of the change, Until the earliest time of the next.
	At, Until time.Time
}

// TargetRejected records that a change of a target did not last. A row that is still active stays as it is.
func TargetRejected(tries []v1alpha1.Try, r RejectedTarget, now time.Time) []v1alpha1.Try {
	known := TargetRow(tries, r.Of)
	if known != nil && (now.Before(known.Until.Time) || !r.At.After(known.Since.Add(targetFirst))) || !now.Before(r.At.Add(targetFirst)) {
		return tries
	}
	t := v1alpha1.Try{What: v1alpha1.TryTarget, Reason: ReasonHPA, Terms: digest(r.Of), Message: r.Message}
	if r.To > 0 {
		t.Amount = resource.NewQuantity(int64(r.To), resource.DecimalSI)
	}
	tries = addTry(tries, t, targetFirst, r.At)
	row := &tries[slices.IndexFunc(tries, func(t v1alpha1.Try) bool { return t.What == v1alpha1.TryTarget })]
	rest := max(r.Until.Sub(r.At), targetFirst<<min(max(row.Times-1, 0), 5))
	row.Until = metav1.NewTime(r.At.Add(min(rest, targetLast)))
	return tries
}

// TargetAccepted removes the row of a rejected target. A row of a target that was set back stays: that another change is
// accepted does not disprove it.
func TargetAccepted(tries []v1alpha1.Try, of string) []v1alpha1.Try {
	return slices.DeleteFunc(slices.Clone(tries), func(t v1alpha1.Try) bool { return aboutTarget(t, of) && t.Amount != nil })
}

// TargetRow returns the row about the target of an object; nil: there is none.
func TargetRow(tries []v1alpha1.Try, of string) *v1alpha1.Try {
	if i := slices.IndexFunc(tries, func(t v1alpha1.Try) bool { return aboutTarget(t, of) }); i >= 0 {
		return &tries[i]
	}
	return nil
}

func aboutTarget(t v1alpha1.Try, of string) bool {
	return t.What == v1alpha1.TryTarget && t.Terms == digest(of)
}

// RefusesTarget reports whether a row says that requests must not depend on another target. A row of a rejected target
// does so beyond its end, until a dry run shows that the target may change, but not for longer than it was active.
func RefusesTarget(t v1alpha1.Try, now time.Time) bool {
	end := t.Until.Time
	if t.Amount != nil {
		end = end.Add(t.Until.Sub(t.Since.Time))
	}
	return t.What == v1alpha1.TryTarget && now.Before(end)
}
