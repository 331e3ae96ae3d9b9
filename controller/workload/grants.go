package workload

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/board"
	"attune.io/attune/tuning"
)

// observeGrants adds to the view what the nodes of the pods grant them, and since when pods wait for their
// turn.
func (c observer) observeGrants(w *tuning.View) {
	w.Grants, w.Past.WaitingSince = map[types.UID]board.Pod{}, c.queue.read(client.ObjectKeyFromObject(w.Rec))
	for _, pod := range w.Pods {
		if granted, ok := c.Grants.Of(pod.UID); ok && w.ByNode() {
			w.Grants[pod.UID] = granted
		}
	}
}

// tellNodes publishes which pods are held, and wakes the node loop if that is news. It runs only after a
// complete pass: a pass that could not read the namespace does not know what holds its pods.
func (c *Controller) tellNodes(w tuning.View, d tuning.Decision) {
	key, news := client.ObjectKeyFromObject(w.Rec), false
	if w.ByNode() {
		news = c.Grants.Hold(key, d.ByNode.Held, d.ByNode.NotEvictable)
	} else {
		news = c.Grants.Forget(key)
	}
	if news && c.HeldChanged != nil {
		c.HeldChanged(key)
	}
}

// queue is since when the pods of each workload wait to be resized as their nodes grant (strategy Node).
// Only as many pods as there is room for records are resized at a time, and the longest wait goes first.
// It may be lost: then all pods have just come. mutex guards of.
type queue struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]map[types.UID]time.Time
}

// read returns what was kept last. The map is shared: it is never changed after keep, neither here nor by
// the caller.
func (x *queue) read(workload types.NamespacedName) map[types.UID]time.Time {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	return x.of[workload]
}

// keep replaces a workload's waiting times; an empty map removes the workload.
func (x *queue) keep(workload types.NamespacedName, since map[types.UID]time.Time) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if len(since) == 0 {
		delete(x.of, workload)
		return
	}
	put(&x.of, workload, since)
}
