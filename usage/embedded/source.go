// Package embedded is a usage source that needs no server. It scrapes the kubelets itself, keeps the samples of the
// last hour in memory, and answers through Prometheus's own query engine, with the same expressions that a Prometheus
// server is asked with. What was before is in the checkpoints of the histories (usage/history).
//
// The way of a sample:
//
//	scraper ──reader──► recent (memory) ◄── engine: Read, Value, signals
//
// The scraper asks each kubelet when its turn comes (targets, schedule). A reader turns the text of the answer
// into samples and drops those that the kubelet may not report. recent accepts the samples that are new.
//
// What always holds:
//   - Memory accepts the samples of a series in the order of their times.
//   - Memory has all samples of keptFor. Of a namespace with more than mostSamples it has fewer, but all that
//     recommendations need, and a guardrail that looks further back is not answered.
//   - A kubelet is trusted with usage of pods that the API server places on its node, and of the node itself.
//     Usage beyond the biggest node's capacity is dropped.
//
// Start reading at source.go, then scraper.go, reader.go, recent.go and query.go.
package embedded

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/prometheus/promql"
	"k8s.io/utils/clock"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

const (
	// maxSamples bounds what one query may hold in memory, 16 bytes each; beyond it, usage.ErrTooMuch.
	maxSamples = 5_000_000
	// maxQuery bounds the time of one query; beyond it, usage.ErrTooMuch.
	maxQuery = time.Minute
	// lookEvery is how often old samples are removed from memory, and the gauges are set.
	lookEvery = time.Minute
	// Ceiling is how many containers one operator carries at a scrape a minute, as measured
	// (docs/usage-sources.md). Beyond it, it goes on and says so.
	Ceiling = 20_000
)

// Options of a Source.
type Options struct {
	// Cluster knows nodes and pods. It is asked from several goroutines.
	Cluster Cluster
	// Transport to the kubelets; see Kubelets.
	Transport http.RoundTripper
	// Interval is the time between two scrapes of a kubelet. It must be above 0.
	Interval time.Duration
	// NodePressure makes the scraper ask every kubelet for the CPU pressure (PSI) of its node too. Only cAdvisor
	// has it, as the pressure of the root cgroup.
	NodePressure bool
	// Climb says which containers are on their way to their memory limits, so that their kubelets are scraped more often; nil:
	// none is looked for.
	Climb *Climb
	// Clock paces scrapes and ages samples; tests set their own.
	Clock clock.WithTicker
	// Log receives failures with the names of nodes. It must not be nil.
	Log *slog.Logger
	// Metrics counts scrapes and samples. It must not be nil.
	Metrics *Metrics
}

// Source scrapes kubelets while Start runs, and answers queries from then on: calls wait until it does. It is a
// usage.Source, and safe for concurrent use.
type Source struct {
	options Options
	scraper *scraper
	monitor *monitor
	// engine evaluates expressions over what is recent. maxSamples and maxQuery limit each query.
	engine *promql.Engine
	recent *recent
	// started is closed when scraping begins; queries wait for it.
	started chan struct{}
}

var _ usage.Source = (*Source)(nil)

// New makes a source. It asks no kubelet before Start.
func New(o Options) *Source {
	s := newScraper(o, newRecent(o.Clock.Now()))
	return &Source{options: o, scraper: s, monitor: &monitor{scraper: s}, engine: newEngine(o), recent: s.recent, started: make(chan struct{})}
}

// Start scrapes until the context ends, and returns when no scrape is running any more. It always returns nil. It
// implements Runnable of controller-runtime, and must be called once.
func (s *Source) Start(ctx context.Context) error {
	s.recent.begin(s.options.Clock.Now())
	close(s.started)
	var beside sync.WaitGroup
	beside.Go(func() { s.monitor.run(ctx) })
	s.scraper.run(ctx)
	beside.Wait()
	return nil
}

// NeedLeaderElection returns true: only the leader scrapes, so that each kubelet is asked once.
func (s *Source) NeedLeaderElection() bool { return true }

// Since returns the time at which scraping began. It waits until it has. The error is that of the context.
func (s *Source) Since(ctx context.Context) (time.Time, error) {
	err := s.wait(ctx)
	return s.recent.began(), err
}

// Read implements usage.Source with the expressions that Prometheus servers are asked with. A rate needs two
// scrapes, so the rate window is raised to two and a half intervals. An answer is partial while a kubelet does not
// answer. Samples above query.Most are dropped; where that is not known, those above 1.5 times the biggest node that was
// scraped.
func (s *Source) Read(ctx context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	// Four windows and a little more are needed, as queries are late where there are many.
	query.RateWindow = max(query.RateWindow, s.options.Interval*5/2)
	s.recent.need(4*max(query.Step, query.RateWindow) + 2*time.Minute)
	began := s.options.Clock.Now()
	if query.Most == (usage.Most{}) {
		query.Most = usage.MostOn(s.scraper.targets.most())
	}
	report, err := prometheus.Read(ctx, prometheus.Everything, query, s.askRange, yield)
	s.options.Metrics.meter.Read(name, s.options.Clock.Since(began))
	s.monitor.warn(&report)
	return report, err
}
