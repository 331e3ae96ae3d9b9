package board

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Confirmed is until when the stored targets of recommendations hold: the time of the newest usage data
// with which the policy loop has found them unchanged. Storing that time in each object would be most of
// the operator's writes.
//
// The stored time is never newer than the one here, so that a loss is harmless: targets only look older
// than they are. It is safe for concurrent use; the zero value is empty, and a nil *Confirmed stores
// nothing.
type Confirmed struct {
	mutex sync.RWMutex
	// until is in Unix seconds.
	until map[types.NamespacedName]int64
}

// Confirm notes that a recommendation's stored targets hold by usage data until a time (kept in whole
// seconds). It returns the time that was known before; zero: none.
func (t *Confirmed) Confirm(recommendation types.NamespacedName, until time.Time) (before time.Time) {
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

// Until returns until when a recommendation's targets are known to hold; zero: not known, so that the
// stored time counts.
func (t *Confirmed) Until(recommendation types.NamespacedName) time.Time {
	if t == nil {
		return time.Time{}
	}
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return at(t.until[recommendation])
}

// Forget drops a recommendation that is gone.
func (t *Confirmed) Forget(recommendation types.NamespacedName) {
	if t == nil {
		return
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.until, recommendation)
}

// at converts Unix seconds, where 0 stands for no time.
func at(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
