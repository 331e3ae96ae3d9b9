package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"attune.io/attune/usage/embedded"
	promsource "attune.io/attune/usage/prometheus"
	"attune.io/attune/webhook/pod"
	"attune.io/attune/webhook/server"
)

// meters holds the metrics of what this package makes; the loops register their own.
type meters struct {
	// admission is nil where no webhook is served.
	admission *pod.Metrics
	// webhooks counts reviews that the server refused; nil where no webhook is served.
	webhooks *server.Metrics
	// usage is nil where nothing is measured.
	usage *promsource.Meter
	// embedded is nil where a server is asked instead.
	embedded *embedded.Metrics
	// dropped connections to the ports of the metrics and of the probes.
	dropped *prometheus.CounterVec
}

// newMeters registers the metrics of what the program does. It panics where one of them is registered already.
func newMeters(o *Options, registry prometheus.Registerer) (m meters) {
	m.dropped = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "attune_connections_dropped_total",
		Help: "Connections to the ports of the metrics and the probes that were closed for others.",
	}, []string{"port"})
	registry.MustRegister(m.dropped)
	if o.program.serves {
		m.admission, m.webhooks = pod.NewMetrics(registry), server.NewMetrics(registry)
	}
	if o.program.controls {
		m.usage = promsource.NewMeter(registry)
		if o.usage.source == sourceEmbedded {
			m.embedded = embedded.NewMetrics(registry, m.usage)
		}
	}
	return m
}
