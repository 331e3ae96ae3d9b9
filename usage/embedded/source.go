// Package embedded is a usage source that needs no server: it scrapes the kubelets itself, keeps the newest
// samples in memory and all of them for some days on disk, and answers through Prometheus's own query engine,
// with the same expressions as a Prometheus server is asked with.
//
// A sample's way:
//
//	scraper ──reader──► recent (memory) ──queue──► disk (raw.Store in a folder)
//	                       └────────┬───────────────┘
//	                 evaluator: Read, Value, signals
//
// What holds throughout:
//   - Memory accepts the samples of a series in the order of their times; the disk gets those that memory has accepted.
//   - Memory has all samples of its window. The evaluator reads the disk only for what is older.
//   - No scrape and no query waits for a disk that hangs: the queue is bounded, and what does not fit is lost and counted.
//   - A kubelet is trusted with usage of pods that the API server places on its node, and of the node itself. Usage
//     beyond the biggest node's capacity is dropped.
package embedded

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
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
	maxQuery   = time.Minute
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
	Cluster Cluster
	// Transport to the kubelets; see Kubelets.
	Transport http.RoundTripper
	// Interval between two scrapes of a kubelet.
	Interval time.Duration
	// NodePressure: every kubelet is asked for its node's own CPU pressure too (PSI of the root cgroup), which only
	// cAdvisor has.
	NodePressure bool
	Disk         Disk
	Clock        clock.WithTicker
	Log          *slog.Logger
	Metrics      *Metrics
}

// Source scrapes while Start runs, and answers from then on: until the disk can be read, or is not waited for any longer,
// calls wait. It is a usage.Source, and safe for concurrent use.
type Source struct {
	options Options
	scraper *scraper
	*evaluator
	*signals
	monitor *monitor
}

var _ usage.Source = (*Source)(nil)

// New does nothing yet.
func New(o Options) *Source {
	e := newEvaluator(o)
	keep := func(batch []scraped) { e.disk.waiting.add(e.recent.append(batch, o.Clock.Now())) }
	s := newScraper(o, e.recent.intern, keep)
	return &Source{
		options: o, scraper: s, evaluator: e, signals: &signals{evaluator: e, scraper: s},
		monitor: &monitor{recent: e.recent, disk: e.disk, targets: &s.targets, interval: o.Interval, clock: o.Clock, log: o.Log, metrics: o.Metrics},
	}
}

// Start scrapes until the context ends, and returns when no scrape goes on any more and the disk is closed, or does not
// answer within closeWithin. It always returns nil: a failure of the disk is logged, and scraping goes on.
func (s *Source) Start(ctx context.Context) error {
	opened, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s.disk.run(ctx, func() { close(opened) })
	}()
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

// NeedLeaderElection is true: one replica scrapes.
func (s *Source) NeedLeaderElection() bool { return true }

// Since is the time of the oldest sample that can be asked for. It waits until the disk can be read.
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

// Read answers with the expressions that Prometheus servers are asked with. A rate needs two scrapes, so
// its window is at least two and a half intervals. An answer is partial while a kubelet does not answer.
func (s *Source) Read(ctx context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	if err := s.wait(ctx); err != nil {
		return usage.Report{}, err
	}
	query.RateWindow = max(query.RateWindow, s.options.Interval*5/2)
	s.recent.keepFor(4*max(query.Step, query.RateWindow)+2*time.Minute, s.options.Clock.Now())
	began := s.options.Clock.Now()
	implausible := 0
	cores, bytes := s.scraper.targets.most()
	report, err := prometheus.Read(ctx, prometheus.Everything, query, s.askRange, func(series usage.Series) {
		implausible += cut(&series, cores, bytes)
		yield(series)
	})
	s.options.Metrics.asked(s.options.Clock.Since(began))
	report.Samples -= implausible
	report.Drop(usage.DropImplausible, implausible)
	s.monitor.warn(&report)
	return report, err
}

// cut samples that are more than any node has, in place, and count them.
func cut(series *usage.Series, cores, bytes float64) int {
	before := len(series.CPU) + len(series.CPUPeak) + len(series.Memory)
	series.CPU = atMost(series.CPU, cores*clockError)
	series.CPUPeak = atMost(series.CPUPeak, cores*clockError)
	series.Memory = atMost(series.Memory, bytes)
	return before - len(series.CPU) - len(series.CPUPeak) - len(series.Memory)
}

// clockError is how much faster a counter may seem to run than it does, between two readings by a kubelet.
const clockError = 1.5

// atMost leaves out greater samples; 0 is no limit.
func atMost(samples []usage.Sample, most float64) []usage.Sample {
	if most <= 0 {
		return samples
	}
	return slices.DeleteFunc(samples, func(s usage.Sample) bool { return s.Value > most })
}
