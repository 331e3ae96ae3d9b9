package recent

import (
	"context"
	"time"

	"attune.io/attune/recommender"
)

// NodeUsage has the latest CPU usage of nodes.
type NodeUsage interface {
	// Busy is the used fraction, 0 to 1, of a node's CPU; false if it was not measured since that time.
	Busy(node string, since time.Time) (float64, bool)
}

// Known answers from data that was read for other purposes: pod data of the strategy Node, node data of the load taint.
// A call queries no server. The zero value is not usable: Pods must be set.
type Known struct {
	// Pods is the store of the strategy Node.
	Pods *Store
	// Nodes has the measurements of the load taint; nil if no node's load is measured.
	Nodes NodeUsage
}

// CPU returns the average CPU need of a container since a time, in millicores; false if unknown (see Store.CPU).
func (k Known) CPU(_ context.Context, namespace, pod, container string, since, now time.Time) (recommender.Usage, bool) {
	return k.Pods.CPU(namespace, pod, container, since, now)
}

// Busy returns the used fraction, 0 to 1, of a node's CPU since a time; false if it was not measured.
func (k Known) Busy(_ context.Context, node string, since, _ time.Time) (float64, bool) {
	if k.Nodes == nil {
		return 0, false
	}
	return k.Nodes.Busy(node, since)
}
