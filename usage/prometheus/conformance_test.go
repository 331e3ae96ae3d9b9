package prometheus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage/embedded/raw"
	"attune.io/attune/usage/prometheus"
	"attune.io/attune/usage/sourcetest"
)

// TestConformance asks Prometheus's own engine through the HTTP API.
func TestConformance(t *testing.T) {
	sourcetest.Run(t, func(t *testing.T, past sourcetest.Past) sourcetest.Subject {
		var all []raw.Entry
		for at := past.From; !at.After(past.To); at = at.Add(past.Every) {
			all = append(all, scraped(at, past.World(at))...)
		}
		server := httptest.NewServer(api{promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute}), stored(t, all)})
		t.Cleanup(server.Close)
		return newClient(t, prometheus.Config{Address: server.URL})
	})
}

// stored are samples that the engine can read.
func stored(t *testing.T, all []raw.Entry) storage.Queryable {
	t.Helper()
	store, err := raw.Open(raw.Options{Dir: t.TempDir(), Retention: 24 * time.Hour, MaxBytes: 1 << 30, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	require.NoError(t, store.Append(all))
	return storage.QueryableFunc(store.Querier)
}

// scraped is what a Prometheus server keeps of cAdvisor: with more labels than are asked for, and the pods' own cgroups
// beside the containers.
func scraped(at time.Time, measured []sourcetest.Measured) (all []raw.Entry) {
	write := func(name string, m sourcetest.Measured, container string, value float64) {
		id := fmt.Sprintf("/kubepods/%s/%s/%s", m.Namespace, m.Pod, container)
		of := labels.FromStrings(labels.MetricName, name, "namespace", m.Namespace, "pod", m.Pod, "container", container,
			"id", id, "job", "cadvisor", "instance", "10.0.0.1:10250")
		all = append(all, raw.Entry{Labels: of, Sample: raw.Sample{At: at.UnixMilli(), Value: value}})
	}
	for _, m := range measured {
		for _, container := range []string{m.Container, "", "POD"} {
			if container != m.Container && m.Container != "app" {
				continue
			}
			factor := 1.0
			if container == "" {
				factor = 7
			}
			write("container_cpu_usage_seconds_total", m, container, factor*m.CPUSeconds)
			write("container_memory_working_set_bytes", m, container, factor*m.MemoryBytes)
		}
		if m.Periods > 0 {
			write("container_cpu_cfs_periods_total", m, m.Container, m.Periods)
			write("container_cpu_cfs_throttled_periods_total", m, m.Container, m.Throttled)
		}
	}
	return all
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
