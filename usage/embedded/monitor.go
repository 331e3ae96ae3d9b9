package embedded

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"attune.io/attune/internal/loop"
	"attune.io/attune/usage"
	promsource "attune.io/attune/usage/prometheus"
)

// mostNamed is how many failing nodes one log line names.
const mostNamed = 10

// monitor updates memory and gauges while the source runs, and reports problems: in the log with names and causes, in
// reports only with numbers. Every owner of a policy may read a report, but may not see names and addresses of nodes
// (docs/usage-sources.md).
type monitor struct {
	*scraper
	// overloaded is true once the log has the message that there is too much to scrape. Only the goroutine of run uses
	// overloaded, loggedFailing and loggedShortened.
	overloaded bool
	// loggedShortened has the namespaces with too many samples, as last logged.
	loggedShortened []string
	// loggedFailing has the nodes that do not answer, as last logged.
	loggedFailing []string
}

// run until the context ends.
func (m *monitor) run(ctx context.Context) {
	for range loop.Every(ctx, m.Clock, lookEvery) {
		m.look()
	}
}

// look drops old samples, sets the gauges, and logs changes.
func (m *monitor) look() {
	shortened := m.recent.forget(m.Clock.Now())
	m.Metrics.series.Set(float64(m.recent.count("")))
	m.Metrics.shortened.Set(float64(len(shortened)))
	m.logShortened(shortened)
	m.logOverload()
	m.logFailing()
}

// logOverload logs, once per process, that there are more containers than one operator can scrape.
func (m *monitor) logOverload() {
	if load := m.load(); load > 1 && !m.overloaded {
		m.overloaded = true
		m.Log.Warn(tooMany(load))
	}
}

// logShortened logs the namespaces with more samples than are kept for guardrails, but only if they have changed.
func (m *monitor) logShortened(namespaces []string) {
	if slices.Equal(namespaces, m.loggedShortened) {
		return
	}
	m.loggedShortened = namespaces
	if len(namespaces) == 0 {
		m.Log.Info("Keeping one hour of samples for all namespaces again")
		return
	}
	m.Log.Warn("Some namespaces have too many samples to keep one hour; their guardrails that look further back are not evaluated",
		"namespaces", len(namespaces), "names", namespaces[:min(len(namespaces), mostNamed)], "most", m.recent.most)
}

// load returns how much there is to scrape, as a fraction of the capacity of one operator: 1 is Ceiling containers at
// one scrape a minute.
func (m *monitor) load() float64 {
	containers := m.recent.count(workingSet)
	return float64(containers) / Ceiling * (time.Minute.Seconds() / m.Interval.Seconds())
}

// tooMany is the message for a load above 1. An administrator reads it in the log and in Ready conditions.
func tooMany(load float64) string {
	return fmt.Sprintf("the scrape load is %.1f times the load that one operator supports: raise usage.interval, or set usage.source: prometheus", load)
}

// logFailing logs which kubelets do not answer, and why, but only if that has changed.
func (m *monitor) logFailing() {
	failing, nodes := m.targets.failing()
	if slices.Equal(failing, m.loggedFailing) {
		return
	}
	m.loggedFailing = failing
	if len(failing) == 0 {
		m.Log.Info("All nodes can be scraped again", "nodes", nodes)
		return
	}
	m.Log.Warn("Some nodes cannot be scraped", "failing", len(failing), "nodes", nodes, "causes", failing[:min(len(failing), mostNamed)])
}

// notScraped is the warning of a namespace with pods on excluded nodes.
const notScraped = "some pods of the namespace run on nodes that usage.embedded.nodeSelector excludes, and their usage is not known: " +
	"set usage.source: prometheus if a server has it"

// warn adds to a report that there is too much to scrape, and which namespaces have pods on nodes without usage.
func (m *monitor) warn(ctx context.Context, report *usage.Report) {
	if load := m.load(); load > 1 {
		report.Warn(tooMany(load))
	}
	_, nodes := m.targets.failing()
	failing, excluded := m.targets.unmeasured()
	m.lack(ctx, report, failing, fmt.Sprintf("%d of %d nodes cannot be scraped; the operator's log has their names and the causes", len(failing), nodes))
	m.lack(ctx, report, excluded, notScraped)
}

// lack records why the namespaces with pods on some nodes lack usage. If the pods cannot be listed, every namespace may.
func (m *monitor) lack(ctx context.Context, report *usage.Report, nodes []string, why string) {
	for _, node := range nodes {
		namespaces, err := m.Cluster.NamespacesOn(ctx, node)
		if err != nil {
			report.Partial = true
			report.Warn(why)
			return
		}
		for _, namespace := range namespaces {
			report.Lack(namespace, why)
		}
	}
}

// name is the value of the label source in metrics.
const name = "embedded"

// Metrics has the Prometheus metrics of scraping. They are described in docs/metrics.md.
type Metrics struct {
	// meter is shared with the Prometheus sources.
	meter *promsource.Meter
	// scrapes is a counter by result.
	scrapes *prometheus.CounterVec
	// seconds is the time of a scrape. lateness is how late the scraper is, in seconds.
	seconds  prometheus.Histogram
	lateness prometheus.Gauge
	// often counts the kubelets that are scraped more often, by reason.
	often *prometheus.GaugeVec
	// series and shortened are set once in lookEvery.
	series    prometheus.Gauge
	shortened prometheus.Gauge
}

// NewMetrics makes the metrics and registers them. It panics if one of them is already registered. The shared meter
// counts metrics common to all sources; it must not be nil.
func NewMetrics(registry prometheus.Registerer, shared *promsource.Meter) *Metrics {
	m := &Metrics{
		meter:     shared,
		scrapes:   prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attune_kubelet_scrapes_total", Help: "Scrapes of kubelets, by result: success or failed."}, []string{"result"}),
		seconds:   prometheus.NewHistogram(prometheus.HistogramOpts{Name: "attune_kubelet_scrape_seconds", Help: "Duration of the scrape of one kubelet in seconds.", Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}}),
		lateness:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "attune_kubelet_scrape_late_seconds", Help: "Delay of the most recent kubelet scrape after its scheduled time, in seconds."}),
		often:     prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "attune_kubelets_scraped_often", Help: "Kubelets that are scraped more often because of container memory, by reason: near (every 5 s) or high (every 15 s)."}, []string{"reason"}),
		series:    prometheus.NewGauge(prometheus.GaugeOpts{Name: "attune_usage_series", Help: "Series that the embedded usage source keeps in memory."}),
		shortened: prometheus.NewGauge(prometheus.GaugeOpts{Name: "attune_usage_shortened_namespaces", Help: "Namespaces with too many samples: the embedded usage source keeps less than one hour of them."}),
	}
	registry.MustRegister(m.scrapes, m.seconds, m.lateness, m.often, m.series, m.shortened)
	return m
}

// took counts the samples of one kubelet answer, and the dropped ones by reason.
func (m *Metrics) took(samples []scraped, dropped map[usage.Drop]int) {
	newest := int64(0)
	for i := range samples {
		newest = max(newest, samples[i].T)
	}
	m.meter.Took(name, len(samples), newest)
	m.meter.Dropped(name, dropped)
}

// hastened counts the kubelets that are scraped more often.
func (m *Metrics) hastened(count func(haste) int) {
	for _, why := range []haste{hasteHigh, hasteNear} {
		m.often.WithLabelValues(string(why)).Set(float64(count(why)))
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
