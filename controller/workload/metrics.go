package workload

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/internal/table"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
)

var (
	resizes = counter("attune_resize_total",
		"Resizes in place by result: success (verified on the pod), failed (the API server, the node or the kubelet did not do it, or it did harm and was left), reverted.",
		"resource", "result")
	reverts = counter("attune_reverts_total", "Resizes that did harm and were taken back, by reason: oomkill, throttle, restart, notready, slo.", "reason")
	raises  = counter("attune_memory_raises_total",
		"Raises of memory before an OOM kill by result: raised (verified on the pod), failed (not carried out), reverted (it did harm), given_back (the growth was a spike).",
		"result")
	evictions = counter("attune_eviction_total",
		"Evictions of pods whose node refused a resize, by result: success (the pod went), denied (a PodDisruptionBudget or missing rights).", "result")
)

// counter makes a counter of workloads, with labels beside theirs.
func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"namespace", "kind", "workload"}, labels...))
}

// incomplete counts passes that went on without something new. Its label is one of the what… constants.
var incomplete = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "attune_pass_incomplete_total",
	Help: "What passes over workloads could not read (autoscalers, namespace, node, nodes, pod, room) or settle (unsettled: others kept taking the room); nothing new was begun that rests on it.",
}, []string{"what"})

// durations has the Took of verified resizes only: a failed resize takes as long as its deadline, which
// says nothing about kubelets.
var durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "attune_resize_duration_seconds",
	Help:    "Time from the decision for a resize until the pod was seen to have it.",
	Buckets: []float64{1, 3, 10, 30, 120, 300}, // few: each workload has them all
}, []string{"namespace", "kind", "workload"})

// counted remembers which series of a workload there are, by its recommendation: once that is deleted, its name no longer
// shows the workload's kind and name, and to look for its series among all would cost the more the more there are. It may be
// lost with the process, as the series are.
type counted struct {
	table.Table[types.NamespacedName, []series]
}

// series is one of a metric: the values of its first labels, as many as there are.
type series struct {
	metric *prometheus.MetricVec
	labels [5]string
	many   int
}

func (s series) values() []string { return s.labels[:s.many] }

// note remembers a series of a recommendation's workload before it is written, and returns the values of its labels: those
// of the workload, then the others.
func (x *counted) note(rec *v1alpha1.AttuneRecommendation, metric *prometheus.MetricVec, others ...string) []string {
	s := series{metric: metric, labels: [5]string{rec.Namespace, string(rec.Spec.Workload.Kind), rec.Spec.Workload.Name}}
	s.many = 3 + copy(s.labels[3:], others)
	x.Change(client.ObjectKeyFromObject(rec), func(known []series) []series {
		if slices.Contains(known, s) {
			return known
		}
		return append(known, s)
	})
	return s.values()
}

// drop deletes the series of a recommendation's workload and forgets them.
func (x *counted) drop(name types.NamespacedName) {
	for _, s := range x.Of(name) {
		s.metric.DeleteLabelValues(s.values()...)
	}
	x.Forget(name)
}

// pending sets the gauge of reverts that do not come about; with 0 the series is removed, so that only
// workloads with a problem have one.
func (x *counted) pending(rec *v1alpha1.AttuneRecommendation, n int) {
	if n == 0 {
		pendingReverts.DeleteLabelValues(rec.Namespace, string(rec.Spec.Workload.Kind), rec.Spec.Workload.Name)
		return
	}
	pendingReverts.WithLabelValues(x.note(rec, pendingReverts.MetricVec)...).Set(float64(n))
}

// pendingReverts counts, for each workload, the pods that wait for their old size.
var pendingReverts = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "attune_reverts_pending",
	Help: "Pods that are to have their old size back and do not get it: their node has no room, or something refuses it.",
}, []string{"namespace", "kind", "workload"})

// eviction counts the outcome of an eviction.
func (x *counted) eviction(rec *v1alpha1.AttuneRecommendation, outcome lifecycle.EvictionOutcome) {
	evictions.WithLabelValues(x.note(rec, evictions.MetricVec, string(outcome))...).Inc()
}

func init() {
	metrics.Registry.MustRegister(resizes, reverts, raises, evictions, pendingReverts, durations, incomplete)
}

// add applies one increment of a decision to the metric that it is about (see tuning.Count).
func (x *counted) add(n tuning.Count, rec *v1alpha1.AttuneRecommendation) {
	switch {
	case n.Took > 0:
		durations.WithLabelValues(x.note(rec, durations.MetricVec)...).Observe(n.Took.Seconds())
	case n.Raise != "":
		raises.WithLabelValues(x.note(rec, raises.MetricVec, n.Raise)...).Inc()
	case n.Resource == "":
		reverts.WithLabelValues(x.note(rec, reverts.MetricVec, n.Reason)...).Inc()
	default:
		resizes.WithLabelValues(x.note(rec, resizes.MetricVec, n.Resource, n.Result)...).Inc()
	}
}
