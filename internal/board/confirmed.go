package board

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/internal/table"
)

// Confirmed is until when the stored targets of recommendations hold: the time of the newest usage data
// with which the policy loop has found them unchanged. Storing that time in each object would be most of
// the operator's writes.
//
// The stored time is never newer than the one here, so that a loss is harmless: targets only look older
// than they are. It is safe for concurrent use; the zero value is empty.
type Confirmed struct {
	table.Table[types.NamespacedName, time.Time]
}

// Confirm notes that a recommendation's stored targets hold by usage data until a time (kept in whole
// seconds). It returns the time that was known before; zero: none.
func (t *Confirmed) Confirm(recommendation types.NamespacedName, until time.Time) (before time.Time) {
	t.Change(recommendation, func(known time.Time) time.Time {
		before = known
		return until.UTC().Truncate(time.Second)
	})
	return before
}
