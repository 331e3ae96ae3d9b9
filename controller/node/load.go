package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/loop"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// Loads queries a usage source for the CPU of all nodes at a moment. Results are by node name; a node that was not
// measured is missing. An error means that the source did not answer at all.
type Loads interface {
	// Pressure returns the fraction of time in which some process on a node waited for CPU (PSI "some" of
	// its root cgroup), between 0 and 1.
	Pressure(ctx context.Context, at time.Time) (map[string]float64, error)
	// Load1 returns the load average over one minute (node_load1 of node-exporter).
	Load1(ctx context.Context, at time.Time) (map[string]float64, error)
	// Usage returns the used CPU in cores.
	Usage(ctx context.Context, at time.Time) (map[string]float64, error)
}

// LoadEvery is how often the load of nodes is checked.
const LoadEvery = 30 * time.Second

// overloaded is the only taint that this loop ever sets or removes. NoSchedule keeps new pods away and evicts no
// running pod.
var overloaded = corev1.Taint{Key: v1alpha1.OverloadedTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule}

// LoadLoop taints nodes whose CPU is overloaded, and removes the taint once they have recovered. It runs at an
// interval, not by events, and only on the leader: two replicas with different samples would alternately set and
// remove the taint. mutex permits one Look at a time; Busy does not need it.
type LoadLoop struct {
	// Client lists nodes from the cache and patches their taints.
	Client client.Client
	// Loads is the usage source.
	Loads Loads
	// Events sends events about nodes.
	Events *event.Recorder
	// Clock gives the times and the ticks.
	Clock clock.WithTicker

	mutex sync.Mutex
	// of is the state of each node. It may be lost: a node that carries the taint then counts as overloaded.
	of map[string]node.LoadState
	// inUse has its own mutex, so that Busy never waits for the usage source.
	inUse board.Table[string, fraction]
}

// Start calls Look every LoadEvery until the context ends. An error is logged, and the next tick tries again. Start
// always returns nil.
func (l *LoadLoop) Start(ctx context.Context) error {
	for range loop.Every(ctx, l.Clock, LoadEvery) {
		if err := l.Look(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Cannot check the load of nodes; retrying at the next tick")
		}
	}
	return nil
}

// Look checks every node once, and sets and removes taints. It takes no longer than LoadEvery. An error of one node
// does not stop it; it returns all errors. If the source does not answer, the states do not change, and node.Taints
// sets no new taint without a measurement.
func (l *LoadLoop) Look(ctx context.Context) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	ctx, cancel := context.WithTimeout(ctx, LoadEvery)
	defer cancel()
	list := &corev1.NodeList{}
	if err := l.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing nodes: %w", err)
	}
	now := l.Clock.Now()
	unanswered := l.measure(ctx, list.Items, now)
	loaded := make([]node.LoadedNode, 0, len(list.Items))
	for i := range list.Items {
		n := &list.Items[i]
		state := l.of[n.Name]
		loaded = append(loaded, node.LoadedNode{
			Name: n.Name, LoadState: state, Tainted: tainted(n), Open: open(n), Measured: state.Last.Equal(now),
		})
	}
	// The decision is made over all nodes together: at most a third of the open ones is tainted at a time. Otherwise
	// an error of the source could close the whole cluster.
	names := node.Taints(loaded)
	failures := []error{unanswered}
	for i := range list.Items {
		failures = append(failures, l.taint(ctx, &list.Items[i], slices.Contains(names, list.Items[i].Name)))
	}
	return errors.Join(failures...)
}

// measure updates the state of each node and drops deleted nodes. A node that was not measured keeps its state, and
// all nodes do if the source did not answer. A node that is new to the loop and has the taint starts as overloaded,
// so that a restart does not remove a taint without a measurement.
func (l *LoadLoop) measure(ctx context.Context, nodes []corev1.Node, now time.Time) error {
	before := l.of
	l.of = make(map[string]node.LoadState, len(nodes))
	samples, unanswered := l.samples(ctx, nodes, now)
	for i := range nodes {
		n := &nodes[i]
		state, known := before[n.Name]
		if !known {
			state.Overloaded = tainted(n)
		}
		delete(before, n.Name)
		if unanswered == nil {
			load := samples[i].Load()
			loadOf(n.Name, load)
			if used := samples[i].InUse(); !math.IsNaN(used) {
				l.inUse.Put(n.Name, fraction{used, now})
			}
			state = state.Next(load, now)
		}
		l.of[n.Name] = state
	}
	for name := range before {
		loadRatio.DeleteLabelValues(name)
		l.inUse.Forget(name)
	}
	return unanswered
}

