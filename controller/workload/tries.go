package workload

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// lastAsked is when pods were last asked to be put back. Since when that is so, and what is in the way, is in the tries of
// the status; the moments between are not worth a write each, and may be lost: then it is asked once more. It is safe
// for concurrent use.
type lastAsked struct {
	mutex sync.Mutex
	last  map[types.UID]time.Time
}

// askedLasts is longer than it is ever waited between two of them.
const askedLasts = 2 * time.Minute

func (x *lastAsked) note(pod types.UID, now time.Time) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	maps.DeleteFunc(x.last, func(_ types.UID, at time.Time) bool { return now.Sub(at) > askedLasts })
	if x.last == nil {
		x.last = map[types.UID]time.Time{}
	}
	x.last[pod] = now
}

// read are those of the pods that are being put back.
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
