package workload

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize/lifecycle"
	"attune.io/attune/tuning"
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
	raises = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_memory_raises_total",
		Help: "Raises of memory before an OOM kill by result: raised (verified on the pod), failed (not carried out), reverted (it did harm), given_back (the growth was a spike).",
	}, []string{"namespace", "kind", "workload", "result"})
	evictions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_eviction_total",
		Help: "Evictions of pods whose node refused a resize, by result: success (the pod went), denied (a PodDisruptionBudget or missing rights).",
	}, []string{"namespace", "kind", "workload", "result"})
)

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

// setPending sets the gauge of reverts that do not come about; with 0 the series is removed, so that only
// workloads with a problem have one.
func setPending(rec *v1alpha1.AttuneRecommendation, n int) {
	values := []string{rec.Namespace, string(rec.Spec.Workload.Kind), rec.Spec.Workload.Name}
	if n == 0 {
		pendingReverts.DeleteLabelValues(values...)
		return
	}
	pendingReverts.WithLabelValues(values...).Set(float64(n))
}

// counted remembers which workload the series of a recommendation are about: once the recommendation is
// deleted, its name no longer shows the workload's kind and name. It may be lost with the process, as the
// series are. mutex guards of.
type counted struct {
	mutex sync.Mutex
	of    map[types.NamespacedName]v1alpha1.WorkloadRef
}

// note remembers the workload of a recommendation before series of it are written.
func (x *counted) note(rec *v1alpha1.AttuneRecommendation) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if x.of == nil {
		x.of = map[types.NamespacedName]v1alpha1.WorkloadRef{}
	}
	x.of[client.ObjectKeyFromObject(rec)] = rec.Spec.Workload
}

// drop deletes the series of a recommendation's workload and forgets it.
func (x *counted) drop(name types.NamespacedName) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if of, ok := x.of[name]; ok {
		dropSeries(name.Namespace, of)
		delete(x.of, name)
	}
}

// dropSeries deletes all series of a workload.
func dropSeries(namespace string, w v1alpha1.WorkloadRef) {
	of := prometheus.Labels{"namespace": namespace, "kind": string(w.Kind), "workload": w.Name}
	for _, metric := range []interface{ DeletePartialMatch(prometheus.Labels) int }{resizes, reverts, raises, evictions, pendingReverts, durations} {
		metric.DeletePartialMatch(of)
	}
}

// pendingReverts counts, for each workload, the pods that wait for their old size.
var pendingReverts = prometheus.NewGaugeVec(prometheus.GaugeOpts{
	Name: "attune_reverts_pending",
	Help: "Pods that are to have their old size back and do not get it: their node has no room, or something refuses it.",
}, []string{"namespace", "kind", "workload"})

// countEviction counts the outcome of an eviction.
func countEviction(rec *v1alpha1.AttuneRecommendation, outcome lifecycle.EvictionOutcome) {
	evictions.WithLabelValues(rec.Namespace, string(rec.Spec.Workload.Kind), rec.Spec.Workload.Name, string(outcome)).Inc()
}

func init() {
	metrics.Registry.MustRegister(resizes, reverts, raises, evictions, pendingReverts, durations, incomplete)
}

// add applies one increment of a decision to the metric that it is about (see tuning.Count).
func add(n tuning.Count, rec *v1alpha1.AttuneRecommendation) {
	w := rec.Spec.Workload
	if n.Took > 0 {
		durations.WithLabelValues(rec.Namespace, string(w.Kind), w.Name).Observe(n.Took.Seconds())
		return
	}
	if n.Raise != "" {
		raises.WithLabelValues(rec.Namespace, string(w.Kind), w.Name, n.Raise).Inc()
		return
	}
	if n.Resource == "" {
		reverts.WithLabelValues(rec.Namespace, string(w.Kind), w.Name, n.Reason).Inc()
		return
	}
	resizes.WithLabelValues(rec.Namespace, string(w.Kind), w.Name, n.Resource, n.Result).Inc()
}
