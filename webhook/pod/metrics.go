package pod

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are the counters of admission, labelled by Reason, and the time to answer. NewMetrics makes them.
type Metrics struct {
	// total counts decisions by reason, duration measures the answers in seconds.
	total    *prometheus.CounterVec
	duration prometheus.Histogram
}

// NewMetrics registers attune_admission_total and attune_admission_duration_seconds. It panics where
// they are registered already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attune_admission_total",
			Help: "Pods seen at admission, dry runs left out, by what was decided: Seeded, or the reason why the pod stayed as it was.",
		}, []string{"result"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "attune_admission_duration_seconds",
			Help:    "Time to answer one admission review, from its bytes to the answer's.",
			Buckets: []float64{.00005, .0001, .00025, .0005, .001, .0025, .005, .01, .025, .1, 1},
		}),
	}
	registry.MustRegister(m.total, m.duration)
	return m
}
