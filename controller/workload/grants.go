package workload

import (
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"attune.io/attune/internal/board"
	"attune.io/attune/tuning"
)

// observeGrants adds to the view what the nodes of the pods grant them, and since when pods wait for their
// turn.
func (c observer) observeGrants(w *tuning.View) {
	w.Grants, w.Past.WaitingSince = map[types.UID]board.Pod{}, c.queue.Of(client.ObjectKeyFromObject(w.Rec))
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
