package workload

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"attune.io/attune/resize"
)

// queue is since when the pods of each workload wait to be resized as their nodes grant (strategy Node): there are
// records for a few of them at a time. It may be lost: then all have just come. It is safe for concurrent use.
type queue struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]map[types.UID]time.Time
}

// read what was kept last. It is not changed any more.
func (x *queue) read(workload types.NamespacedName) map[types.UID]time.Time {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.of[workload]
}

// keep replaces it; nothing is forgotten.
func (x *queue) keep(workload types.NamespacedName, since map[types.UID]time.Time) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if len(since) == 0 {
		delete(x.of, workload)
		return
	}
	if x.of == nil {
		x.of = map[types.NamespacedName]map[types.UID]time.Time{}
	}
	x.of[workload] = since
}

// queueUp notes that a pod waits for its turn: since its first wish after it was resized last, also where the wish came
// and went since then.
func (d *decision) queueUp(w world, pod *corev1.Pod, plan resize.Plan, refusal *resize.Refusal) {
	waits := refusal == nil && !plan.Empty() || refusal != nil && refusal.Reason == resize.ReasonRecordsFull
	if !w.byNode() || !waits {
		return
	}
	if d.waits == nil {
		d.waits = map[types.UID]time.Time{}
	}
	if d.waits[pod.UID] = w.now; !w.waits[pod.UID].IsZero() {
		d.waits[pod.UID] = w.waits[pod.UID]
	}
}

// stillWaiting are the pods that wait when the pass is over: without those that are being resized.
func (d *decision) stillWaiting(w world) map[types.UID]time.Time {
	out := map[types.UID]time.Time{}
	for _, pod := range w.live() {
		at, waits := d.waits[pod.UID]
		if !waits {
			at, waits = w.waits[pod.UID]
		}
		if waits && !hasRecord(d.status.Records, pod) {
			out[pod.UID] = at
		}
	}
	return out
}
