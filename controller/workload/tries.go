package workload

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// lastAsked is when pods were last asked to be put back. Since when a revert is tried, and what is in the
// way, is stored in the tries of the status; the single moments are not worth a write each. They may be
// lost: then a pod is asked once more. mutex guards last.
type lastAsked struct {
	mutex sync.Mutex
	last  map[types.UID]time.Time
}

// askedLasts is how long a moment is kept: longer than the longest pause between two requests.
const askedLasts = 2 * time.Minute

// note remembers that a pod was asked, and removes old entries.
func (x *lastAsked) note(pod types.UID, now time.Time) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	maps.DeleteFunc(x.last, func(_ types.UID, at time.Time) bool { return now.Sub(at) > askedLasts })
	if x.last == nil {
		x.last = map[types.UID]time.Time{}
	}
	x.last[pod] = now
}

// read returns the moments of the pods that are being put back.
func (x *lastAsked) read(records []v1alpha1.ResizeRecord) map[types.UID]time.Time {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	tried := map[types.UID]time.Time{}
	for _, record := range records {
		if at, ok := x.last[record.PodUID]; ok && resize.PuttingBack(record) {
			tried[record.PodUID] = at
		}
	}
	return tried
}
