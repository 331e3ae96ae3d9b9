// Package embedded is a usage source that needs no server: it scrapes the kubelets itself, keeps the newest
// samples in memory and all of them for some days on disk, and answers through Prometheus's own query engine,
// with the same expressions as a Prometheus server is asked with.
package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/promql"
	"k8s.io/utils/clock"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

const (
	// minWindow and maxWindow bound how long samples are kept in memory, whatever a policy asks for: what is older is read
	// from the disk.
	minWindow, maxWindow = 20 * time.Minute, time.Hour
	// maxSamples bounds what one query may hold in memory, 16 bytes each; beyond it, usage.ErrTooMuch.
	maxSamples = 5_000_000
	maxQuery   = time.Minute
	// lookEvery is how often the disk is looked after, and what is in memory.
	lookEvery = time.Minute
	// openWithin and closeWithin are how long a disk is waited for. A manager waits 30 s for what it stops.
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

// Source scrapes while Start runs, and answers from then on. It is a usage.Source.
type Source struct {
	options Options
	recent  *recent
	disk    *disk
	scraper *scraper
	engine  *promql.Engine
	// started is closed when what is on disk can be read, or the disk does not answer.
	started chan struct{}
	// heavy: it was said that there is too much to scrape.
	heavy atomic.Bool
	// told is what the log said last of nodes that do not answer; lookAfter alone has it.
	told []string
}

var _ usage.Source = (*Source)(nil)

// New does nothing yet.
func New(o Options) *Source {
	s := &Source{
		options: o,
		recent:  newRecent(minWindow, o.Clock.Now()),
		disk:    newDisk(o.Disk, o.Clock, o.Log),
		started: make(chan struct{}),
		engine: promql.NewEngine(promql.EngineOpts{
			Logger: warnings(o.Log), MaxSamples: maxSamples, Timeout: maxQuery, LookbackDelta: 5 * time.Minute,
			EnableAtModifier: true, EnableNegativeOffset: true,
			NoStepSubqueryIntervalFn: func(int64) int64 { return o.Interval.Milliseconds() },
		}),
	}
	s.scraper = &scraper{
		cluster: o.Cluster, kubelets: newKubelets(o.Transport), interval: o.Interval, clock: o.Clock, log: o.Log, metrics: o.Metrics,
		targets: map[string]*target{}, intern: s.recent.intern, keep: s.keep, pressure: o.NodePressure,
	}
	return s
}

// keep what was scraped: in memory, which decisions rest on. The disk takes it when it can.
func (s *Source) keep(batch []scraped) {
	s.disk.waiting.add(s.recent.append(batch, s.options.Clock.Now()))
}

// Start scrapes until the context ends.
func (s *Source) Start(ctx context.Context) error {
	opened, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		s.disk.run(ctx, func() { close(opened) })
	}()
	s.recent.begin(s.options.Clock.Now())
	var beside sync.WaitGroup
	beside.Go(func() { s.answer(ctx, opened) })
	beside.Go(func() { s.lookAfter(ctx) })
	s.scraper.run(ctx)
	beside.Wait()
	s.leave(ended)
	return nil
}

// answer from when the disk can be read, or has not come in time.
func (s *Source) answer(ctx context.Context, opened <-chan struct{}) {
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

// leave when the disk is closed. One that hangs is not waited for: what it has not taken is lost, and the kernel lets its
// lock go with the process.
func (s *Source) leave(ended <-chan struct{}) {
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

func (s *Source) lookAfter(ctx context.Context) {
	ticker := s.options.Clock.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C():
		}
		s.recent.forget(s.options.Clock.Now())
		idle, _ := s.disk.state()
		s.options.Metrics.state(s.recent.count(""), idle == nil)
		s.weigh()
		s.tellFailing()
	}
}

// weigh says once that there are more containers than one operator carries.
func (s *Source) weigh() {
	load := s.load()
	if load > 1 && !s.heavy.Swap(load > 1) {
		s.options.Log.Warn(tooMany(load))
	}
}

// load is how much there is to scrape, as a part of the ceiling.
func (s *Source) load() float64 {
	containers := s.recent.count(memoryMetric)
	return float64(containers) / Ceiling * (time.Minute.Seconds() / s.options.Interval.Seconds())
}

func tooMany(load float64) string {
	return fmt.Sprintf("there is %.1f times as much to scrape as one operator carries: raise usage.interval, or set usage.source to prometheus", load)
}

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

func (s *Source) wait(ctx context.Context) error {
	select {
	case <-s.started:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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
	lies := 0
	cores, bytes := s.scraper.most()
	report, err := prometheus.Read(ctx, prometheus.Everything, query, s.askRange, func(series usage.Series) {
		lies += s.cut(&series, cores, bytes)
		yield(series)
	})
	s.options.Metrics.asked(s.options.Clock.Since(began))
	report.Samples -= lies
	report.Drop(usage.DropImplausible, lies)
	s.complain(&report)
	return report, err
}

// cut samples that are more than any node has, in place, and count them.
func (s *Source) cut(series *usage.Series, cores, bytes float64) int {
	before := len(series.CPU) + len(series.CPUPeak) + len(series.Memory)
	series.CPU = atMost(series.CPU, cores*clockError)
	series.CPUPeak = atMost(series.CPUPeak, cores*clockError)
	series.Memory = atMost(series.Memory, bytes)
	return before - len(series.CPU) - len(series.CPUPeak) - len(series.Memory)
}

// clockError is how much faster a counter may seem to run than it does, between two readings by a kubelet.
const clockError = 1.5

// atMost leaves out what is more; 0 is no limit.
func atMost(samples []usage.Sample, most float64) []usage.Sample {
	if most <= 0 {
		return samples
	}
	return slices.DeleteFunc(samples, func(s usage.Sample) bool { return s.Value > most })
}

// mostNamed nodes that do not answer are named in one line of the log.
const mostNamed = 10

// complain in a report of too much to do, and of the kubelets that do not answer. Everybody who has a policy reads it: how
// nodes are called, and what is wrong with them, is for the log.
func (s *Source) complain(report *usage.Report) {
	if load := s.load(); load > 1 {
		report.Warn(tooMany(load))
	}
	failing, nodes := s.scraper.failing()
	report.Partial = report.Partial || len(failing) > 0
	if len(failing) > 0 {
		report.Warn(fmt.Sprintf("%d of %d nodes cannot be scraped; the operator's log says which ones, and why", len(failing), nodes))
	}
}

// tellFailing writes into the log which kubelets do not answer, and why, where that is news.
func (s *Source) tellFailing() {
	failing, nodes := s.scraper.failing()
	if slices.Equal(failing, s.told) {
		return
	}
	s.told = failing
	if len(failing) == 0 {
		s.options.Log.Info("all nodes can be scraped again", "nodes", nodes)
		return
	}
	s.options.Log.Warn("nodes cannot be scraped", "failing", len(failing), "nodes", nodes, "causes", failing[:min(len(failing), mostNamed)])
}
