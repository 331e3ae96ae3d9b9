package embedded

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attune.io/attune/usage"
	promsource "attune.io/attune/usage/prometheus"
)

// name is the value of the label source in metrics.
const name = "embedded"

// Metrics holds the Prometheus metrics of scraping. They are described in docs/metrics.md.
type Metrics struct {
	// meter is shared with the Prometheus sources.
	meter *promsource.Meter
	// dropped and scrapes are counters by reason and by result.
	dropped *prometheus.CounterVec
	scrapes *prometheus.CounterVec
	// seconds is the time of a scrape. lateness is how far behind its schedule the scraper is, in seconds.
	seconds  prometheus.Histogram
	lateness prometheus.Gauge
	// series and onDisk are set once in lookEvery.
	series prometheus.Gauge
	onDisk prometheus.Gauge
}

// NewMetrics makes the metrics and registers them. It panics where one of them is registered already. The shared
// meter counts what all sources have in common; it must not be nil.
func NewMetrics(registry prometheus.Registerer, shared *promsource.Meter) *Metrics {
	m := &Metrics{
		meter:    shared,
		dropped:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attune_usage_samples_dropped_total", Help: "Usage samples of a source that were of no use, by reason."}, []string{"source", "reason"}),
		scrapes:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attune_kubelet_scrapes_total", Help: "Scrapes of kubelets, by result: success or failed."}, []string{"result"}),
		seconds:  prometheus.NewHistogram(prometheus.HistogramOpts{Name: "attune_kubelet_scrape_seconds", Help: "Time that the scrape of one kubelet took.", Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}),
		lateness: prometheus.NewGauge(prometheus.GaugeOpts{Name: "attune_kubelet_scrape_late_seconds", Help: "How long after its turn a kubelet was asked last."}),
		series:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "attune_usage_series", Help: "Series that the embedded source has in memory."}),
		onDisk:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "attune_usage_disk", Help: "1: the embedded source keeps raw samples on disk; 0: it goes on without."}),
	}
	registry.MustRegister(m.dropped, m.scrapes, m.seconds, m.lateness, m.series, m.onDisk)
	return m
}

// took notes the samples of one answer of a kubelet, and those that were dropped, by reason.
func (m *Metrics) took(samples int, dropped map[usage.Drop]int) {
	m.meter.Took(name, samples)
	for why, n := range dropped {
		m.dropped.WithLabelValues(name, string(why)).Add(float64(n))
	}
}

// scraped counts one job: a scrape of a node, of up to two answers.
func (m *Metrics) scraped(err error, took time.Duration) {
	result := "success"
	if err != nil {
		result = "failed"
	}
	m.scrapes.WithLabelValues(result).Inc()
	m.seconds.Observe(took.Seconds())
}

// late sets how long after its turn a kubelet was asked.
func (m *Metrics) late(by time.Duration) { m.lateness.Set(by.Seconds()) }

// asked notes one Read.
func (m *Metrics) asked(took time.Duration) { m.meter.Read(name, took) }

// state of memory and disk.
// It is called once in lookEvery.
func (m *Metrics) state(series int, disk bool) {
	m.series.Set(float64(series))
	m.onDisk.Set(0)
	if disk {
		m.onDisk.Set(1)
	}
}
