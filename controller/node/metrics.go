package node

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/internal/board"
	"attune.io/attune/internal/event"
	"attune.io/attune/recommender"
	"attune.io/attune/recommender/node"
)

// Each series has the node's name as a label and is removed with the node (forgetGauges). loadRatio is the load that
// decides about the taint: above 1 the node is overloaded.
var (
	members       = gauge("attune_node_pods", "Number of pods that share the spike headroom of a node, by node.")
	overcommitted = gauge("attune_node_overcommitted",
		"1 if the demands of the pods that share a node do not fit and no pod can be evicted, otherwise 0, by node and resource (cpu, memory).", "resource")
	victimsOf   = gauge("attune_node_evictions_wanted", "Number of pods to evict from a node so that the demands of the others fit, by node.")
	headroomCPU = gauge("attune_node_headroom_cpu_cores",
		"CPU in cores that a node has for the pods that share it, minus their demand, including the reserve for spikes, by node; negative if they do not fit.")
	headroomMemory = gauge("attune_node_headroom_memory_bytes",
		"Memory in bytes that a node has for the pods that share it, minus their demand, including the reserve for spikes, by node; negative if they do not fit.")
	loadRatio = gauge("attune_node_load_ratio", "CPU load of a node divided by the overload threshold, by node: above 1 the node is overloaded, below 0.9 it is healthy.")
	moves     = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_node_grants_total", Help: "Number of new grants that differ from the pod's resources, by node and direction (lowered, raised).",
	}, []string{"node", "direction"})
)

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, append([]string{"node"}, labels...))
}

func init() {
	metrics.Registry.MustRegister(members, overcommitted, victimsOf, headroomCPU, headroomMemory, moves, loadRatio)
}

// loadOf sets the gauge of a node's load. A load that was not measured (NaN) is removed, so that no stale value
// remains.
func loadOf(name string, load float64) {
	if math.IsNaN(load) {
		loadRatio.DeleteLabelValues(name)
		return
	}
	loadRatio.WithLabelValues(name).Set(load)
}

// eventOvercommitted is the reason of events on nodes whose pods do not fit.
const eventOvercommitted = "NodeOvercommitted"

// reportReconcile updates the metrics of a reconcile, and sends an event if the pods of a node do not fit. It runs
// before the grants are published: it counts only grants that differ from those on the board.
func (c *Controller) reportReconcile(on *corev1.Node, out shared) {
	members.WithLabelValues(on.Name).Set(float64(len(out.ledger.members)))
	victimsOf.WithLabelValues(on.Name).Set(float64(len(out.result.Evictions)))
	showHeadroom(on.Name, out)
	for _, r := range recommender.Resources {
		over := 0.0
		if out.result.Overcommitted[r] {
			over = 1
			c.Events.Send(on, nil, event.Warning(eventOvercommitted, "%s: the pods that share this node need %s, but only %s is available, and no pod can be evicted. Delete a pod that fits another node, or allow evictions (node.eviction)",
				r, recommender.Readable(r, out.result.Needed[r]), recommender.Readable(r, max(0, out.ledger.available[r]))))
		}
		overcommitted.WithLabelValues(on.Name, r.String()).Set(over)
	}
	// A grant that is published again without a change is not counted: reconciles repeat every few minutes, and only
	// changes are of interest.
	for i, pod := range out.ledger.members {
		granted := out.grants[pod.UID]
		if before, ok := c.Grants.Of(pod.UID); !ok || !maps.Equal(before.Sizes, granted.Sizes) {
			lowers, raises := directions(&out.ledger.demands[i], granted)
			if lowers {
				moves.WithLabelValues(on.Name, "lowered").Inc()
			}
			if raises {
				moves.WithLabelValues(on.Name, "raised").Inc()
			}
		}
	}
}

// showHeadroom sets the headroom of a node. A node that no pods share has no headroom series.
func showHeadroom(name string, out shared) {
	if len(out.ledger.members) == 0 {
		headroomCPU.DeleteLabelValues(name)
		headroomMemory.DeleteLabelValues(name)
		return
	}
	left := func(r recommender.Resource) float64 { return float64(out.ledger.available[r] - out.result.Needed[r]) }
	headroomCPU.WithLabelValues(name).Set(left(recommender.CPU) / 1000)
	headroomMemory.WithLabelValues(name).Set(left(recommender.Memory))
}

// directions returns whether a grant lowers and whether it raises a request of the pod; it may do both.
func directions(p *node.Pod, granted board.Pod) (lowers, raises bool) {
	for i := range p.Containers {
		c := &p.Containers[i]
		for r, a := range granted.Sizes[c.Name] {
			lowers = lowers || a.Request > 0 && a.Request < c.Current[r]
			raises = raises || a.Request > c.Current[r]
		}
	}
	return lowers, raises
}

// forgetGauges removes the metrics of a deleted node.
func forgetGauges(name string) {
	for _, vec := range []*prometheus.MetricVec{members.MetricVec, overcommitted.MetricVec, victimsOf.MetricVec, headroomCPU.MetricVec, headroomMemory.MetricVec, moves.MetricVec} {
		vec.DeletePartialMatch(prometheus.Labels{"node": name})
	}
}

const (
	// heldFor is how long other pods have less than their bases before an event names the pod that causes it. Most
	// causes end within that time.
	heldFor = 15 * time.Minute
	// heldAgain is the time between two such events.
	heldAgain = time.Hour
)

// eventShareExceeded is the reason of events on nodes where pods hold more than their share and others lack it.
const eventShareExceeded = "NodeShareExceeded"

// holding is, for each resource, since when pods of a node keep others below their bases, and when that was last
// reported; zero: they do not, or it was not. If it is lost, only the next event is later.
type holding [2]struct{ since, told time.Time }

// settle continues from the last reconcile. It returns the holders to report now: for each resource at most one, the
// one with the largest excess.
func (h holding) settle(holders []node.Holder, now time.Time) (holding, []node.Holder) {
	var tell []node.Holder
	for _, r := range recommender.Resources {
		i := slices.IndexFunc(holders, func(x node.Holder) bool { return x.Resource == r })
		switch {
		case i < 0:
			h[r].since = time.Time{}
		case h[r].since.IsZero():
			h[r].since = now
		case now.Sub(h[r].since) >= heldFor && (h[r].told.IsZero() || now.Sub(h[r].told) >= heldAgain):
			h[r].told = now
			tell = append(tell, holders[i])
		}
	}
	return h, tell
}

// reportHolders sends an event for each reported holder, with the number of the others.
func (c *Controller) reportHolders(on *corev1.Node, l *look, out shared, tell []node.Holder) {
	for _, holder := range tell {
		ofResource := slices.DeleteFunc(slices.Clone(out.holders), func(x node.Holder) bool { return x.Resource != holder.Resource })
		more := ""
		if others := len(ofResource) - 1; others > 0 {
			more = fmt.Sprintf("; %d more pods keep more than their share", others)
		}
		c.Events.Send(on, nil, event.Warning(eventShareExceeded, "%s: pods on this node have had less than their base demand for %s or longer: pod %s keeps %s more than its share, because %s%s",
			holder.Resource, heldFor, holder.Name, recommender.Readable(holder.Resource, holder.Above), l.members[holder.Pod].because(node.Difference{Why: holder.Why}), more))
	}
}
