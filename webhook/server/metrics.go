package server

import (
	"github.com/prometheus/client_golang/prometheus"
)

type counter = prometheus.Counter

// Metrics count, by reason, the requests that no handler saw and the connections closed for others.
type Metrics struct{ busy, slow, large, broken, connections counter }

// NewMetrics registers attune_webhook_dropped_total. It panics where that is registered already.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_webhook_dropped_total",
		Help: "Requests to the webhooks that no handler saw, and connections closed for others, by reason.",
	}, []string{"reason"})
	registry.MustRegister(dropped)
	return &Metrics{
		busy:        dropped.WithLabelValues("Busy"),
		slow:        dropped.WithLabelValues("Slow"),
		large:       dropped.WithLabelValues("TooLarge"),
		broken:      dropped.WithLabelValues("Broken"),
		connections: dropped.WithLabelValues("Connections"),
	}
}
