// Package embedded is a usage source that needs no server. It scrapes the kubelets itself, keeps the newest
// samples in memory and all samples of some days on disk, and answers through Prometheus's own query engine, with
// the same expressions that a Prometheus server is asked with.
//
// The way of a sample:
//
//	scraper ──reader──► recent (memory) ──queue──► disk (raw.Store in a folder)
//	                       └────────┬───────────────┘
//	                 evaluator: Read, Value, signals
//
// The scraper asks each kubelet when its turn comes (targets, schedule). A reader turns the text of the answer
// into samples and drops those that the kubelet may not report. recent accepts the samples that are new, and the
// queue passes them to the disk. An evaluator reads memory first, and the disk for what is older.
//
// What always holds:
//   - Memory accepts the samples of a series in the order of their times; the disk gets those that memory has
//     accepted.
//   - Memory has all samples of its window. The evaluator reads the disk only for what is older.
//   - No scrape and no query waits for a disk that hangs: the queue is bounded, and what does not fit is lost and
//     counted.
//   - A kubelet is trusted with usage of pods that the API server places on its node, and of the node itself.
//     Usage beyond the biggest node's capacity is dropped.
//
// Start reading at source.go, then scraper.go, reader.go, recent.go and query.go. disk.go can be left out:
// everything works without it.
package embedded

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

const (
	// minWindow and maxWindow bound how long samples are kept in memory, whatever a policy asks for: older ones are read
	// from the disk.
	minWindow, maxWindow = 20 * time.Minute, time.Hour
	// maxSamples bounds what one query may hold in memory, 16 bytes each; beyond it, usage.ErrTooMuch.
	maxSamples = 5_000_000
	// maxQuery bounds the time of one query; beyond it, usage.ErrTooMuch.
	maxQuery = time.Minute
	// lookEvery is how often old samples are removed from memory and disk, and the gauges are set.
	lookEvery = time.Minute
	// openWithin and closeWithin are how long Start waits for a disk. A manager waits 30 s for what it stops.
	openWithin, closeWithin = 30 * time.Second, 10 * time.Second
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
	// Disk is the folder for raw samples; the zero value: none is used.
	Disk Disk
	// Clock paces scrapes and ages samples; tests set their own.
	Clock clock.WithTicker
	// Log receives failures with the names of nodes. It must not be nil.
	Log *slog.Logger
	// Metrics counts scrapes and samples. It must not be nil.
	Metrics *Metrics
}

// Source scrapes kubelets while Start runs, and answers queries from then on. Calls wait until the disk can be
// read, or is not waited for any longer (openWithin). It is a usage.Source, and safe for concurrent use.
type Source struct {
	options Options
	scraper *scraper
	*evaluator
	*signals
	monitor *monitor
}

var _ usage.Source = (*Source)(nil)

// New makes a source. It opens nothing and asks no kubelet before Start.
func New(o Options) *Source {
	// Samples go to memory first. Only those that memory accepts are queued for the disk.
	e := newEvaluator(o)
	keep := func(batch []scraped) { e.disk.waiting.add(e.recent.append(batch, o.Clock.Now())) }
	s := newScraper(o, e.recent.intern, keep, e.recent.trace)
	return &Source{
		options: o, scraper: s, evaluator: e, signals: &signals{evaluator: e, scraper: s},
		monitor: &monitor{recent: e.recent, disk: e.disk, targets: &s.targets, interval: o.Interval, clock: o.Clock, log: o.Log, metrics: o.Metrics},
	}
}

// Start scrapes until the context ends. It returns when no scrape is running any more and the disk is closed, or
// has not answered within closeWithin. It always returns nil: a failure of the disk is logged, and scraping goes
// on. It implements Runnable of controller-runtime, and must be called once.
func (s *Source) Start(ctx context.Context) error {
	opened, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s.disk.run(ctx, func() { close(opened) })
	}()
	// Scraping begins while the disk is still being opened: a slow disk must not delay recommendations.
	s.recent.begin(s.options.Clock.Now())
	var beside sync.WaitGroup
	beside.Go(func() { s.start(ctx, opened) })
	beside.Go(func() { s.monitor.run(ctx) })
	s.scraper.run(ctx)
	beside.Wait()
	s.stop(ended)
	return nil
}

// start to answer when the disk can be read, or was not opened in time.
// It closes evaluator.started, on which all queries wait.
func (s *Source) start(ctx context.Context, opened <-chan struct{}) {
	defer close(s.started)
	patience := s.options.Clock.NewTimer(openWithin)
	defer patience.Stop()
	select {
	case <-opened:
	case <-ctx.Done():
	case <-patience.C():
		s.options.Log.Error("the disk does not answer; recommendations go on from memory", "dir", s.options.Disk.Dir)
	}
}

// stop when the disk is closed. One that hangs is not waited for: what was not written is lost, and the kernel releases
// its lock with the process.
func (s *Source) stop(ended <-chan struct{}) {
	patience := s.options.Clock.NewTimer(closeWithin)
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C():
		s.options.Log.Error("the disk does not answer, and is not waited for", "dir", s.options.Disk.Dir)
	}
}

// NeedLeaderElection returns true: only the leader scrapes, so that each kubelet is asked once.
func (s *Source) NeedLeaderElection() bool { return true }

// Since returns the time of the oldest sample on disk; where there is none, the time at which scraping began. It
// waits until the disk can be read. The error is that of the context.
func (s *Source) Since(ctx context.Context) (time.Time, error) {
	if err := s.wait(ctx); err != nil {
		return time.Time{}, err
	}
	_, oldest := s.disk.state()
	if oldest.IsZero() {
		oldest = s.recent.began()
	}
	return oldest, nil
}

// Read implements usage.Source with the expressions that Prometheus servers are asked with. A rate needs two
// scrapes, so the rate window is raised to two and a half intervals. An answer is partial while a kubelet does not
// answer, or while the disk is needed and cannot be read. Samples above query.Most
// are dropped; where that is not known, those above 1.5 times the biggest node that was scraped.
func (s *Source) Read(ctx context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	if err := s.wait(ctx); err != nil {
		return usage.Report{}, err
	}
	// Memory keeps four windows and a little more, so that the queries of the next minutes need no disk.
	query.RateWindow = max(query.RateWindow, s.options.Interval*5/2)
	s.recent.keepFor(4*max(query.Step, query.RateWindow)+2*time.Minute, s.options.Clock.Now())
	began := s.options.Clock.Now()
	if query.Most == (usage.Most{}) {
		query.Most = usage.MostOn(s.scraper.targets.most())
	}
	report, err := prometheus.Read(ctx, prometheus.Everything, query, s.askRange, yield)
	s.options.Metrics.asked(s.options.Clock.Since(began))
	s.monitor.warn(&report)
	return report, err
}
