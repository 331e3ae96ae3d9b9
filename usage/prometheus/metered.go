package prometheus

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/lru"

	"attune.io/attune/usage"
)

// Metered is a Client that counts its queries and answers. It is a usage.Source, and answers the loops' queries about
// running pods. The meter's query types are usage, throttling, waiting, memory, oomkills, slo, load and climbs.
type Metered struct {
	// Client queries the server.
	Client *Client
	// Meter counts; it must not be nil.
	Meter *Meter
	// Namespace of the policies that name the server; empty for the operator's own server.
	Namespace string
	// Failed is called with the error when the server gave no answer; nil: it is not called.
	Failed func(error)
}

var _ usage.Source = Metered{}

// Read implements usage.Source.
func (m Metered) Read(ctx context.Context, query usage.Query, yield func(usage.Series)) (usage.Report, error) {
	began := time.Now()
	newest := int64(0)
	dropped := query.CountDropped()
	report, err := m.Client.Read(ctx, query, func(s usage.Series) {
		newest = max(newest, usage.Newest(s.CPU), usage.Newest(s.Memory))
		yield(s)
	})
	took := time.Since(began)
	m.Meter.Took(Name, report.Samples, newest)
	if err == nil { // after an error, the same samples are read again
		m.Meter.Dropped(Name, dropped)
	}
	m.Meter.Read(Name, took)
	m.count("usage", took, err)
	return report, err
}

// Throttled returns the fraction, 0 to 1, of CFS periods in which each container of some pods was throttled (see
// Scope.Throttled). A container without measurements is missing.
func (m Metered) Throttled(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	return m.pods(ctx, "throttling", pods, at, func(pods []string) string { return m.Client.Scope().Throttled(namespace, pods, window) })
}

// Waiting returns the fraction, 0 to 1, of time in which each container of some pods waited for CPU (see
// Scope.Waiting).
func (m Metered) Waiting(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	return m.pods(ctx, "waiting", pods, at, func(pods []string) string { return m.Client.Scope().Waiting(namespace, pods, window) })
}

// Memory returns the peak memory, in bytes, of each container of some pods (see Scope.Held).
func (m Metered) Memory(ctx context.Context, namespace string, pods []string, window time.Duration, at time.Time) (usage.ByContainer, error) {
	return m.pods(ctx, "memory", pods, at, func(pods []string) string { return m.Client.Scope().Held(namespace, pods, window) })
}

// OOMKills returns how many processes of each container the kernel killed within its pod's window (see
// Scope.Killed).
func (m Metered) OOMKills(ctx context.Context, namespace string, windows map[string]time.Duration, at time.Time) (usage.ByContainer, error) {
	return counted(m, "oomkills", func() (usage.ByContainer, error) {
		return AskSince(ctx, windows, at, m.Client.Range, func(pods []string, window time.Duration) string {
			return m.Client.Scope().Killed(namespace, pods, window)
		})
	})
}

// Value evaluates the query of a guardrail, as Client.Value does.
func (m Metered) Value(ctx context.Context, query string, at time.Time) (float64, error) {
	return counted(m, "slo", func() (float64, error) { return m.Client.Value(ctx, query, at) })
}

// Nodes evaluates an expression about all nodes, as AskNodes does.
func (m Metered) Nodes(ctx context.Context, expression string, at time.Time) (map[string]float64, error) {
	return counted(m, "load", func() (map[string]float64, error) { return AskNodes(ctx, expression, at, m.Client.Range) })
}

// Range evaluates an expression at each step of a query, as Client.Range does.
func (m Metered) Range(ctx context.Context, expression string, query usage.Query, yield func(Element)) (usage.Report, error) {
	return counted(m, "climbs", func() (usage.Report, error) { return m.Client.Range(ctx, expression, query, yield) })
}

// pods queries containers of some pods, in a few requests; the answer counts as one.
func (m Metered) pods(ctx context.Context, what string, pods []string, at time.Time, expression func([]string) string) (usage.ByContainer, error) {
	return counted(m, what, func() (usage.ByContainer, error) { return AskPods(ctx, pods, at, m.Client.Range, expression) })
}

// counted runs a query of a type, and counts it.
func counted[T any](m Metered, what string, ask func() (T, error)) (T, error) {
	began := time.Now()
	answer, err := ask()
	m.count(what, time.Since(began), err)
	return answer, err
}

// count counts a query. An answer without matches counts as a success, and so does a query that the caller cancelled:
// neither is a failure of the server.
func (m Metered) count(what string, took time.Duration, err error) {
	if errors.Is(err, ErrNoValue) || errors.Is(err, context.Canceled) {
		err = nil
	}
	if err != nil && m.Failed != nil {
		m.Failed(err)
	}
	m.Meter.Asked(m.Namespace, what, took, err)
}

// Name of this source in metrics and flags.
const Name = "prometheus"

