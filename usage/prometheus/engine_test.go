package prometheus_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

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

// seriesSet iterates over series.
type seriesSet struct {
	series []promql.Series
	at     int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at < len(s.series) }
func (s *seriesSet) At() storage.Series              { return promql.NewStorageSeries(s.series[s.at]) }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }

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
