// Package embedded is a usage source that needs no server. It scrapes the kubelets itself, keeps the samples of the
// last hour in memory, and answers through Prometheus's own query engine, with the expressions used for a Prometheus
// server. Older usage is in the checkpoints of the histories (usage/history).
//
// The path of a sample:
//
//	scraper ──reader──► recent (memory) ◄── engine: Read, Value, signals
//
// The scraper scrapes each kubelet at its turn (targets, schedule). A reader turns the text of the answer into samples
// and drops those that the kubelet may not report. recent accepts the new samples.
//
// Invariants:
//   - Memory accepts the samples of a series in order of time.
//   - Memory has all samples of keptFor. For a namespace with more than mostSamples it has fewer. They always suffice
//     for recommendations, but a guardrail that reads further back gets an error.
//   - A kubelet is trusted only with usage of pods that the API server places on its node, and of the node itself.
//     Usage beyond the largest node's capacity is dropped.
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
	// maxSamples bounds the samples that one query may hold in memory, 16 bytes each; beyond it, usage.ErrTooMuch.
	maxSamples = 5_000_000
	// maxSamplesOfNamespace is the same for a query about one namespace: twice what memory keeps of a namespace
	// (mostSamples).
	maxSamplesOfNamespace = 2 * mostSamples
	// maxQuery bounds the time of one query; beyond it, usage.ErrTooMuch.
	maxQuery = time.Minute
	// lookEvery is how often old samples are removed from memory and the gauges are set.
	lookEvery = time.Minute
	// Ceiling is how many containers one operator can scrape once a minute, as measured (docs/usage-sources.md). Beyond
	// it, the operator continues and logs a warning.
	Ceiling = 20_000
)

// Options of a Source.
type Options struct {
	// Cluster has nodes and pods. Several goroutines call it.
	Cluster Cluster
	// Transport to the kubelets; see Kubelets.
	Transport http.RoundTripper
	// Interval is the time between two scrapes of a kubelet. It must be above 0.
	Interval time.Duration
	// NodePressure makes the scraper also read the CPU pressure (PSI) of every node. Only cAdvisor has it, as the
	// pressure of the root cgroup.
	NodePressure bool
	// Climb finds containers that approach their memory limits, so that their kubelets are scraped more often; nil
	// disables this.
	Climb *Climb
	// Clock paces scrapes and ages samples; tests set their own.
	Clock clock.WithTicker
	// Log receives failures with the names of nodes. It must not be nil.
	Log *slog.Logger
	// Metrics counts scrapes and samples. It must not be nil.
	Metrics *Metrics
}

// Source scrapes kubelets while Start runs, and answers queries from then on; earlier calls wait. It is a usage.Source,
// and safe for concurrent use.
type Source struct {
	options Options
	scraper *scraper
	monitor *monitor
	// engine evaluates expressions over recent. maxSamples and maxQuery limit each query.
	engine *promql.Engine
	// small evaluates expressions about one namespace, up to maxSamplesOfNamespace.
	small  *promql.Engine
	recent *recent
	// started is closed when scraping begins; queries wait for it.
	started chan struct{}
}

var _ usage.Source = (*Source)(nil)

// New returns a source. It scrapes no kubelet before Start.
func New(o Options) *Source {
	s := newScraper(o, newRecent(o.Clock.Now()))
	return &Source{options: o, scraper: s, monitor: &monitor{scraper: s}, engine: newEngine(o, maxSamples), small: newEngine(o, maxSamplesOfNamespace), recent: s.recent, started: make(chan struct{})}
}

// Start scrapes until the context ends, and returns after the last scrape has ended. It always returns nil. It
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

// NeedLeaderElection returns true: only the leader scrapes, so that each kubelet is scraped once.
func (s *Source) NeedLeaderElection() bool { return true }

// Since waits until scraping has begun, and returns when that was. It returns the error of the context.
func (s *Source) Since(ctx context.Context) (time.Time, error) {
	err := s.wait(ctx)
	return s.recent.began(), err
}

// Read implements usage.Source with the expressions for Prometheus servers. A rate needs two scrapes, so the rate
// window is raised to two and a half intervals. The answer is partial for namespaces with pods on nodes that are not
// scraped. Samples above query.Most are dropped. If it is not set, samples above 1.5 times the largest scraped node are
// dropped.
func (s *Source) Read(ctx context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	// Four windows and a margin, because queries run late when there are many.
	query.RateWindow = max(query.RateWindow, s.options.Interval*5/2)
	s.recent.need(4*max(query.Step, query.RateWindow) + 2*time.Minute)
	began := s.options.Clock.Now()
	if query.Most == (usage.Most{}) {
		query.Most = usage.MostOn(s.scraper.targets.most())
	}
	dropped := query.CountDropped()
	report, err := prometheus.Read(ctx, prometheus.Everything, query, s.askRange, yield)
	s.options.Metrics.meter.Read(name, s.options.Clock.Since(began))
	if err == nil { // after an error, the same samples are read again
		s.options.Metrics.meter.Dropped(name, dropped)
	}
	s.monitor.warn(ctx, &report)
	return report, err
}
