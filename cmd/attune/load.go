package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	nodeloop "attune.io/attune/controller/node"
	"attune.io/attune/controller/workload"
	events "attune.io/attune/internal/event"
	"attune.io/attune/recommender"
	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
	"attune.io/attune/usage/recent"
)

// watchLoad adds the loop that taints overloaded nodes, where that is switched on; else it is nil.
func (o *options) watchLoad(mgr ctrl.Manager, recorder *events.Recorder) (*nodeloop.LoadLoop, error) {
	if !o.nodeLoadTaint {
		return nil, nil
	}
	source, err := o.loadSource()
	if err != nil {
		return nil, fmt.Errorf("setting up the load taint: %w", err)
	}
	loop := &nodeloop.LoadLoop{
		Client: mgr.GetClient(), Loads: loads{source, prometheus.ScopeOf(o.prometheus.matchers), loadWindow(o.usageInterval)}, Events: recorder, Clock: clock.RealClock{},
	}
	return loop, mgr.Add(loop)
}

// lately knows what was scraped, or what a server has been asked for already.
func (o *options) lately(pods *recent.Store, nodes *nodeloop.LoadLoop) workload.Lately {
	if o.own != nil {
		return o.own
	}
	return askedBefore{pods, nodes}
}

// askedBefore is what the strategy Node has asked a server for, of pods, and the load taint, of nodes. Without the
// taint nodes is nil.
type askedBefore struct {
	pods  *recent.Store
	nodes *nodeloop.LoadLoop
}

func (a askedBefore) CPU(_ context.Context, namespace, pod, container string, since, now time.Time) (recommender.Usage, bool) {
	return a.pods.CPU(namespace, pod, container, since, now)
}

func (a askedBefore) Busy(_ context.Context, node string, since, _ time.Time) (float64, bool) {
	if a.nodes == nil {
		return 0, false
	}
	return a.nodes.Busy(node, since)
}

// asker answers a query about all nodes, by their names.
type asker func(ctx context.Context, query string, at time.Time) (map[string]float64, error)

// loadSource is the operator's own source. It is asked for its server each time: a client that was refused is made anew.
func (o *options) loadSource() (asker, error) {
	if o.own != nil {
		return o.own.AskNodes, nil
	}
	if _, err := o.ownServer(nil); err != nil {
		return nil, err
	}
	return func(ctx context.Context, query string, at time.Time) (map[string]float64, error) {
		server, err := o.kept(nil, usage.SourceSettings{})
		if err != nil {
			return nil, err
		}
		return server.nodes(ctx, query, at)
	}, nil
}

// loadWindow has room for two samples of a source that is asked, or asks, every interval.
func loadWindow(interval time.Duration) time.Duration {
	return max(time.Minute, 2*interval+30*time.Second)
}

// loads asks the operator's own source about nodes.
type loads struct {
	source asker
	scope  prometheus.Scope
	window time.Duration
}

func (l loads) Pressure(ctx context.Context, at time.Time) (map[string]float64, error) {
	return l.source(ctx, l.scope.NodesPressure(l.window), at)
}

func (l loads) Load1(ctx context.Context, at time.Time) (map[string]float64, error) {
	return l.source(ctx, l.scope.NodesLoad(), at)
}

func (l loads) Usage(ctx context.Context, at time.Time) (map[string]float64, error) {
	return l.source(ctx, l.scope.NodesUsage(l.window), at)
}
