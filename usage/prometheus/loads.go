package prometheus

import (
	"context"
	"time"
)

// NodeAsker evaluates an expression about all nodes at a moment, and answers by their names.
type NodeAsker func(ctx context.Context, expression string, at time.Time) (map[string]float64, error)

// Loads asks a source about the CPU of all nodes, for the load taint.
type Loads struct {
	ask    NodeAsker
	scope  Scope
	window time.Duration
}

// NewLoads asks within a scope about a source with a sample each interval. The window has room for two samples, since a
// rate needs two.
func NewLoads(ask NodeAsker, scope Scope, interval time.Duration) Loads {
	return Loads{ask, scope, max(time.Minute, 2*interval+30*time.Second)}
}

// Pressure is the fraction of time, 0 to 1, in which something on a node waited for CPU (Scope.NodesPressure).
func (l Loads) Pressure(ctx context.Context, at time.Time) (map[string]float64, error) {
	return l.ask(ctx, l.scope.NodesPressure(l.window), at)
}

// Load1 is the load average over a minute (Scope.NodesLoad).
func (l Loads) Load1(ctx context.Context, at time.Time) (map[string]float64, error) {
	return l.ask(ctx, l.scope.NodesLoad(), at)
}

// Usage is the CPU that each node used, in cores (Scope.NodesUsage).
func (l Loads) Usage(ctx context.Context, at time.Time) (map[string]float64, error) {
	return l.ask(ctx, l.scope.NodesUsage(l.window), at)
}