// Meter counts the queries to usage sources and their answers. It is safe for concurrent use.
type Meter struct {
	samples *prometheus.CounterVec
	dropped *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	queries *prometheus.HistogramVec
	errors  *prometheus.CounterVec
	// newest is in Unix seconds. latest is the same by source in milliseconds; mutex guards it.
	newest *prometheus.GaugeVec
	mutex  sync.Mutex
	latest map[string]int64
	// failed has the namespaces with series of errors; mutex guards them together with the series.
	failed *lru.Cache
}

// mostNamespaces bounds the namespaces with series of errors. Otherwise a user who keeps creating namespaces would
// create series without limit.
const mostNamespaces = 1000

// NewMeter registers the metrics. It panics if one of them is already registered.
func NewMeter(registry prometheus.Registerer) *Meter {
	m := &Meter{
		samples: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attune_usage_samples_total", Help: "Usage samples read, by source.",
		}, []string{"source"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attune_usage_samples_dropped_total", Help: "Usage samples dropped, by source and reason.",
		}, []string{"source", "reason"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "attune_usage_query_seconds", Help: "Duration of usage queries in seconds, by source.", Buckets: prometheus.ExponentialBuckets(.001, 4, 9),
		}, []string{"source"}),
		queries: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "attune_prometheus_query_duration_seconds",
			Help:    "Duration of queries of Prometheus servers in seconds, by query_type: usage, throttling, waiting, memory, oomkills, slo, load or climbs.",
			Buckets: prometheus.ExponentialBuckets(.005, 3, 9),
		}, []string{"query_type"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "attune_prometheus_query_errors_total",
			Help: "Failed queries of Prometheus servers, by query_type and by the namespace of the policies that name the server. An empty namespace is the operator's own server.",
		}, []string{"namespace", "query_type"}),
		newest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "attune_usage_newest_sample_timestamp_seconds", Help: "Time of the newest usage sample in Unix seconds, by source.",
		}, []string{"source"}),
		latest: map[string]int64{},
	}
	m.failed = lru.NewWithEvictionFunc(mostNamespaces, func(namespace lru.Key, _ any) {
		m.errors.DeletePartialMatch(prometheus.Labels{"namespace": namespace.(string)})
	})
	registry.MustRegister(m.samples, m.dropped, m.seconds, m.queries, m.errors, m.newest)
	return m
}

// Took counts samples of a source, by the name of the source. newest is the time of the newest one, in Unix
// milliseconds; older samples that arrive later do not lower it.
func (m *Meter) Took(source string, samples int, newest int64) {
	m.samples.WithLabelValues(source).Add(float64(samples))
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if newest > m.latest[source] {
		m.latest[source] = newest
		m.newest.WithLabelValues(source).Set(float64(newest) / 1000)
	}
}

// Dropped counts dropped samples of a source by reason.
func (m *Meter) Dropped(source string, dropped map[usage.Drop]int) {
	for why, n := range dropped {
		m.dropped.WithLabelValues(source, why.Label()).Add(float64(n))
	}
}

// Read counts a read of usage from a source.
func (m *Meter) Read(source string, took time.Duration) {
	m.seconds.WithLabelValues(source).Observe(took.Seconds())
}

// Asked counts a query of a Prometheus server. err counts as an error of the namespace; nil means answered.
func (m *Meter) Asked(namespace, query string, took time.Duration, err error) {
	m.queries.WithLabelValues(query).Observe(took.Seconds())
	if err == nil {
		return
	}
	// The namespace with the oldest failure loses its series; the operator's own server keeps its series.
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if namespace != "" {
		m.failed.Add(namespace, nil)
	}
	m.errors.WithLabelValues(namespace, query).Inc()
}

const (
	// clientLasts is how long a client is used before its credentials are read again.
	clientLasts = 5 * time.Minute
	// mostClients bounds the clients: the most recently used stay.
	mostClients = 256
)

// Clients keeps clients between the queries about observed pods and nodes: connections, transports and credentials. A
// client that gave no answer is dropped, so that a changed Secret is read again. mostClients bounds it. It is safe for
// concurrent use. The transport closes the connections of an expired client after they have been idle for a while.
type Clients struct{ known *cache.LRUExpireCache }

// NewClients returns an empty Clients; now is the clock for expiry.
func NewClients(now cache.Clock) Clients {
	return Clients{cache.NewLRUExpireCacheWithClock(mostClients, now)}
}

// Of returns the client of the settings with this digest. It calls dial if there is no client younger than clientLasts.
// Two callers may make a client each; the later one is kept. Errors come from dial.
func (c Clients) Of(digest usage.Digest, dial func() (Metered, error)) (Metered, error) {
	if known, ok := c.known.Get(digest); ok {
		return known.(Metered), nil
	}
	made, err := dial()
	if err == nil {
		c.known.Add(digest, made, clientLasts)
	}
	return made, err
}

// Drop removes a client that gave no answer, unless it was already replaced.
func (c Clients) Drop(digest usage.Digest, failed *Client) {
	if known, ok := c.known.Get(digest); ok && known.(Metered).Client == failed {
		c.known.Remove(digest)
		failed.Close()
	}
}
