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
)

func init() { metrics.Registry.MustRegister(resizes, reverts) }

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
