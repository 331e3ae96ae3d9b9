// Package tsdb compares what the operator keeps of raw samples with Prometheus's own database.
package tsdb

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage/embedded/raw"
)

const free = 1 << 40

var noon = time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)

// both are a store and Prometheus's database with the same samples.
type both struct {
	t       *testing.T
	options raw.Options
	store   *raw.Store
	db      *tsdb.DB
}

func newBoth(t *testing.T) *both {
	t.Helper()
	b := &both{t: t, options: raw.Options{Dir: t.TempDir(), Retention: 30 * 24 * time.Hour, MaxBytes: free, Log: slog.New(slog.DiscardHandler)}}
	b.open()
	options := tsdb.DefaultOptions()
	options.OutOfOrderTimeWindow = time.Hour.Milliseconds()
	options.RetentionDuration = b.options.Retention.Milliseconds()
	var err error
	b.db, err = tsdb.Open(t.TempDir(), nil, nil, options, nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, b.db.Close()) })
	return b
}

func (b *both) open() {
	b.t.Helper()
	var err error
	b.store, err = raw.Open(b.options)
	require.NoError(b.t, err)
}

func (b *both) append(batch []raw.Entry) {
	b.t.Helper()
	require.NoError(b.t, b.store.Append(batch))
	appender := b.db.AppenderV2(b.t.Context())
	for _, e := range batch {
		_, err := appender.Append(0, e.Labels, 0, e.At, e.Value, nil, nil, storage.AppendV2Options{})
		require.NoError(b.t, err)
	}
	require.NoError(b.t, appender.Commit())
}

// scrapes of some hours: counters that start anew, gauges, pods that come and go, scrapes that are lost and answers that
// come in another order.
func (b *both) scrapes(seed uint64, from, to time.Time) {
	random := rand.New(rand.NewPCG(seed, 1))
	counters := map[int]float64{}
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		var batch []raw.Entry
		for pod := range 24 {
			if random.IntN(20) == 0 || int(at.Sub(from).Hours())%7 == pod%7 {
				continue
			}
			if random.IntN(200) == 0 {
				counters[pod] = 0
			}
			counters[pod] += random.Float64() * 60
			when := at.Add(time.Duration(pod*137) * time.Millisecond).UnixMilli()
			batch = append(batch,
				raw.Entry{Labels: of("container_cpu_usage_seconds_total", pod), Sample: raw.Sample{At: when, Value: counters[pod]}},
				raw.Entry{Labels: of("container_memory_working_set_bytes", pod), Sample: raw.Sample{At: when, Value: float64(random.IntN(1 << 30))}})
		}
		b.append(batch)
		switch random.IntN(40) {
		case 0:
			require.NoError(b.t, b.store.Close())
			b.open()
		case 1, 2, 3, 4, 5, 6, 7:
			require.NoError(b.t, b.store.Tend(at, free))
		}
	}
}

func of(metric string, pod int) labels.Labels {
	return labels.FromStrings(labels.MetricName, metric, "container", []string{"app", "proxy"}[pod%2],
		"namespace", fmt.Sprintf("ns-%d", pod%5), "pod", fmt.Sprintf("web-%d", pod))
}

var expressions = []string{
	`sum by (namespace, pod, container) (rate(container_cpu_usage_seconds_total{namespace=~"ns-1|ns-4"}[5m]))`,
	`max_over_time(rate(container_cpu_usage_seconds_total{container!="",namespace="ns-2"}[2m])[10m:1m])`,
	`max by (namespace, pod) (max_over_time(container_memory_working_set_bytes[5m]))`,
	`container_memory_working_set_bytes{pod=~"web-1.*",container!~"pro.*"}`,
	`count({namespace!="ns-3",pod=~"web.+"})`,
	`changes(container_cpu_usage_seconds_total[1h])`,
	`timestamp(container_memory_working_set_bytes{namespace=""}) or vector(1)`,
}

// Every expression has the same answer from both, at every step of three days, from packs of all lengths and the journal.
func TestRawSamplesAreReadAsPrometheusReadsThem(t *testing.T) {
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 5e7, Timeout: time.Minute, LookbackDelta: 5 * time.Minute})
	for seed := range uint64(3) {
		b := newBoth(t)
		end := noon.Add(60 * time.Hour)
		b.scrapes(seed, noon, end)
		for _, expression := range expressions {
			for _, part := range [][2]time.Time{{noon.Add(-time.Hour), end}, {noon.Add(13 * time.Hour), noon.Add(14 * time.Hour)}, {end.Add(-time.Hour), end}} {
				ask := func(from storage.Queryable) promql.Matrix {
					query, err := engine.NewRangeQuery(t.Context(), from, nil, expression, part[0], part[1], 5*time.Minute)
					require.NoError(t, err)
					result := query.Exec(t.Context())
					require.NoError(t, result.Err)
					matrix, err := result.Matrix()
					require.NoError(t, err)
					return matrix
				}
				want := ask(b.db)
				require.NotEmpty(t, want, expression)
				require.Equal(t, want.String(), ask(storage.QueryableFunc(b.store.Querier)).String(), "seed %d: %s", seed, expression)
			}
		}
		require.NoError(t, b.store.Close())
	}
}
