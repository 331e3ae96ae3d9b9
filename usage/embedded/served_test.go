package embedded

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage/prometheus"
	"attune.io/attune/usage/usagetest"
)

// TestPrometheusConforms queries Prometheus's own engine through the HTTP API.
func TestPrometheusConforms(t *testing.T) {
	usagetest.TestEvaluator(t, func(t *testing.T, past usagetest.Past) *prometheus.Client {
		all := memory{}
		for at := past.From; !at.After(past.To); at = at.Add(past.Every) {
			all.scrape(at, past.World(at))
		}
		server := httptest.NewServer(api{promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute}), all})
		t.Cleanup(server.Close)
		client, err := prometheus.New(prometheus.Config{Address: server.URL})
		require.NoError(t, err)
		return client
	})
}

// memory has samples by the text of their labels. The engine reads them.
type memory map[string]*promql.Series

// add a sample; the samples of one series come in order of time.
func (m memory) add(of labels.Labels, at time.Time, value float64) {
	if m[of.String()] == nil {
		m[of.String()] = &promql.Series{Metric: of}
	}
	series := m[of.String()]
	series.Floats = append(series.Floats, promql.FPoint{T: at.UnixMilli(), F: value})
}

// Querier implements storage.Queryable. The engine skips samples outside its time range.
func (m memory) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &seriesSet{at: -1}
		for _, series := range m {
			if !slices.ContainsFunc(matchers, func(of *labels.Matcher) bool { return !of.Matches(series.Metric.Get(of.Name)) }) {
				found.series = append(found.series, *series)
			}
		}
		slices.SortFunc(found.series, func(a, b promql.Series) int { return labels.Compare(a.Metric, b.Metric) })
		return found
	}}, nil
}

// scrape adds the series that a Prometheus server stores from cAdvisor: with more labels than needed, and with the
// pods' own cgroups.
func (m memory) scrape(at time.Time, measured []Measured) {
	write := func(name string, c Measured, container string, value float64) {
		id := fmt.Sprintf("/kubepods/%s/%s/%s", c.Namespace, c.Pod, container)
		m.add(labels.FromStrings(labels.MetricName, name, "namespace", c.Namespace, "pod", c.Pod, "container", container,
			"id", id, "job", "cadvisor", "instance", "10.0.0.1:10250"), at, value)
	}
	for _, c := range measured {
		for _, container := range []string{c.Container, "", "POD"} {
			if container != c.Container && c.Container != "app" {
				continue
			}
			factor := 1.0
			if container == "" {
				factor = 7
			}
			write("container_cpu_usage_seconds_total", c, container, factor*c.CPUSeconds)
			write("container_memory_working_set_bytes", c, container, factor*c.MemoryBytes)
		}
		if c.Periods > 0 {
			write("container_cpu_cfs_periods_total", c, c.Container, c.Periods)
			write("container_cpu_cfs_throttled_periods_total", c, c.Container, c.Throttled)
		}
	}
}

// api answers queries as Prometheus's HTTP API does.
type api struct {
	engine *promql.Engine
	db     storage.Queryable
}

func (a api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	result, err := a.run(r.Context(), r)
	answer := map[string]any{"status": "success"}
	if err == nil {
		err = result.Err
	}
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		answer = map[string]any{"status": "error", "errorType": "execution", "error": err.Error()}
	} else {
		answer["data"] = map[string]any{"resultType": result.Value.Type(), "result": result.Value}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (a api) run(ctx context.Context, r *http.Request) (*promql.Result, error) {
	moment := func(name string) time.Time {
		seconds, _ := strconv.ParseFloat(r.FormValue(name), 64)
		return time.UnixMilli(int64(seconds * 1000))
	}
	query := r.FormValue("query")
	if r.URL.Path == "/api/v1/query" {
		q, err := a.engine.NewInstantQuery(ctx, a.db, nil, query, moment("time"))
		if err != nil {
			return nil, err
		}
		return q.Exec(ctx), nil
	}
	step, _ := strconv.ParseFloat(r.FormValue("step"), 64)
	q, err := a.engine.NewRangeQuery(ctx, a.db, nil, query, moment("start"), moment("end"), time.Duration(step*float64(time.Second)))
	if err != nil {
		return nil, err
	}
	return q.Exec(ctx), nil
}
