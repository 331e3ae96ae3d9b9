package board

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Confirmed is until when the stored targets of recommendations hold: by how new usage data the policy loop has found
// them unchanged. To store that each time would be most of what is written. What is stored with the targets is never
// newer, so that a loss is harmless. It is safe for concurrent use; the zero value is empty, and nil stays so.
type Confirmed struct {
	mutex sync.RWMutex
	// until is in Unix seconds.
	until map[types.NamespacedName]int64
}

// Confirm that a recommendation's targets hold, as they are stored, by usage data until a time. It returns until
// when they were known to hold before; zero: that was not known.
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

// Until when a recommendation's targets are known to hold; zero: that is not known.
func (t *Confirmed) Until(recommendation types.NamespacedName) time.Time {
	if t == nil {
		return time.Time{}
	}
	t.mutex.RLock()
	defer t.mutex.RUnlock()
	return at(t.until[recommendation])
}

// Forget a recommendation that is gone.
func (t *Confirmed) Forget(recommendation types.NamespacedName) {
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
