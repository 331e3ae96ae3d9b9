package prometheus

import (
	"context"
	"time"
)

// NodeAsker evaluates an expression about all nodes at one time, and returns the values by the nodes' names.
type NodeAsker func(ctx context.Context, expression string, at time.Time) (map[string]float64, error)

// Loads asks a source about the CPU of all nodes, for the load taint (docs/node-strategy.md). The zero value is of
// no use.
type Loads struct {
	ask    NodeAsker
	scope  Scope
	window time.Duration
}

// NewLoads makes Loads of a source that has a sample each interval. The window of its rates is two intervals and
// 30 seconds, and a minute at least, because a rate needs two samples.
func NewLoads(ask NodeAsker, scope Scope, interval time.Duration) Loads {
	return Loads{ask, scope, max(time.Minute, 2*interval+30*time.Second)}
}

// Pressure returns the fraction of time, 0 to 1, in which some task of each node waited for CPU (see
// Scope.NodesPressure).
func (l Loads) Pressure(ctx context.Context, at time.Time) (map[string]float64, error) {
	return l.ask(ctx, l.scope.NodesPressure(l.window), at)
}

// Load1 returns each node's load average over a minute, a number of tasks (see Scope.NodesLoad).
func (l Loads) Load1(ctx context.Context, at time.Time) (map[string]float64, error) {
	return l.ask(ctx, l.scope.NodesLoad(), at)
}

// Usage returns the CPU that each node used, in cores (see Scope.NodesUsage).
func (l Loads) Usage(ctx context.Context, at time.Time) (map[string]float64, error) {
	return l.ask(ctx, l.scope.NodesUsage(l.window), at)
}