// Busy returns the last measured fraction of a node's CPU in use, by usage or by load average (1 = all of it); false:
// it was not measured at or after since.
func (l *LoadLoop) Busy(node string, since time.Time) (float64, bool) {
	last, known := l.inUse.Find(node)
	return last.used, known && !last.at.Before(since)
}

// fraction is one measurement: the used part of a node's CPU, and when.
type fraction struct {
	used float64
	at   time.Time
}

// samples returns the measurements of the nodes, in their order, with NaN for missing values. Each signal is queried
// at most once for all nodes, and only if some node cannot be judged without it.
func (l *LoadLoop) samples(ctx context.Context, nodes []corev1.Node, now time.Time) ([]node.LoadSample, error) {
	nan := math.NaN()
	samples := make([]node.LoadSample, len(nodes))
	for i, n := range nodes {
		samples[i] = node.LoadSample{Pressure: nan, Load1: nan, Usage: nan, CPUs: n.Status.Capacity.Cpu().AsApproximateFloat64(),
			Allocatable: float64(podview.AmountOf(recommender.CPU, *n.Status.Allocatable.Cpu())) / 1000}
	}
	// Each query covers what the previous ones left open: the load average for nodes without a pressure, the usage
	// for nodes that still cannot be judged (a pressure counts only together with usage).
	for _, ask := range []struct {
		wanted func(node.LoadSample) bool
		of     func(context.Context, time.Time) (map[string]float64, error)
		put    func(*node.LoadSample) *float64
	}{
		{func(node.LoadSample) bool { return true }, l.Loads.Pressure, func(s *node.LoadSample) *float64 { return &s.Pressure }},
		{func(s node.LoadSample) bool { return !s.Pressing() }, l.Loads.Load1, func(s *node.LoadSample) *float64 { return &s.Load1 }},
		{func(s node.LoadSample) bool { return math.IsNaN(s.Load()) }, l.Loads.Usage, func(s *node.LoadSample) *float64 { return &s.Usage }},
	} {
		if !slices.ContainsFunc(samples, ask.wanted) {
			continue
		}
		values, err := ask.of(ctx, now)
		if err != nil {
			return nil, fmt.Errorf("measuring the load of nodes: %w", err)
		}
		for i := range samples {
			if value, known := values[nodes[i].Name]; known {
				*ask.put(&samples[i]) = value
			}
		}
	}
	return samples, nil
}

// controlPlane is the key of the label, and usually of a taint, of nodes that run the control plane.
const controlPlane = "node-role.kubernetes.io/control-plane"

// open reports whether the scheduler may place new pods on a node, apart from this loop's taint.
func open(n *corev1.Node) bool {
	_, labelled := n.Labels[controlPlane]
	return resize.NodeReady(n) && !n.Spec.Unschedulable && !labelled &&
		!slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == controlPlane })
}

// tainted reports whether the node has this loop's taint with the same key, value and effect. A taint with the same
// key and another value belongs to another writer and is not changed.
func tainted(n *corev1.Node) bool { return slices.ContainsFunc(n.Spec.Taints, ours) }

func ours(t corev1.Taint) bool {
	return t.Key == overloaded.Key && t.Value == overloaded.Value && t.Effect == overloaded.Effect
}

// taint sets or removes the taint. The patch replaces the whole list of taints, so it contains the resourceVersion of
// the node that it was made from. If another writer changes the node at the same time, this patch fails, and the next
// tick decides again.
func (l *LoadLoop) taint(ctx context.Context, n *corev1.Node, want bool) error {
	if tainted(n) == want {
		return nil
	}
	next := n.DeepCopy()
	told := event.Normal(v1alpha1.EventNodeTaintRemoved, "Removed taint %s: the CPU load of the node is normal again, or too many nodes have the taint", overloaded.Key)
	if want {
		next.Spec.Taints = append(next.Spec.Taints, overloaded)
		told = event.Warning(v1alpha1.EventNodeTainted, "Added taint %s=%s:%s: the CPU of the node has been overloaded for 2 minutes", overloaded.Key, overloaded.Value, overloaded.Effect)
	} else {
		next.Spec.Taints = slices.DeleteFunc(next.Spec.Taints, ours)
	}
	switch err := l.Client.Patch(ctx, next, loop.Locked(n)); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // the next tick reads the new state
	case err != nil:
		return fmt.Errorf("patching the taints of node %s: %w", n.Name, err)
	}
	l.Events.Send(n, nil, told)
	return nil
}
