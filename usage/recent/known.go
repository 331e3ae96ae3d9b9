package recent

import (
	"context"
	"time"

	"attune.io/attune/recommender"
)

// NodeUsage knows how busy nodes were when it last looked at them.
type NodeUsage interface {
	// Busy is the used fraction, 0 to 1, of a node's CPU; false: it was not measured since that time.
	Busy(node string, since time.Time) (float64, bool)
}

// Known is what servers were asked for other purposes: of pods for the strategy Node, and of nodes for the load taint. To
// look it up asks no server.
type Known struct {
	Pods *Store
	// Nodes; nil: no node was asked about.
	Nodes NodeUsage
}

// CPU that a container has needed on average since a time (Store.CPU).
func (k Known) CPU(_ context.Context, namespace, pod, container string, since, now time.Time) (recommender.Usage, bool) {
	return k.Pods.CPU(namespace, pod, container, since, now)
}

// Busy is the used fraction of a node's CPU since a time; false: it was not measured.
func (k Known) Busy(_ context.Context, node string, since, _ time.Time) (float64, bool) {
	if k.Nodes == nil {
		return 0, false
	}
	return k.Nodes.Busy(node, since)
}
