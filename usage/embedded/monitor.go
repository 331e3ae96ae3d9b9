package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"k8s.io/utils/clock"

	"attune.io/attune/usage"
)

// mostNamed nodes that do not answer are named in one line of the log.
const mostNamed = 10

// monitor keeps memory and gauges up to date while the source runs, and reports what is wrong: in the log with
// names and causes, in reports with numbers alone. Every owner of a policy may read a report, and names and
// addresses of nodes are not for them (docs/usage-sources.md).
type monitor struct {
	recent   *recent
	disk     *disk
	targets  *targets
	interval time.Duration
	clock    clock.WithTicker
	log      *slog.Logger
	metrics  *Metrics
	// overloaded is true once the log has the message that there is too much to scrape. Only the goroutine of run
	// uses it and loggedFailing.
	overloaded bool
	// loggedFailing are the nodes that do not answer, as the log said last.
	loggedFailing []string
}

// run until the context ends.
// Each turn forgets old series, sets the gauges, and logs what has changed.
func (m *monitor) run(ctx context.Context) {
	ticker := m.clock.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		m.recent.forget(m.clock.Now())
		idle, _ := m.disk.state()
		m.metrics.state(m.recent.count(""), idle == nil)
		m.logOverload()
		m.logFailing()
	}
}

// logOverload logs once in the life of the process that there are more containers than one operator can scrape.
func (m *monitor) logOverload() {
	if load := m.load(); load > 1 && !m.overloaded {
		m.overloaded = true
		m.log.Warn(tooMany(load))
	}
}

// load returns how much there is to scrape, as a fraction of what one operator carries: 1 is Ceiling containers at
// one scrape a minute.
func (m *monitor) load() float64 {
	containers := m.recent.count(memoryMetric)
	return float64(containers) / Ceiling * (time.Minute.Seconds() / m.interval.Seconds())
}

// tooMany is the message for a load above 1. An administrator reads it in the log and in Ready conditions.
func tooMany(load float64) string {
	return fmt.Sprintf("there is %.1f times as much to scrape as one operator carries: raise usage.interval, or set usage.source to prometheus", load)
}

// logFailing logs which kubelets do not answer, and why, but only where that has changed.
func (m *monitor) logFailing() {
	failing, nodes := m.targets.failing()
	if slices.Equal(failing, m.loggedFailing) {
		return
	}
	m.loggedFailing = failing
	if len(failing) == 0 {
		m.log.Info("all nodes can be scraped again", "nodes", nodes)
		return
	}
	m.log.Warn("nodes cannot be scraped", "failing", len(failing), "nodes", nodes, "causes", failing[:min(len(failing), mostNamed)])
}

// warn adds to a report that there is too much to scrape, and that kubelets do not answer. The latter makes the
// report partial: the store then raises histories and never lowers them.
func (m *monitor) warn(report *usage.Report) {
	if load := m.load(); load > 1 {
		report.Warn(tooMany(load))
	}
	failing, nodes := m.targets.failing()
	report.Partial = report.Partial || len(failing) > 0
	if len(failing) > 0 {
		report.Warn(fmt.Sprintf("%d of %d nodes cannot be scraped; the operator's log says which ones, and why", len(failing), nodes))
	}
}
