package recent

import (
	"context"
	"time"

	"attune.io/attune/recommender"
)

// NodeUsage has the CPU usage of nodes as it was last measured.
type NodeUsage interface {
	// Busy is the used fraction, 0 to 1, of a node's CPU; false: it was not measured since that time.
	Busy(node string, since time.Time) (float64, bool)
}

// Known answers from what servers were asked for other purposes: of pods for the strategy Node, of nodes for the
// load taint. A call asks no server. Its zero value is of no use: Pods must be set.
type Known struct {
	// Pods is the store of the strategy Node.
	Pods *Store
	// Nodes is what the load taint measures; nil where no node's load is asked for.
	Nodes NodeUsage
}

// CPU returns what a container has needed on average since a time, in millicores; false where it is not known (see
// Store.CPU).
func (k Known) CPU(_ context.Context, namespace, pod, container string, since, now time.Time) (recommender.Usage, bool) {
	return k.Pods.CPU(namespace, pod, container, since, now)
}

// Busy returns the used fraction, 0 to 1, of a node's CPU since a time; false where it was not measured.
func (k Known) Busy(_ context.Context, node string, since, _ time.Time) (float64, bool) {
	if k.Nodes == nil {
		return 0, false
	}
	return k.Nodes.Busy(node, since)
}
