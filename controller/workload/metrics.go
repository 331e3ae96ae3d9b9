package workload

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/api/v1alpha1"
	"attune.io/attune/resize"
)

var (
	resizes = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_resize_total",
		Help: "Resizes in place by result: success (verified on the pod), failed, reverted.",
	}, []string{"namespace", "kind", "workload", "resource", "result"})
	reverts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_reverts_total",
		Help: "Resizes that were taken back, by reason: oomkill, throttle, restart, notready, slo.",
	}, []string{"namespace", "kind", "workload", "reason"})
	evictions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_eviction_total",
		Help: "Evictions of pods whose node refused a resize, by result: success (the pod went), denied (a PodDisruptionBudget or missing rights).",
	}, []string{"namespace", "kind", "workload", "result"})
)

// setPending keeps no series of a workload that waits for nothing.
func setPending(rec *v1alpha1.AttuneRecommendation, n int) {
	values := []string{rec.Namespace, string(rec.Spec.Workload.Kind), rec.Spec.Workload.Name}
	if n == 0 {
		pendingReverts.DeleteLabelValues(values...)
		return
	}
	pendingReverts.WithLabelValues(values...).Set(float64(n))
}

// dropSeries deletes the series of a workload that is gone.
func dropSeries(rec *v1alpha1.AttuneRecommendation) {
	of := prometheus.Labels{"namespace": rec.Namespace, "kind": string(rec.Spec.Workload.Kind), "workload": rec.Spec.Workload.Name}
	for _, metric := range []interface{ DeletePartialMatch(prometheus.Labels) int }{resizes, reverts, evictions, pendingReverts} {
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

func init() { metrics.Registry.MustRegister(resizes, reverts, evictions, pendingReverts) }

// count is one increment, decided in data.
type count struct{ resource, result, reason string }

// countsOf is one count for each resource that a record moved.
func countsOf(result string, record v1alpha1.ResizeRecord, reason string) []count {
	moved := map[string]bool{}
	for _, row := range resize.HistoryRows("", record, resize.ResultSuccess, "", record.WrittenAt.Time) {
		for _, r := range strings.Split(row.Resource, "+") {
			moved[r] = true
		}
	}
	var out []count
	for r := range moved {
		out = append(out, count{r, result, reason})
	}
	if result == "reverted" {
		out = append(out, count{reason: reason})
	}
	return out
}

func (n count) add(rec *v1alpha1.AttuneRecommendation) {
	w := rec.Spec.Workload
	if n.resource == "" {
		reverts.WithLabelValues(rec.Namespace, string(w.Kind), w.Name, n.reason).Inc()
		return
	}
	resizes.WithLabelValues(rec.Namespace, string(w.Kind), w.Name, n.resource, n.result).Inc()
}
