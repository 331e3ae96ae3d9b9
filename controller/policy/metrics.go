package policy

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"attune.io/attune/recommender"
	"attune.io/attune/resize"
)

var (
	labels          = []string{"namespace", "kind", "workload", "container"}
	recommendedCPU  = gauge("attune_recommendation_cpu_cores", "CPU request that a container is heading to.", labels)
	recommendedMem  = gauge("attune_recommendation_memory_bytes", "Memory request that a container is heading to.", labels)
	confidenceGauge = gauge("attune_confidence", "Confidence of a recommendation, from 0 to 1.", labels)
)

func gauge(name, help string, labels []string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	metrics.Registry.MustRegister(g)
	return g
}

// publish sets the gauges of a policy's recommendations.
func publish(r report) {
	for _, rec := range r.recommendations {
		for _, c := range rec.Spec.Containers {
			values := []string{rec.Namespace, string(rec.Spec.Workload.Kind), rec.Spec.Workload.Name, c.Name}
			size := resize.FromResources(c.Target)
			recommendedCPU.WithLabelValues(values...).Set(float64(size[recommender.CPU].Request) / 1000)
			recommendedMem.WithLabelValues(values...).Set(float64(size[recommender.Memory].Request))
		}
	}
}
