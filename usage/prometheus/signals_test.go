package prometheus_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"attune.io/attune/usage"
	"attune.io/attune/usage/prometheus"
)

// moment is the time of the queries in these tests.
var moment = time.Date(2025, 6, 2, 12, 0, 0, 0, time.UTC)

// holding is a client of Prometheus's own engine over some series: each is a text like `up{job="x"}`, with its value at
// some minutes before the moment. It counts its queries.
func holding(t *testing.T, config prometheus.Config, series map[string]func(minutesBefore int) (float64, bool)) (client *prometheus.Client, asked *atomic.Int64) {
	t.Helper()
	all := memory{}
	for minutes := 10; minutes >= 0; minutes-- {
		for text, of := range series {
			if value, known := of(minutes); known {
				all.add(metric(text), moment.Add(-time.Duration(minutes)*time.Minute), value)
			}
		}
	}
	asked = &atomic.Int64{}
	answers := api{promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute}), all}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		assert.Less(t, len(r.FormValue("query")), 16<<10, "what VictoriaMetrics takes")
		answers.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	config.Address = server.URL
	if config.Now == nil {
		config.Now = func() time.Time { return moment }
	}
	return newClient(t, config), asked
}

// metric reads `name{a="b",c="d"}`.
func metric(text string) labels.Labels {
	name, rest, _ := strings.Cut(strings.TrimSuffix(text, "}"), "{")
	of := []string{labels.MetricName, name}
	for pair := range strings.SplitSeq(rest, ",") {
		if key, value, ok := strings.Cut(pair, "="); ok {
			of = append(of, key, strings.Trim(value, `"`))
		}
	}
	return labels.FromStrings(of...)
}

func steady(value float64) func(int) (float64, bool) {
	return func(int) (float64, bool) { return value, true }
}

// growing by so much per second, since long before.
func growing(perSecond float64) func(int) (float64, bool) {
	return func(minutes int) (float64, bool) { return perSecond * 60 * float64(100-minutes), true }
}

// stepped is one value until so many minutes ago, and another one since.
func stepped(minutes int, before, since float64) func(int) (float64, bool) {
	return func(at int) (float64, bool) {
		if at > minutes {
			return before, true
		}
		return since, true
	}
}

func cAdvisor(name, pod, container string) string {
	return fmt.Sprintf(`%s{namespace="shop",pod=%q,container=%q,id="/x/%s",job="kubelet"}`, name, pod, container, container)
}

// TestSignalsOfManyPods: one query returns all named pods and no others.
func TestSignalsOfManyPods(t *testing.T) {
	series := map[string]func(int) (float64, bool){}
	for _, pod := range []string{"web-1", "web-2", "web-11"} {
		for _, container := range []string{"app", "sidecar", "", "POD"} {
			series[cAdvisor("container_memory_usage_bytes", pod, container)] = stepped(3, 5e8, 1e8)
			series[cAdvisor("container_pressure_cpu_waiting_seconds_total", pod, container)] = growing(0.25)
			series[cAdvisor("container_cpu_cfs_periods_total", pod, container)] = growing(10)
			series[cAdvisor("container_cpu_cfs_throttled_periods_total", pod, container)] = growing(4)
		}
	}
	series[cAdvisor("container_cpu_cfs_periods_total", "web-2", "sidecar")] = growing(0)
	client, asked := holding(t, prometheus.Config{}, series)
	pods := []string{"web-1", "web-2", "gone"}
	for name, test := range map[string]struct {
		of   func(pods []string) string
		want usage.ByContainer
	}{
		"held within five minutes": {func(pods []string) string { return prometheus.Everything.Held("shop", pods, 5*time.Minute) },
			usage.ByContainer{"web-1": {"app": 5e8, "sidecar": 5e8}, "web-2": {"app": 5e8, "sidecar": 5e8}}},
		"held within two": {func(pods []string) string { return prometheus.Everything.Held("shop", pods, 2*time.Minute) },
			usage.ByContainer{"web-1": {"app": 1e8, "sidecar": 1e8}, "web-2": {"app": 1e8, "sidecar": 1e8}}},
		"waiting": {func(pods []string) string { return prometheus.Everything.Waiting("shop", pods, 5*time.Minute) },
			usage.ByContainer{"web-1": {"app": 0.25, "sidecar": 0.25}, "web-2": {"app": 0.25, "sidecar": 0.25}}},
	} {
		t.Run(name, func(t *testing.T) {
			before := asked.Load()
			got, err := prometheus.AskPods(t.Context(), pods, moment, client.Range, test.of)
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
			assert.EqualValues(t, 1, asked.Load()-before)
		})
	}
	got, err := prometheus.AskPods(t.Context(), pods, moment, client.Range, func(pods []string) string { return prometheus.Everything.Throttled("shop", pods, 5*time.Minute) })
	require.NoError(t, err)
	assert.InDelta(t, 0.4, got["web-1"]["app"], 1e-9)
	assert.InDelta(t, 0.4, got["web-2"]["app"], 1e-9)
	assert.NotContains(t, got, "web-11")
}

