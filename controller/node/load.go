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
	"attune.io/attune/internal/event"
	"attune.io/attune/internal/loop"
	"attune.io/attune/podview"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
	"attune.io/attune/resize"
)

// Loads answers what a usage source measures of all nodes' CPU at a moment, by the nodes' names: those that are missing
// were not measured. An error means that it did not answer at all.
type Loads interface {
	// Pressure is the fraction of time in which something on a node waited for CPU (PSI of its root cgroup).
	Pressure(ctx context.Context, at time.Time) (map[string]float64, error)
	// Load1 is the load average over a minute, as node-exporter has it.
	Load1(ctx context.Context, at time.Time) (map[string]float64, error)
	// Usage is in cores.
	Usage(ctx context.Context, at time.Time) (map[string]float64, error)
}

// LoadEvery is how often nodes are looked at for their load.
const LoadEvery = 30 * time.Second

// overloaded is the one taint that is ever set or taken away here.
var overloaded = corev1.Taint{Key: v1alpha1.OverloadedTaint, Value: "true", Effect: corev1.TaintEffectNoSchedule}

// LoadLoop taints nodes whose CPU is overloaded, and takes the taint away once they are well.
type LoadLoop struct {
	Client client.Client
	Loads  Loads
	Events *event.Recorder
	Clock  clock.WithTicker

	mutex sync.Mutex
	of    map[string]node.LoadState
	inUse inUse
}

// NeedLeaderElection is true: one replica taints.
func (l *LoadLoop) NeedLeaderElection() bool { return true }

// Start looks until the context ends. What fails is tried again at the next tick.
func (l *LoadLoop) Start(ctx context.Context) error {
	for range loop.Every(ctx, l.Clock, LoadEvery) {
		if err := l.Look(ctx); err != nil && ctx.Err() == nil {
			log.FromContext(ctx).Error(err, "Looking at the load of nodes; looking again at the next tick")
		}
	}
	return nil
}

// Look looks at every node once, and taints and untaints. It takes no longer than until the next look.
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
	names := node.Taints(loaded)
	failures := []error{unanswered}
	for i := range list.Items {
		failures = append(failures, l.taint(ctx, &list.Items[i], slices.Contains(names, list.Items[i].Name)))
	}
	return errors.Join(failures...)
}

// measure brings what is known of the nodes up to date, and forgets those that are gone. What is not measured stays
// as it is, and so does everything where the source did not answer.
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
			l.inUse.note(n.Name, samples[i].InUse(), now)
			state = state.Next(load, now)
		}
		l.of[n.Name] = state
	}
	for name := range before {
		loadRatio.DeleteLabelValues(name)
		l.inUse.forget(name)
	}
	return unanswered
}

// Busy is the used fraction of a node's CPU as it was measured last, by usage or by load average; false: it was not
// since a time.
func (l *LoadLoop) Busy(node string, since time.Time) (float64, bool) {
	return l.inUse.since(node, since)
}

// inUse is what was measured last of nodes' CPU. It is safe for concurrent use, and nobody waits for a look.
type inUse struct {
	mutex sync.Mutex
	of    map[string]fraction
}

type fraction struct {
	used float64
	at   time.Time
}

func (u *inUse) note(node string, used float64, at time.Time) {
	if math.IsNaN(used) {
		return
	}
	u.mutex.Lock()
	defer u.mutex.Unlock()
	if u.of == nil {
		u.of = map[string]fraction{}
	}
	u.of[node] = fraction{used, at}
}

func (u *inUse) since(node string, since time.Time) (float64, bool) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	last, known := u.of[node]
	return last.used, known && !last.at.Before(since)
}

func (u *inUse) forget(node string) {
	u.mutex.Lock()
	defer u.mutex.Unlock()
	delete(u.of, node)
}

// samples of the nodes, in their order. Each signal is asked for at most once, for all nodes, and only where some node
// cannot be judged without it.
func (l *LoadLoop) samples(ctx context.Context, nodes []corev1.Node, now time.Time) ([]node.LoadSample, error) {
	nan := math.NaN()
	samples := make([]node.LoadSample, len(nodes))
	for i, n := range nodes {
		samples[i] = node.LoadSample{Pressure: nan, Load1: nan, Usage: nan, CPUs: n.Status.Capacity.Cpu().AsApproximateFloat64(),
			Allocatable: float64(podview.AmountOf(recommender.CPU, *n.Status.Allocatable.Cpu())) / 1000}
	}
	for _, ask := range []struct {
		wanted func(node.LoadSample) bool
		of     func(context.Context, time.Time) (map[string]float64, error)
		put    func(*node.LoadSample) *float64
	}{
		{anything, l.Loads.Pressure, func(s *node.LoadSample) *float64 { return &s.Pressure }},
		{unpressed, l.Loads.Load1, func(s *node.LoadSample) *float64 { return &s.Load1 }},
		{unjudged, l.Loads.Usage, func(s *node.LoadSample) *float64 { return &s.Usage }},
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

func anything(node.LoadSample) bool    { return true }
func unpressed(s node.LoadSample) bool { return !s.Pressing() }
func unjudged(s node.LoadSample) bool  { return math.IsNaN(s.Load()) }

// controlPlane is the key of the label, and mostly of a taint, of nodes that run the control plane.
const controlPlane = "node-role.kubernetes.io/control-plane"

// open: new pods find a place there, but for our taint.
func open(n *corev1.Node) bool {
	_, labelled := n.Labels[controlPlane]
	return resize.NodeReady(n) && !n.Spec.Unschedulable && !labelled &&
		!slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == controlPlane })
}

// tainted: the node carries our taint, key, value and effect; another one with its key is none of ours.
func tainted(n *corev1.Node) bool { return slices.Contains(withoutTimes(n.Spec.Taints), overloaded) }

func withoutTimes(taints []corev1.Taint) []corev1.Taint {
	out := slices.Clone(taints)
	for i := range out {
		out[i].TimeAdded = nil
	}
	return out
}

// taint sets our taint or takes it away. The patch replaces the whole list, so it names the version of the node that
// it rests on: whoever writes at the same time goes first.
func (l *LoadLoop) taint(ctx context.Context, n *corev1.Node, want bool) error {
	if tainted(n) == want {
		return nil
	}
	next := n.DeepCopy()
	told := event.Normal(v1alpha1.EventNodeTaintRemoved, "Took away the taint %s: its CPU is well again, or too many nodes carry it", overloaded.Key)
	if want {
		next.Spec.Taints = append(next.Spec.Taints, overloaded)
		told = event.Warning(v1alpha1.EventNodeTainted, "Tainted with %s=%s:%s: its CPU has been overloaded for 2 minutes", overloaded.Key, overloaded.Value, overloaded.Effect)
	} else {
		next.Spec.Taints = slices.DeleteFunc(next.Spec.Taints, func(t corev1.Taint) bool {
			return t.Key == overloaded.Key && t.Value == overloaded.Value && t.Effect == overloaded.Effect
		})
	}
	patch := client.MergeFromWithOptions(n, client.MergeFromWithOptimisticLock{})
	err := l.Client.Patch(ctx, next, patch)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // the next look sees what has become of it
	case err != nil:
		return fmt.Errorf("patching the taints of node %s: %w", n.Name, err)
	}
	l.Events.Send(n, nil, told)
	return nil
}
