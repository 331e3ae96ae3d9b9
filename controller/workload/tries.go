package workload

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

// How soon a pod that is not back at its old size is asked for again: soon at first, as an answer may have been
// lost, then as often as it takes.
const tryFirst, tryLast = time.Second, 15 * time.Second

// tries are when pods were last asked to be put back. They may be lost: then it is tried once more. They are safe for
// concurrent use.
type tries struct {
	mutex sync.Mutex
	last  map[types.UID]time.Time
}

func (x *tries) note(pod types.UID, now time.Time) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	maps.DeleteFunc(x.last, func(_ types.UID, at time.Time) bool { return now.Sub(at) > tryLast })
	if x.last == nil {
		x.last = map[types.UID]time.Time{}
	}
	x.last[pod] = now
}

// read are those of the pods that are being put back.
func (x *tries) read(records []v1alpha1.ResizeRecord) map[types.UID]time.Time {
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

// untilNextTry is how long to wait before a pod is asked again to be put back; 0: it is asked now.
func (w world) untilNextTry(record v1alpha1.ResizeRecord, action resize.Action) time.Duration {
	again := resize.PuttingBack(record) && (action.Kind == resize.Revert || action.Kind == resize.Withdraw)
	last, tried := w.tried[record.PodUID]
	switch {
	case !again:
		return 0
	case w.noRights != "":
		return rightsLost
	case !tried:
		return 0
	}
	wait := tryFirst
	for n := int32(1); n < record.Attempts && wait < tryLast; n++ {
		wait *= 2
	}
	return max(0, last.Add(min(wait, tryLast)).Sub(w.now))
}