// TestKillsSinceEachPodsOwnTime: pods that were resized at different times share a query, and each gets the kills since
// its own resize.
func TestKillsSinceEachPodsOwnTime(t *testing.T) {
	series, windows, want := map[string]func(int) (float64, bool){}, map[string]time.Duration{}, map[string]float64{}
	for i := range 150 {
		pod := fmt.Sprintf("web-with-a-name-of-some-length-%04d", i)
		// One was killed nine minutes ago, and one five.
		series[cAdvisor("container_oom_events_total", pod, "app")] = func(minutes int) (float64, bool) {
			return 3 + map[bool]float64{true: 1}[minutes <= 9] + map[bool]float64{true: 1}[minutes <= 5], true
		}
		windows[pod] = time.Duration(3+i%4) * time.Minute
		want[pod] = map[bool]float64{true: 1}[i%4 >= 2]
	}
	client, asked := holding(t, prometheus.Config{}, series)
	got, err := prometheus.AskSince(t.Context(), windows, moment, client.Range, func(pods []string, window time.Duration) string {
		return prometheus.Everything.Killed("shop", pods, window)
	})
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for pod, kills := range want {
		// A window that begins with the sample that shows the kill counts the kill: it may have come after.
		if windows[pod] == 5*time.Minute {
			kills = 0
		}
		assert.InDelta(t, kills, got[pod]["app"], 0, "%s since %s", pod, windows[pod])
	}
	assert.LessOrEqual(t, asked.Load(), int64(4))
}

// TestNodesByWhateverTellsOfThem: the load of a node is found by its name, from a label of its exporter or from its
// kernel.
func TestNodesByWhateverTellsOfThem(t *testing.T) {
	client, asked := holding(t, prometheus.Config{}, map[string]func(int) (float64, bool){
		`node_load1{node="a",instance="1:9100",job="x"}`:                                            steady(2),
		`node_load1{instance="2:9100",job="x"}`:                                                     steady(3),
		`node_load1{instance="2:9100",job="y"}`:                                                     steady(4),
		`node_load1{instance="nobody:9100",job="x"}`:                                                steady(9),
		`node_uname_info{instance="2:9100",job="x",nodename="b",release="1"}`:                       steady(1),
		`node_uname_info{instance="2:9100",job="y",nodename="b",release="2"}`:                       steady(1),
		`container_pressure_cpu_waiting_seconds_total{id="/",node="a"}`:                             growing(0.5),
		`container_pressure_cpu_waiting_seconds_total{id="/kubepods",node="b"}`:                     growing(0.9),
		`container_cpu_usage_seconds_total{id="/",node="a"}`:                                        growing(1.5),
		`node_cpu_usage_seconds_total{node="b"}`:                                                    growing(2.5),
		`container_cpu_usage_seconds_total{id="/x",node="a",namespace="s",pod="p",container="app"}`: growing(7),
	})
	for name, test := range map[string]struct {
		of   string
		want map[string]float64
	}{
		"pressure": {prometheus.Everything.NodesPressure(5 * time.Minute), map[string]float64{"a": 0.5}},
		"load":     {prometheus.Everything.NodesLoad(), map[string]float64{"a": 2, "b": 4}},
		"usage":    {prometheus.Everything.NodesUsage(5 * time.Minute), map[string]float64{"a": 1.5, "b": 2.5}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := prometheus.AskNodes(context.Background(), test.of, moment, client.Range)
			require.NoError(t, err)
			assert.Equal(t, test.want, got)
		})
	}
	assert.EqualValues(t, 3, asked.Load())
}
