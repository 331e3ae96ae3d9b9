package workload

import (
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

var (
	resizes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_resize_total",
		Help: "Resizes in place by result: success (verified on the pod), failed (the API server, the node or the kubelet did not do it, or it did harm and was left), reverted.",
	}, []string{"namespace", "kind", "workload", "resource", "result"})
	reverts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_reverts_total",
		Help: "Resizes that did harm and were taken back, by reason: oomkill, throttle, restart, notready, slo.",
	}, []string{"namespace", "kind", "workload", "reason"})
	evictions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_eviction_total",
		Help: "Evictions of pods whose node refused a resize, by result: success (the pod went), denied (a PodDisruptionBudget or missing rights).",
	}, []string{"namespace", "kind", "workload", "result"})
)

// incomplete passes went on without something that is new.
var incomplete = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "attune_pass_incomplete_total",
	Help: "What passes over workloads could not read (autoscalers, namespace, node, nodes, pod, room) or settle (unsettled: others kept taking the room); nothing new was begun that rests on it.",
}, []string{"what"})

// durations are told of verified resizes alone: what failed is counted, and took as long as its deadline.
var durations = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "attune_resize_duration_seconds",
	Help:    "Time from the decision for a resize until the pod was seen to have it.",
	Buckets: []float64{1, 3, 10, 30, 120, 300}, // few: each workload has them all
}, []string{"namespace", "kind", "workload"})

// setPending keeps no series of a workload that waits for nothing.
func setPending(rec *v1alpha1.AttuneRecommendation, n int) {
	values := []string{rec.Namespace, string(rec.Spec.Workload.Kind), rec.Spec.Workload.Name}
	if n == 0 {
		pendingReverts.DeleteLabelValues(values...)
		return
	}
	pendingReverts.WithLabelValues(values...).Set(float64(n))
}

// counted are the workloads that have series, by their recommendations: once one of these is gone, nobody can say
// any more what it was about. It is safe for concurrent use.
type counted struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]v1alpha1.WorkloadRef
}

func (x *counted) note(rec *v1alpha1.AttuneRecommendation) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if x.of == nil {
		x.of = map[types.NamespacedName]v1alpha1.WorkloadRef{}
	}
	x.of[client.ObjectKeyFromObject(rec)] = rec.Spec.Workload
}

// drop deletes the series of a recommendation's workload.
func (x *counted) drop(name types.NamespacedName) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if of, ok := x.of[name]; ok {
		dropSeries(name.Namespace, of)
		delete(x.of, name)
	}
}

// dropSeries deletes the series of a workload that is gone.
func dropSeries(namespace string, w v1alpha1.WorkloadRef) {
	of := prometheus.Labels{"namespace": namespace, "kind": string(w.Kind), "workload": w.Name}
	for _, metric := range []interface{ DeletePartialMatch(prometheus.Labels) int }{resizes, reverts, evictions, pendingReverts, durations} {
		metric.DeletePartialMatch(of)
	}
}

var pendingReverts = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "attune_reverts_pending",
	Help: "Pods that are to have their old size back and do not get it: their node has no room, or something refuses it.",
}, []string{"namespace", "kind", "workload"})

func countEviction(rec *v1alpha1.AttuneRecommendation, outcome resize.EvictionOutcome) {
	evictions.WithLabelValues(rec.Namespace, string(rec.Spec.Workload.Kind), rec.Spec.Workload.Name, string(outcome)).Inc()
}

func init() {
	metrics.Registry.MustRegister(resizes, reverts, evictions, pendingReverts, durations, incomplete)
}

// count is one increment, decided in data; one of a duration, where that is set.
type count struct {
	resource, result, reason string
	took                     time.Duration
}

// tookOf is how long a resize took that has just been verified.
func tookOf(record v1alpha1.ResizeRecord) []count {
	if record.VerifiedOnce == nil || !record.VerifiedOnce.After(record.WrittenAt.Time) {
		return nil
	}
	return []count{{took: record.VerifiedOnce.Sub(record.WrittenAt.Time)}}
}

// Results of attune_resize_total.
const (
	countSuccess  = "success"
	countFailed   = "failed"
	countReverted = "reverted"
)

// endOf is how the end of a record is counted. A revert for harm is counted when it begins, and the end of what a
// person took back is no failure: neither counts anything here (empty).
func endOf(record v1alpha1.ResizeRecord, action resize.Action) string {
	actuation := record.Reason == resize.ReasonActuation
	switch {
	case action.Reason == v1alpha1.ReasonRevertPending:
		return countFailed
	case action.Result == resize.ResultReverted && actuation:
		return countReverted
	case action.Result != resize.ResultFailed && action.Result != resize.ResultWithdrawn:
		return ""
	case record.Reason == resize.ReasonUndo, record.Phase == v1alpha1.RecordReverting && !actuation:
		return ""
	}
	return countFailed
}

// countsOf is one count for each resource that a record moved, and one of the harm that is the reason (empty: none).
func countsOf(result string, record v1alpha1.ResizeRecord, reason string) []count {
	moved := map[string]bool{}
	for _, row := range resize.HistoryRows("", record, resize.ResultSuccess, "", record.WrittenAt.Time) {
		for _, r := range strings.Split(row.Resource, "+") {
			moved[r] = true
		}
	}
	var out []count
	for r := range moved {
		out = append(out, count{resource: r, result: result, reason: reason})
	}
	if reason != "" {
		out = append(out, count{reason: reason})
	}
	return out
}

func (n count) add(rec *v1alpha1.AttuneRecommendation) {
	w := rec.Spec.Workload
	if n.took > 0 {
		durations.WithLabelValues(rec.Namespace, string(w.Kind), w.Name).Observe(n.took.Seconds())
		return
	}
	if n.resource == "" {
		reverts.WithLabelValues(rec.Namespace, string(w.Kind), w.Name, n.reason).Inc()
		return
	}
	resizes.WithLabelValues(rec.Namespace, string(w.Kind), w.Name, n.resource, n.result).Inc()
}
