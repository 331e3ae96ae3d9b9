package prometheus

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Name of this source in metrics and flags.
const Name = "prometheus"

// Meter counts the questions to usage sources and their answers. It is safe for concurrent use.
type Meter struct {
	samples *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	queries *prometheus.HistogramVec
	errors  *prometheus.CounterVec
}

// NewMeter registers the metrics. It panics where one of them is registered already.
func NewMeter(registry prometheus.Registerer) *Meter {
	m := &Meter{
		samples: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attune_usage_samples_total", Help: "Usage samples taken from a source.",
		}, []string{"source"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "attune_usage_query_seconds", Help: "Time that a query of a usage source took.", Buckets: prometheus.ExponentialBuckets(.001, 4, 9),
		}, []string{"source"}),
		queries: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "attune_prometheus_query_duration_seconds",
			Help:    "Time that a query of a Prometheus server took, by what was asked: usage, throttling, waiting, memory, oomkills or slo.",
			Buckets: prometheus.ExponentialBuckets(.005, 3, 9),
		}, []string{"query_type"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attune_prometheus_query_errors_total",
			Help: "Queries of a Prometheus server that were not answered, by what was asked and the namespace whose policies name the server; empty: it is the operator's own.",
		}, []string{"namespace", "query_type"}),
	}
	registry.MustRegister(m.samples, m.seconds, m.queries, m.errors)
	return m
}

// Took counts samples that a source gave, by the name of the source.
func (m *Meter) Took(source string, samples int) {
	m.samples.WithLabelValues(source).Add(float64(samples))
}

// Read counts a read of usage from a source.
func (m *Meter) Read(source string, took time.Duration) {
	m.seconds.WithLabelValues(source).Observe(took.Seconds())
}

// Asked counts a query of a Prometheus server. err is counted as an error of the namespace; nil: it was answered.
func (m *Meter) Asked(namespace, query string, took time.Duration, err error) {
	m.queries.WithLabelValues(query).Observe(took.Seconds())
	if err != nil {
		m.errors.WithLabelValues(namespace, query).Inc()
	}
}
