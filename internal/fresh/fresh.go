// Package fresh is where the policy loop and the workload loop meet over what time alone changes: how new the
// usage data is by which stored targets still hold. To store that each time would be most of what is written.
package fresh

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Table holds it for all recommendations. It is in memory and may be lost: what is stored with the targets is not
// newer, and the policy loop says it again once it has looked at them. It is safe for concurrent use; the zero value
// is empty, and nil stays so.
type Table struct {
	mutex sync.RWMutex
	// until is in Unix seconds.
	until map[types.NamespacedName]int64
}

// Confirm that a recommendation's targets hold, as they are stored, by usage data until a time. It returns until
// when they were known to hold before; zero: that was not known.
func (t *Table) Confirm(recommendation types.NamespacedName, until time.Time) (before time.Time) {
	if t == nil {
		return time.Time{}
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.until == nil {
		t.until = map[types.NamespacedName]int64{}
	}
	before = at(t.until[recommendation])
	t.until[recommendation] = until.Unix()
	return before
}

// Until when a recommendation's targets are known to hold; zero: that is not known.
func (t *Table) Until(recommendation types.NamespacedName) time.Time {
	if t == nil {
		return time.Time{}
	}
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return at(t.until[recommendation])
}

// Forget a recommendation that is gone.
func (t *Table) Forget(recommendation types.NamespacedName) {
	if t == nil {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.until, recommendation)
}

func at(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
